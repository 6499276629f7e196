// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "observe/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/strings.h"
#include "observe/process_metrics.h"

#ifndef DRACPU_VERSION
#define DRACPU_VERSION "0.0.0"
#endif
#ifndef DRACPU_REVISION
#define DRACPU_REVISION "unknown"
#endif

namespace dracpu::observe {
namespace {

// Around the runtime's 2 s for one hook.
constexpr std::array kHookSeconds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                     0.05,   0.1,     0.25,   0.5,   1.0,    1.5,   2.0,  5.0};
constexpr std::array kWriteSeconds = {0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                      0.05,    0.1,    0.25,  0.5,    1.0,   2.5,  5.0};
constexpr std::array kCpuCounts = {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0};

const MetricInfo kBuildInfo{"dracpu_build_info",
                            MetricKind::kGauge,
                            "What this binary was built from; always 1.",
                            {"version", "revision", "compiler"}};

// A quality of 0 to 1, in thousandths; nothing if it does not parse.
std::optional<int> thousandths(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1')) return std::nullopt;
  int value = (text[0] - '0') * 1000;
  if (text.size() == 1) return value;
  if (text[1] != '.') return std::nullopt;
  int weight = 100;
  for (const char c : text.substr(2)) {
    if (c < '0' || c > '9') return std::nullopt;
    value += (c - '0') * weight;
    weight /= 10;
  }
  return value <= 1000 ? std::optional<int>(value) : std::nullopt;
}

}  // namespace

BuildInfo build_info() { return {DRACPU_VERSION, DRACPU_REVISION, __VERSION__}; }

Metrics::Metrics()
    : allocated_cpus(registry_, "dra_cpu_allocated_cpus", "CPUs held by prepared claims."),
      available_cpus(registry_, "dra_cpu_available_cpus",
                     "CPUs that no claim holds and that are not reserved."),
      reserved_cpus(registry_, "dra_cpu_reserved_cpus", "CPUs reserved by configuration."),
      resource_claims_active(registry_, "dra_cpu_resource_claims_active", "Prepared claims."),
      prepare_claims_total(registry_, "dra_cpu_prepare_claims_total", "Claims prepared, by result."),
      unprepare_claims_total(registry_, "dra_cpu_unprepare_claims_total", "Claims unprepared, by result."),
      prepare_claim_duration_seconds(registry_, "dra_cpu_prepare_claim_duration_seconds",
                                     "Time to prepare one claim.", kDefaultSeconds),
      unprepare_claim_duration_seconds(registry_, "dra_cpu_unprepare_claim_duration_seconds",
                                       "Time to unprepare one claim.", kDefaultSeconds),
      claim_allocated_cpus(registry_, "dra_cpu_claim_allocated_cpus",
                           "CPUs given to one newly prepared claim.", kCpuCounts),
      nri_synchronize_duration_seconds(registry_, "dra_cpu_nri_synchronize_duration_seconds",
                                       "Time to answer the runtime's Synchronize.", kHookSeconds),
      nri_create_container_duration_seconds(registry_, "dra_cpu_nri_create_container_duration_seconds",
                                            "Time to answer the runtime's CreateContainer.", kHookSeconds),
      nri_stop_container_duration_seconds(registry_, "dra_cpu_nri_stop_container_duration_seconds",
                                          "Time to answer a StopContainer that dropped a container.",
                                          kHookSeconds),
      nri_remove_container_duration_seconds(
          registry_, "dra_cpu_nri_remove_container_duration_seconds",
          "Time to answer a RemoveContainer that dropped a container; samples mean that a stop was missed.",
          kHookSeconds),
      nri_connected(registry_, "dracpu_nri_connected",
                    "1 while the container runtime has this driver as a plugin."),
      nri_connections_total(registry_, "dracpu_nri_connections_total",
                            "Connections to the container runtime that came up."),
      slice_writes_total(registry_, "dracpu_slice_writes_total", "Writes of ResourceSlices, by result."),
      api_errors_total(registry_, "dracpu_api_errors_total", "Requests to the API server that failed.",
                       "operation"),
      start_step_duration_seconds(registry_, "dracpu_start_step_duration_seconds",
                                  "Time taken by each step of the last start.", "step"),
      owner(registry_, "dracpu_owner", "1 while this process holds the node's guard."),
      takeover_seconds(registry_, "dracpu_takeover_seconds",
                       "Time from taking the node's guard to the first connection of each peer.", "peer"),
      foreign_owner_total(registry_, "dracpu_foreign_owner_total",
                          "Times that another driver was found at work on this node."),
      offline_claimed_cpus(registry_, "dracpu_offline_claimed_cpus",
                           "CPUs that belong to a claim and are offline."),
      stale_pool_seconds(
          registry_, "dracpu_stale_pool_seconds",
          "How long shared containers have been without CPUs that are free again; 0 when none."),
      claim_conflicts(registry_, "dracpu_claim_conflicts",
                      "Containers and claims found in contradiction and not resolved."),
      lost_claims_total(registry_, "dracpu_lost_claims_total",
                        "Prepared claims released because the API server no longer has them."),
      state_write_errors_total(registry_, "dracpu_state_write_errors_total",
                               "Writes of the state file that failed."),
      state_write_duration_seconds(registry_, "dracpu_state_write_duration_seconds",
                                   "Time to write the state file, syncs included.", kWriteSeconds),
      claims_refused_total(registry_, "dracpu_claims_refused_total",
                           "Claims whose prepare was refused, by kind of error.", "reason"),
      containers_refused_total(registry_, "dracpu_containers_refused_total",
                               "Containers that were refused, by kind of error.", "reason"),
      hook_deadline_margin_seconds(
          registry_, "dracpu_hook_deadline_margin_seconds",
          "The least time that was left of the runtime's limit when a hook was answered.", "hook") {}

