// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What a person may want to see of the running driver, gathered on demand from its parts.
//
// The board outlives the terms of ownership. Each term lends it a source for what only an owner knows, and
// takes it back before its parts go. The last refusals stay.
// Threads Any. facts() holds a lock of the board while it asks the source, so the source must not call back;
//         note_refusal() does not wait for it.

#ifndef DRACPU_AGENT_STATUS_BOARD_H_
#define DRACPU_AGENT_STATUS_BOARD_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/node.h"
#include "base/cpuset.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "observe/health.h"

namespace dracpu::agent {

struct StatusClaim {
  ClaimUid uid;
  std::string ns;
  std::string name;
  CpuSet cpus;
  std::string pod;        // "namespace/name", or its UID while no container of it runs; empty: no owner yet
  std::string container;  // empty: no owner yet
  bool is_running = false;
  std::int64_t prepared_at = 0;  // seconds since 1970; 0: not known
};

// Memory of one kind on one NUMA node.
struct StatusMemory {
  std::string resource;  // "memory", "hugepages-2Mi"
  int node = 0;
  std::string capacity;  // "57132Mi"
  std::string held;
  std::string left;
  bool is_healthy = true;
  std::vector<std::string> claims;  // "namespace/name: 64Mi"
};

// The same again counts, and moves to the front.
struct Refusal {
  std::chrono::system_clock::time_point last;
  std::size_t times = 1;
  std::string who;   // "claim ns/name", "container \"app\" of pod ns/name"
  std::string what;  // the reason, with its fix
};

// What an owner knows; empty in a standby.
struct OwnerFacts {
  std::shared_ptr<const Machine> machine;
  CpuSet pool;
  std::vector<StatusClaim> claims;
  std::size_t shared_containers = 0;
  std::size_t stale_containers = 0;    // to be told a wider or narrower pool
  std::string runtime;                 // "containerd v2.1.4, NRI v0.12.0"; empty: not connected
  std::vector<StatusMemory> memory{};  // empty where memory is off
};

struct StatusFacts {
  std::string node;
  std::string driver;
  CpuSet reserved;
  std::chrono::system_clock::time_point now;
  std::chrono::system_clock::duration up{};  // since the process began
  std::vector<observe::HealthCheck> checks;
  std::vector<observe::Advice> advice;
  std::vector<Refusal> refusals;  // the last first
  std::optional<OwnerFacts> owner;
};

class StatusBoard {
 public:
  using Source = std::function<OwnerFacts()>;

  StatusBoard(const Node& node, const observe::HealthState& health) : node_(node), health_(health) {}

  // Nothing: from now on nobody is asked, and nobody is being asked.
  void set_source(Source source);
  void note_refusal(std::string who, std::string what);
  StatusFacts facts() const;

 private:
  using Clock = std::chrono::system_clock;

  const Node& node_;
  const observe::HealthState& health_;
  const Clock::time_point begun_ = Clock::now();
  mutable Mutex source_mutex_;
  Source source_ DRACPU_GUARDED_BY(source_mutex_);
  mutable Mutex refusals_mutex_;
  std::deque<Refusal> refusals_ DRACPU_GUARDED_BY(refusals_mutex_);
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_STATUS_BOARD_H_
