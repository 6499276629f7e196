// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One life of the driver's process without its sockets: the books and both services, started in the order of
// agent::Session, over any FileOps.
//
// Steps are done one after the other: settle() waits until the worker has nothing left to do, so that the
// same calls give the same result. Threads One user.

#ifndef DRACPU_CHAOS_LIFE_H_
#define DRACPU_CHAOS_LIFE_H_

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/books.h"
#include "agent/claim_service.h"
#include "agent/node.h"
#include "agent/runtime_service.h"
#include "agent/worker.h"
#include "base/file.h"
#include "observe/metrics.h"

namespace dracpu::chaos {

class Life {
 public:
  Life(const agent::Node& node, std::shared_ptr<const agent::Machine> machine, FileOps& disk,
       agent::ClaimReader reader);
  ~Life();

  struct Started {
    agent::Books::Loaded loaded;
    std::vector<Error> cdi_errors;
  };
  // An error: the process would end now. `log` hears the warnings when the driver would write them.
  Result<Started> start(const std::function<void(const std::vector<std::string>&)>& log);

  Result<std::vector<nri::ContainerUpdate>> connect(std::vector<nri::ContainerInfo> containers);
  void disconnect();
  bool is_connected() const { return connected_; }

  agent::Books& books() { return books_; }
  nri::Handler& runtime() { return runtime_; }
  kubelet::Handler& kubelet() { return *claims_; }
  void look_for_lost_claims() { claims_->collect_lost_claims(); }
  // On the worker, as the session does it.
  void rewrite_cdi();
  // The worker begins nothing new until resume().
  void hold();
  void resume();
  void settle();

 private:
  const agent::Node& node_;
  std::shared_ptr<const agent::Machine> machine_;
  agent::ClaimReader reader_;
  observe::Metrics metrics_;
  bool connected_ = false;
  agent::Books books_;
  agent::Worker worker_;
  agent::RuntimeService runtime_;
  std::unique_ptr<agent::ClaimService> claims_;
  std::optional<std::promise<void>> held_;
};

}  // namespace dracpu::chaos

#endif  // DRACPU_CHAOS_LIFE_H_