std::string Metrics::render(TextFormat format) const {
  std::string out;
  out.reserve(std::size_t{16} << 10U);
  for (const Family* family : registry_.families()) family->append(out, format);
  if (memory) memory->append(out, format);
  append_header(out, kBuildInfo, format);
  const BuildInfo build = build_info();
  append_sample(out, "dracpu_build_info",
                fmt::format("{},{},{}", label_text("version", build.version),
                            label_text("revision", build.revision), label_text("compiler", build.compiler)),
                std::uint64_t{1});
  append_process_metrics(out, format);
  if (format == TextFormat::kOpenMetrics) out += "# EOF\n";
  return out;
}

std::vector<MetricInfo> Metrics::described() const {
  std::vector<MetricInfo> out;
  for (const Family* family : registry_.families()) out.push_back(family->info());
  out.push_back(kBuildInfo);
  return out;
}

TextFormat negotiate(std::string_view accept) {
  int open_metrics = 0;
  int plain = accept.empty() ? 1000 : 0;
  for (const std::string_view range : split(accept, ',')) {
    const std::vector<std::string_view> parts = split(range, ';');
    const std::string_view type = trim(parts.front());
    int quality = 1000;
    bool usable = true;
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const std::string_view parameter = trim(parts[i]);
      if (parameter.starts_with("q=")) quality = thousandths(parameter.substr(2)).value_or(0);
      if (type == "application/openmetrics-text" && parameter.starts_with("version=")) {
        usable = parameter == "version=1.0.0" || parameter == "version=0.0.1";
      }
    }
    if (!usable) continue;
    if (type == "application/openmetrics-text") open_metrics = std::max(open_metrics, quality);
    if (type == "text/plain" || type == "text/*" || type == "*/*") plain = std::max(plain, quality);
  }
  return open_metrics > 0 && open_metrics >= plain ? TextFormat::kOpenMetrics : TextFormat::kPrometheus;
}

std::string_view content_type_of(TextFormat format) {
  return format == TextFormat::kOpenMetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                            : "text/plain; version=0.0.4; charset=utf-8";
}

}  // namespace dracpu::observe
