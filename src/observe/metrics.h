// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// All metrics of the driver, by name.
//
//   metrics.prepare_claims_total.inc(Outcome::kSuccess);
//   metrics.nri_create_container_duration_seconds.observe(Outcome::kSuccess, AllocationMode::kShared,
//   seconds);
//
// The first thirteen, prefix "dra_cpu_", are those of release 0.3.0: names, labels, buckets and order are
// what users' dashboards rely on (spec driver-behaviours section 15.1) and never change. Ours have the prefix
// "dracpu_". No label ever names a pod, claim, container or device.
// Threads Any. Lives as long as the process.

#ifndef DRACPU_OBSERVE_METRICS_H_
#define DRACPU_OBSERVE_METRICS_H_

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "observe/memory_metrics.h"
#include "observe/metric_types.h"
#include "observe/outcome.h"

namespace dracpu::observe {

enum class AllocationMode { kShared, kExclusive, kUnknown };
template <>
struct LabelOf<AllocationMode> {
  static constexpr std::string_view kKey = "cpu_allocation_mode";
  static constexpr std::array<std::string_view, 3> kValues = {"shared", "exclusive", "unknown"};
};

struct BuildInfo {
  std::string version;
  std::string revision;
  std::string compiler;
};
// Of this binary.
BuildInfo build_info();

struct Metrics {
  Metrics();

 private:
  Registry registry_;

 public:
  // Release 0.3.0.
  Gauge allocated_cpus;
  Gauge available_cpus;
  Gauge reserved_cpus;
  Gauge resource_claims_active;
  CounterBy<Outcome> prepare_claims_total;
  CounterBy<Outcome> unprepare_claims_total;
  Histogram prepare_claim_duration_seconds;
  Histogram unprepare_claim_duration_seconds;
  Histogram claim_allocated_cpus;
  HistogramBy<Outcome> nri_synchronize_duration_seconds;
  HistogramBy2<Outcome, AllocationMode> nri_create_container_duration_seconds;
  HistogramBy2<Outcome, AllocationMode> nri_stop_container_duration_seconds;
  HistogramBy2<Outcome, AllocationMode> nri_remove_container_duration_seconds;

  // Ours.
  Gauge nri_connected;                    // 1 while the runtime has us as a plugin
  Counter nri_connections_total;          // successful ones
  CounterBy<Outcome> slice_writes_total;  // create, update and delete of ResourceSlices
  TextCounter api_errors_total;           // {operation}: requests to the API server that failed
  TextGauge start_step_duration_seconds;  // {step}
  Gauge owner;                            // 1 while this process holds the node's guard
  TextGauge takeover_seconds;             // {peer}: from the lock to the runtime, and to the kubelet
  Counter foreign_owner_total;            // times another driver was found at work on this node
  Gauge offline_claimed_cpus;             // CPUs of claims that are offline
  Gauge stale_pool_seconds;               // how long shared containers have lacked CPUs that are free again
  Gauge claim_conflicts;                  // claims or containers that contradict each other since the start
  Counter lost_claims_total;         // prepared claims released because the API server no longer has them
  Counter state_write_errors_total;  // writes of the state file that failed
  Histogram state_write_duration_seconds;  // with its syncs
  TextCounter claims_refused_total;        // {reason}: prepares that were refused, by kind of error
  TextCounter containers_refused_total;    // {reason}
  TextGauge hook_deadline_margin_seconds;  // {hook}: the least time that was left when a hook was answered

  // Null where memory is off. Set before anybody renders.
  std::unique_ptr<MemoryMetrics> memory;

  // What the endpoint answers; reads the process's own figures from /proc.
  std::string render(TextFormat format) const;
  // All metrics but those of the process and of memory, those of release 0.3.0 first (`dracpu introspect
  // metrics`).
  std::vector<MetricInfo> described() const;
};

// What to answer to this Accept header, and its content type.
TextFormat negotiate(std::string_view accept);
std::string_view content_type_of(TextFormat format);

}  // namespace dracpu::observe

#endif  // DRACPU_OBSERVE_METRICS_H_
