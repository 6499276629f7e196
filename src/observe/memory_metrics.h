// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The metrics of memory, there only while memory is served.
//
// `resource` is "memory" or "hugepages-<size>", `numa_node` the node's number: as many series as the machine
// has spans. No label names a pod, claim or container.
// Threads Any.

#ifndef DRACPU_OBSERVE_MEMORY_METRICS_H_
#define DRACPU_OBSERVE_MEMORY_METRICS_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "observe/metric_types.h"
#include "observe/outcome.h"

namespace dracpu::observe {

// Bytes by NUMA node and resource; replaced as a whole.
class SpanGauge final : public Family {
 public:
  // (numa_node, resource) → bytes, in this order.
  using Values = std::map<std::pair<int, std::string>, double>;

  SpanGauge(Registry& registry, std::string_view name, std::string_view help);
  void set(Values values);
  Values values() const;

 protected:
  void append_series(std::string& out, TextFormat format) const override;

 private:
  mutable Mutex mutex_;
  Values values_ DRACPU_GUARDED_BY(mutex_);
};

enum class Rejection { kMalformed, kUnprepared, kMismatch, kOwned, kOffline, kKubeletMems, kPodCgroup };
template <>
struct LabelOf<Rejection> {
  static constexpr std::string_view kKey = "reason";
  static constexpr std::array<std::string_view, 7> kValues = {
      "malformed", "unprepared", "mismatch", "owned", "offline", "kubelet_mems", "pod_cgroup"};
};

enum class Rescan { kUnchanged, kChanged, kError };
template <>
struct LabelOf<Rescan> {
  static constexpr std::string_view kKey = "result";
  static constexpr std::array<std::string_view, 3> kValues = {"unchanged", "changed", "error"};
};

struct MemoryMetrics {
  MemoryMetrics();

 private:
  Registry registry_;

 public:
  SpanGauge capacity_bytes;
  SpanGauge reserved_bytes;
  SpanGauge allocated_bytes;
  SpanGauge available_bytes;
  SpanGauge hugepages_free_bytes;
  Gauge resource_claims_active;
  CounterBy<Outcome> prepare_claims_total;
  CounterBy<Outcome> unprepare_claims_total;
  Histogram prepare_claim_duration_seconds;
  CounterBy<Rejection> container_rejections_total;
  CounterBy<Rescan> rescans_total;
  Gauge accounting_drift_bytes;  // not there before it was measured

  void append(std::string& out, TextFormat format) const;
  std::vector<MetricInfo> described() const;
};

}  // namespace dracpu::observe

#endif  // DRACPU_OBSERVE_MEMORY_METRICS_H_
