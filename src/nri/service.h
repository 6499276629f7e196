// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Turns calls of the runtime into calls of the Handler, and its answers into replies. No sockets here.
//
// Errors  A handler's error becomes the reply's status; its text reaches the pod's events. Answers that must
//         not be sent (messages.h) are logged and refused. What did not reach the runtime is told to the
//         handler with on_not_applied().
// Threads The worker only, except synchronized().

#ifndef DRACPU_NRI_SERVICE_H_
#define DRACPU_NRI_SERVICE_H_

#include <atomic>
#include <cstddef>
#include <vector>

#include "base/result.h"
#include "nri/handler.h"
#include "nri/messages.h"
#include "nri/session.h"

namespace dracpu::nri {

class Service {
 public:
  explicit Service(Handler& handler) : handler_(handler) {}

  void handle(Session& session, const Call& call);
  // The connection is over: forgets what belongs to it.
  void end(const Error& reason);

  // Connections that reached the end of Synchronize.
  unsigned long synchronized() const { return synchronized_; }

 private:
  void configure(Session& session, const Call& call);
  void synchronize(Session& session, const Call& call);
  void synchronize_all(Session& session, const Call& call);
  void create(Session& session, const Call& call);
  void update(Session& session, const Call& call);
  void stop(Session& session, const Call& call);
  void remove(Session& session, const Call& call);
  void state_change(Session& session, const Call& call);

  // Sends the list as the reply. True if all or a first part of it is on its way.
  bool reply_updates(Session& session, const Call& call, const std::vector<ContainerUpdate>& updates);
  void not_applied(const std::vector<ContainerUpdate>& updates, std::size_t first,
                   const std::optional<ContainerId>& created);

  Handler& handler_;
  SyncSet sync_;
  bool configured_ = false;
  std::atomic<unsigned long> synchronized_{0};
};

}  // namespace dracpu::nri

#endif  // DRACPU_NRI_SERVICE_H_
