// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/memory_drift.h"

#include <optional>
#include <utility>

#include "base/deadline.h"
#include "base/mutex.h"
#include "kube/node_allocatable.h"
#include "observe/log.h"

namespace dracpu::agent {
namespace {

constexpr std::chrono::hours kPause{1};
constexpr std::chrono::minutes kRetry{1};
constexpr std::chrono::seconds kReadLimit{30};

memory::Bytes base_memory_of(const memory::Inventory& inventory) {
  memory::Bytes out;
  for (const memory::Span& span : inventory.spans) {
    if (!span.kind.is_hugepages()) out += span.capacity;
  }
  return out;
}

}  // namespace

struct MemoryDrift::Answer {
  Mutex mutex;
  std::optional<double> allocatable DRACPU_GUARDED_BY(mutex);
  bool has_failed DRACPU_GUARDED_BY(mutex) = false;
};

MemoryDrift::MemoryDrift(std::string node, observe::MemoryMetrics& metrics)
    : node_(std::move(node)), metrics_(metrics), answer_(std::make_shared<Answer>()) {}

void MemoryDrift::tick(Clock::time_point now, const memory::Inventory& inventory, kube::HttpClient& client) {
  const memory::Bytes offered = base_memory_of(inventory);
  const bool is_due = now >= next_read_ || offered != offered_;
  offered_ = offered;
  {
    const Locked lock(answer_->mutex);
    if (answer_->allocatable) {
      metrics_.accounting_drift_bytes.set(static_cast<double>(offered.count) - *answer_->allocatable);
    }
    if (std::exchange(answer_->has_failed, false)) next_read_ = now + kRetry;
  }
  if (!is_due) return;
  next_read_ = now + kPause;
  kube::get_allocatable(client, node_, "memory", Deadline::after(kReadLimit),
                        [answer = answer_](const Result<Quantity>& amount) {
                          const Locked lock(answer->mutex);
                          answer->has_failed = !amount.ok();
                          if (amount.ok()) {
                            answer->allocatable = static_cast<double>(amount->nano()) / 1e9;
                          } else {
                            observe::log_info(2, "The node's allocatable memory cannot be read",
                                              {{"err", amount.error().text}});
                          }
                        });
}

}  // namespace dracpu::agent
