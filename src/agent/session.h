// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One term as the node's owner: from the lock taken to the lock given back.
//
// Holds every part that talks to a peer. serve() runs on the main thread; the parts bring their own threads
// and nudge it through Wake. When somebody replaces our lock or sockets the term ends with kStepBack:
// everything is stopped, and the caller starts over from the guard. Threads Construct, serve and destroy on
// the main thread.

#ifndef DRACPU_AGENT_SESSION_H_
#define DRACPU_AGENT_SESSION_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/books.h"
#include "agent/claim_service.h"
#include "agent/config_conflict.h"
#include "agent/guard.h"
#include "agent/machine_watch.h"
#include "agent/memory_part.h"
#include "agent/node.h"
#include "agent/pod_events.h"
#include "agent/registration_timer.h"
#include "agent/runtime_service.h"
#include "agent/slice_report.h"
#include "agent/status_board.h"
#include "agent/wake.h"
#include "agent/worker.h"
#include "kube/slice_publisher.h"
#include "kubelet/server.h"
#include "nri/plugin.h"
#include "observe/health.h"
#include "observe/metrics.h"

namespace dracpu::agent {

enum class TermEnd {
  kStop,      // asked to
  kStepBack,  // we may not be alone
  kFatal,     // cannot serve; the log says why
};

kubelet::ServerOptions server_options(const config::Config& config);

class Session {
 public:
  // `owner_since`: when the lock was taken.
  Session(const Node& node, std::shared_ptr<const Machine> machine, const Guard& guard, Wake& wake,
          observe::Metrics& metrics, observe::HealthState& health, StatusBoard& board,
          std::chrono::steady_clock::time_point owner_since);
  ~Session();

  TermEnd serve();

 private:
  using Clock = std::chrono::steady_clock;

  Status start_files();
  Status start_api();
  void start_runtime();
  Status start_kubelet();
  void publish();
  ClaimReader claim_reader();
  void start_services();
  void look_at_machine();
  void report_lost_cpus();
  void report_memory_lacks();
  void report_config_conflict();
  void rewrite_cdi();
  TellPod tell_pod();
  std::function<void(std::string who, std::string what)> note_refusal();
  RuntimeService::Hooks runtime_hooks();
  OwnerFacts owner_facts();
  void post_event(std::string path, std::string body);
  bool wait_for_runtime();
  void tick(Clock::time_point now);
  bool still_alone();
  void retry_registration(Clock::time_point now);
  void note_takeover(std::string_view peer, std::atomic<bool>& noted);
  void on_registration(bool registered, const std::string& error);
  void stop();

  const Clock::time_point owner_since_;
  std::atomic<bool> runtime_noted_{false};
  std::atomic<bool> kubelet_noted_{false};
  const Node& node_;
  const Guard& guard_;
  Wake& wake_;
  observe::Metrics& metrics_;
  observe::HealthState& health_;
  StatusBoard& board_;

  std::atomic<bool> synchronized_{false};
  std::atomic<bool> registered_{false};
  std::atomic<bool> event_failed_{false};
  RegistrationTimer registration_;  // main thread only
  Clock::time_point stale_since_{};
  std::string machine_error_;        // the last one, told once
  bool is_health_due_ = true;        // devices changed, or nobody was told yet
  std::map<ClaimUid, CpuSet> lost_;  // claims told as lacking CPUs
  Clock::time_point next_lost_check_{};
  std::vector<ConfigConflict> config_conflicts_;     // as last told
  std::map<std::string, std::string> memory_lacks_;  // the same, by device
  SliceReport slice_report_;

  MachineWatch watch_;
  // Declared so that each part is destroyed before those it uses.
  Books books_;
  Worker worker_;
  RuntimeService runtime_;
  std::unique_ptr<ClaimService> claims_;
  std::unique_ptr<MemoryPart>
      memory_;  // only where memory is on; its answers outlive the client, its peers not
  std::unique_ptr<kube::HttpClient> client_;
  PodEvents events_;
  std::unique_ptr<kube::SlicePublisher> publisher_;
  std::unique_ptr<nri::Plugin> plugin_;
  std::unique_ptr<kubelet::Server> server_;
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_SESSION_H_
