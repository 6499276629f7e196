// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// How much more memory is offered to claims than the kubelet offers to pods:
// dra_memory_accounting_drift_bytes. Above zero, claims can be allocated that the node cannot hold, because
// memory.reserved does not say what the kubelet keeps back.
//
// Source   Node `status.allocatable.memory`, which has no hugepages in it; so base memory is compared alone.
// Reads    At the start, when what is offered changes, and then every hour; a minute after a read that
// failed.
//          The metric is not there before the first answer, and keeps the last one.
// Threads  tick() of one thread. Answers come on the client's; they reach nothing of this object.

#ifndef DRACPU_AGENT_MEMORY_DRIFT_H_
#define DRACPU_AGENT_MEMORY_DRIFT_H_

#include <chrono>
#include <memory>
#include <string>

#include "kube/http_client.h"
#include "memory/discovery.h"
#include "observe/metrics.h"

namespace dracpu::agent {

class MemoryDrift {
 public:
  using Clock = std::chrono::steady_clock;

  MemoryDrift(std::string node, observe::MemoryMetrics& metrics);

  // `client` may end between calls.
  void tick(Clock::time_point now, const memory::Inventory& inventory, kube::HttpClient& client);

 private:
  struct Answer;

  std::string node_;
  observe::MemoryMetrics& metrics_;
  std::shared_ptr<Answer> answer_;
  memory::Bytes offered_;
  Clock::time_point next_read_{};
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_MEMORY_DRIFT_H_
