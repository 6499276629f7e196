// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The memory driver within one term as the node's owner: its slices, its kubelet sockets, its claims, and a
// look at the amounts now and then. There only where memory is on. In combined mode the CPUs' driver
// publishes and serves it; the sockets are opened only if claims from before are held that the kubelet ends
// there, and then no device is published.
//
// Checks   "memory-kubelet" and "memory-slices" of /readyz, where there are sockets.
// Threads  The main thread, but for view(); callbacks come on the threads of the parts that call them.

#ifndef DRACPU_AGENT_MEMORY_PART_H_
#define DRACPU_AGENT_MEMORY_PART_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/books.h"
#include "agent/memory_drift.h"
#include "agent/memory_service.h"
#include "agent/node.h"
#include "agent/registration_timer.h"
#include "agent/slice_report.h"
#include "agent/status_board.h"
#include "agent/wake.h"
#include "agent/worker.h"
#include "base/mutex.h"
#include "kube/slice_publisher.h"
#include "kubelet/server.h"
#include "observe/health.h"
#include "observe/metrics.h"

namespace dracpu::agent {

kubelet::ServerOptions memory_server_options(const config::Config& config);

// A device is unhealthy while its claims hold more than it has: its node lost memory or its pool shrank.
std::vector<kubelet::DeviceHealth> memory_health(const Node& node, const std::vector<memory::Standing>& now);

// Devices of the CPUs whose claims hold more memory than there is, with the reason.
std::map<std::string, std::string> memory_lacks(const MemoryBook& book);

// For the status page.
std::vector<StatusMemory> memory_status(const MemoryBook& book);

class MemoryPart {
 public:
  MemoryPart(const Node& node, std::shared_ptr<const MemoryView> view, Books& books, Worker& worker,
             Wake& wake, observe::Metrics& metrics, observe::HealthState& health, MemoryService::Hooks hooks,
             ClaimReader reader, std::function<void()> republish_cpus);

  std::shared_ptr<const MemoryView> view() const;

  void start_publisher(kube::HttpClient& client);
  Status start_kubelet();
  void publish();
  // Registration, the amounts, health. `machine` is as it is known now.
  void tick(std::chrono::steady_clock::time_point now, const Machine& machine);
  bool sockets_replaced() const { return server_ && server_->sockets_replaced(); }
  void collect_lost_claims() { service_.collect_lost_claims(); }
  // The publisher stops before the server, as all publishers do. Both are gone then, so that the API client
  // can end before this object, which its last answers still reach.
  void stop_publisher();
  void stop_server();

 private:
  using Clock = std::chrono::steady_clock;

  MemoryService::Hooks with_own(MemoryService::Hooks hooks);
  void on_registration(bool registered, const std::string& error);
  void retry_registration(Clock::time_point now);
  void look(const Machine& machine);
  void report_health();
  void set_gauges(const MemoryView& view);

  const Node& node_;
  Books& books_;
  Wake& wake_;
  observe::Metrics& metrics_;
  observe::HealthState& health_;
  const bool is_combined_;
  const bool has_sockets_;
  const std::function<void()> republish_cpus_;  // in combined mode
  mutable Mutex mutex_;
  std::shared_ptr<const MemoryView> view_ DRACPU_GUARDED_BY(mutex_);
  std::atomic<bool> registered_{false};
  RegistrationTimer registration_;
  Clock::time_point next_look_{};
  CpuSet seen_online_;
  std::string look_error_;                                  // the last one, told once
  std::optional<std::vector<kubelet::DeviceHealth>> told_;  // by the present server
  SliceReport slice_report_;
  MemoryDrift drift_;
  kube::HttpClient* client_ = nullptr;  // while the publisher is there
  // Declared so that each part is destroyed before those it uses.
  MemoryService service_;
  std::unique_ptr<kube::SlicePublisher> publisher_;
  std::unique_ptr<kubelet::Server> server_;
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_MEMORY_PART_H_
