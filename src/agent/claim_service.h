// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The kubelet's requests turned into steps of the books.
//
// prepare: read each claim from the API server (asynchronously, all at once) → on the worker: pick and hold
// CPUs, in combined mode memory first, state file, CDI files → answer. Claims that arrive together share one
// write of the state file.
// unprepare: on the worker: CDI files, release, state file → answer. Never asks the API server.
// Threads As kubelet::Handler: called from gRPC threads, answers from the worker or the API client's thread.

#ifndef DRACPU_AGENT_CLAIM_SERVICE_H_
#define DRACPU_AGENT_CLAIM_SERVICE_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/books.h"
#include "agent/claim_metadata.h"
#include "agent/claim_request.h"
#include "agent/pod_events.h"
#include "agent/worker.h"
#include "base/mutex.h"
#include "kube/claim.h"
#include "kubelet/server.h"
#include "observe/metrics.h"

namespace dracpu::agent {

class FreePagesReader;

// Reads one claim; the callback may come on any thread, once.
using ClaimReader = std::function<void(const std::string& ns, const std::string& name, Deadline deadline,
                                       std::function<void(Result<kube::Claim>)> done)>;

// Reads the PCIe roots of another driver's device on this node; the callback as above.
using RootReader = std::function<void(const kube::DeviceName& device, Deadline deadline,
                                      std::function<void(Result<std::vector<std::string>>)> done)>;

// The kubelet allows 45 s; an API server that is away is noticed well before that.
inline constexpr std::chrono::seconds kClaimReadLimit{8};     // of one read for a prepare
inline constexpr std::chrono::seconds kClaimLookupLimit{30};  // of one look for a lost claim

// What a look at the API server says of a claim without a running container: why it is lost, or nothing; also
// nothing if nobody answered.
std::optional<std::string> why_lost(const Result<kube::Claim>& read, const ClaimUid& uid);
inline constexpr const char* kEndedElsewhere =
    "another driver unprepared it, as its CDI file is gone; no container has it";

class ClaimService final : public kubelet::Handler {
 public:
  struct Hooks {
    std::function<Status()> may_prepare;  // an error refuses every prepare, retryably
    std::function<void()> pool_grew;      // after a release
    std::function<void(bool registered, const std::string& error)> registration;
    TellPod tell_pod{};
    std::function<void(std::string who, std::string what)> refused{};
  };

  ClaimService(const Node& node, std::shared_ptr<const Machine> machine, Books& books, Worker& worker,
               ClaimReader reader, RootReader roots, observe::Metrics& metrics, Hooks hooks);

  void prepare(std::vector<kubelet::ClaimRef> claims, Deadline deadline,
               std::function<void(kubelet::PrepareResults)> done) override;
  void unprepare(std::vector<kubelet::ClaimRef> claims, Deadline deadline,
                 std::function<void(kubelet::UnprepareResults)> done) override;
  void on_registration(bool registered, const std::string& error) override;

  // CPUs came or went. On the worker's thread.
  void set_machine(std::shared_ptr<const Machine> machine);

  // Looks up claims that have no running container; gone, replaced or deallocated ones are released (RULINGS
  // 10).
  void collect_lost_claims();

 private:
  struct Call;
  // A claim that no container has; without a name it cannot be looked up.
  struct Lost {
    ClaimUid uid;
    std::string ns;
    std::string name;
  };
  std::vector<Lost> lost_claims() const;
  // Where the answer to an order goes.
  struct Place {
    Call* call;
    const kubelet::ClaimRef* ref;
    std::string pod_claim;
  };
  void claim_read(const std::shared_ptr<Call>& call, std::size_t index, Result<kube::Claim> claim);
  void claim_ready(const std::shared_ptr<Call>& call);
  // CPUs local to the roots that the claim's other device has.
  CpuSet near_cpus(const std::vector<std::string>& roots) const;
  // What the books have of a claim that was answered.
  std::optional<Holding> prepared(const ClaimUid& uid) const;
  void drain();
  // What the books are to be asked for the i-th claim; nothing if it has its answer. `free` is read if need
  // be.
  std::optional<PrepareOrder> order_of(Call& call, std::size_t index, FreePagesReader& free);
  void finish(Call& call);
  void tell_pods(const std::optional<Result<kube::Claim>>& read, const Error& why) const;
  // `metadata`: main request name to the CDI device of its metadata file.
  static std::vector<kubelet::PreparedDevice> answer(const ClaimUid& uid, const Holding& held,
                                                     std::map<std::string, std::string> metadata);
  // A claim that is prepared already, as it was answered then. Its CDI files may have been removed meanwhile.
  Result<std::vector<kubelet::PreparedDevice>> answer_again(const ClaimUid& uid, const Holding& held);
  void prepare_orders(const std::vector<PrepareOrder>& orders, const std::vector<Place>& places,
                      const memory::FreePages* free);
  void release_lost(const ClaimUid& uid, const std::string& why);
  void update_gauges();

  const Node& node_;
  Books& books_;
  Worker& worker_;
  ClaimReader reader_;
  RootReader roots_;
  observe::Metrics& metrics_;
  Hooks hooks_;
  std::shared_ptr<const Machine> machine_;  // the worker's, once it runs
  ClaimContext context_;
  ClaimMetadata metadata_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Call>> ready_ DRACPU_GUARDED_BY(mutex_);  // read, waiting for the worker
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_CLAIM_SERVICE_H_
