// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "observe/memory_metrics.h"

#include <fmt/format.h>

#include <limits>

namespace dracpu::observe {

SpanGauge::SpanGauge(Registry& registry, std::string_view name, std::string_view help)
    : Family(registry, {name, MetricKind::kGauge, help, {"numa_node", "resource"}}) {}

void SpanGauge::set(Values values) {
  const Locked lock(mutex_);
  values_ = std::move(values);
}

SpanGauge::Values SpanGauge::values() const {
  const Locked lock(mutex_);
  return values_;
}

void SpanGauge::append_series(std::string& out, TextFormat /*format*/) const {
  for (const auto& [span, bytes] : values()) {
    append_sample(out, info().name,
                  fmt::format("{},{}", label_text("numa_node", fmt::format("{}", span.first)),
                              label_text("resource", span.second)),
                  bytes);
  }
}

MemoryMetrics::MemoryMetrics()
    : capacity_bytes(registry_, "dra_memory_capacity_bytes", "Memory that claims can have."),
      reserved_bytes(registry_, "dra_memory_reserved_bytes", "Memory reserved by configuration."),
      allocated_bytes(registry_, "dra_memory_allocated_bytes", "Memory held by prepared claims."),
      available_bytes(registry_, "dra_memory_available_bytes", "Memory that no claim holds."),
      hugepages_free_bytes(registry_, "dra_memory_hugepages_free_bytes",
                           "Hugepages that the kernel had free when they were last read."),
      resource_claims_active(registry_, "dra_memory_resource_claims_active", "Prepared claims on memory."),
      prepare_claims_total(registry_, "dra_memory_prepare_claims_total",
                           "Claims prepared by the memory driver, by result."),
      unprepare_claims_total(registry_, "dra_memory_unprepare_claims_total",
                             "Claims unprepared by the memory driver, by result."),
      prepare_claim_duration_seconds(registry_, "dra_memory_prepare_claim_duration_seconds",
                                     "Time to prepare one claim on memory.", kDefaultSeconds),
      container_rejections_total(registry_, "dra_memory_container_rejections_total",
                                 "Containers refused because of their memory claims, by reason."),
      rescans_total(registry_, "dra_memory_rescans_total",
                    "Times that the amounts were read anew, by result."),
      accounting_drift_bytes(
          registry_, "dra_memory_accounting_drift_bytes",
          "Base memory that claims can have, less what the node says that pods can have.") {
  accounting_drift_bytes.set(std::numeric_limits<double>::quiet_NaN());
}

void MemoryMetrics::append(std::string& out, TextFormat format) const {
  for (const Family* family : registry_.families()) family->append(out, format);
}

std::vector<MetricInfo> MemoryMetrics::described() const {
  std::vector<MetricInfo> out;
  for (const Family* family : registry_.families()) out.push_back(family->info());
  return out;
}

}  // namespace dracpu::observe
