// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The kubelet's requests to the memory driver turned into steps of the books, as claim_service.h does it for
// the CPUs. A claim with both gets a call for each driver, in either order; each answers its own devices.
//
// prepare: read each claim from the API server (all at once) → on the worker: free hugepages as the kernel
// has them now, hold the amounts, state file, CDI files, metadata files → answer. unprepare: on the
// worker: CDI files, release, state file, metadata files → answer. Never asks the API server. In combined
// mode the CPUs' driver serves memory, and this one only ends and repeats what it has prepared before.
// Threads As kubelet::Handler: called from gRPC threads, answers from the worker or the API client's thread.

#ifndef DRACPU_AGENT_MEMORY_SERVICE_H_
#define DRACPU_AGENT_MEMORY_SERVICE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/books.h"
#include "agent/claim_metadata.h"
#include "agent/claim_service.h"
#include "agent/node.h"
#include "agent/pod_events.h"
#include "agent/worker.h"
#include "base/mutex.h"
#include "kube/claim.h"
#include "kubelet/server.h"
#include "observe/metrics.h"

namespace dracpu::agent {

// What the accounts are asked of a claim, with the results of `driver`. kConflict: it is another one than the
// kubelet named; kInvalidInput: a device of another node.
Result<memory::ClaimFacts> memory_facts(const kube::Claim& claim, const ClaimUid& uid,
                                        std::string_view driver, const std::string& pool);

// "memory on node 1: 512Mi, hugepages-2Mi on node 1: 64Mi".
std::string amounts_text(const memory::Claim& claim);

// What is held and left, as metrics; nothing where memory is off. From any thread.
void update_memory_gauges(Books& books, observe::Metrics& metrics);

// The free hugepages of the kernel, read when first asked for, if the configuration wants to know.
class FreePagesReader {
 public:
  explicit FreePagesReader(const Node& node) : node_(node) {}
  Status read();
  // Null: not looked at.
  const memory::FreePages* pages() const { return pages_ ? &*pages_ : nullptr; }

 private:
  const Node& node_;
  std::optional<memory::FreePages> pages_;
};

class MemoryService final : public kubelet::Handler {
 public:
  struct Hooks {
    std::function<Status()> may_prepare;  // an error refuses every prepare, retryably
    std::function<void(bool registered, const std::string& error)> registration;
    TellPod tell_pod{};
    std::function<void(std::string who, std::string what)> refused{};
    // What is published now, for the metadata files.
    std::function<std::shared_ptr<const MemoryView>()> view{};
  };

  // metrics.memory is there.
  MemoryService(const Node& node, Books& books, Worker& worker, ClaimReader reader, observe::Metrics& metrics,
                Hooks hooks);

  void prepare(std::vector<kubelet::ClaimRef> claims, Deadline deadline,
               std::function<void(kubelet::PrepareResults)> done) override;
  void unprepare(std::vector<kubelet::ClaimRef> claims, Deadline deadline,
                 std::function<void(kubelet::UnprepareResults)> done) override;
  void on_registration(bool registered, const std::string& error) override;

  // As ClaimService does it (RULINGS 10). On the worker's thread.
  void collect_lost_claims();

 private:
  struct Call;
  // Where the answer to an order goes.
  struct Place {
    Call* call;
    const kubelet::ClaimRef* ref;
    std::string pod_claim;  // the claim's name in the pod, of a template
  };
  void claim_read(const std::shared_ptr<Call>& call, std::size_t index, Result<kube::Claim> claim);
  void drain();
  void prepare_orders(const std::vector<MemoryOrder>& orders, const std::vector<Place>& places);
  void finish(Call& call);
  std::optional<memory::Claim> prepared(const ClaimUid& uid) const;
  // `metadata`: main request name to the CDI device of its metadata file.
  static std::vector<kubelet::PreparedDevice> answer(const ClaimUid& uid, const memory::Claim& claim,
                                                     std::map<std::string, std::string> metadata);
  std::map<std::string, std::string> write_metadata(const ClaimUid& uid, const memory::Claim& claim,
                                                    const std::string& pod_claim) const;
  Result<std::vector<kubelet::PreparedDevice>> answer_again(const ClaimUid& uid, const memory::Claim& claim);
  void release_lost(const ClaimUid& uid, const std::string& why);

  const Node& node_;
  Books& books_;
  Worker& worker_;
  ClaimReader reader_;
  observe::Metrics& metrics_;
  Hooks hooks_;
  ClaimMetadata metadata_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Call>> ready_ DRACPU_GUARDED_BY(mutex_);  // read, waiting for the worker
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_MEMORY_SERVICE_H_
