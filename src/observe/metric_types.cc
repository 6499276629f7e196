// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "observe/metric_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace dracpu::observe {
namespace {

// HELP texts and label values escape backslash, line feed and (labels) the quote.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '"') {
      out += "\\\"";
    } else {
      out += c;
    }
  }
  return out;
}

// OpenMetrics wants a decimal point in "le", so that 1 and 1.0 are one series.
std::string bound_text(double bound, TextFormat format) {
  std::string text = fmt::format("{}", bound);
  if (format == TextFormat::kOpenMetrics && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

template <typename Map>
auto& slot(Map& values, std::string_view label) {
  auto it = values.find(label);
  if (it == values.end()) {
    const bool full = values.size() + 1 >= kMaxTextLabels;
    it = values.try_emplace(std::string(full ? std::string_view("other") : label)).first;
  }
  return it->second;
}

}  // namespace

std::string_view name_of(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return "counter";
    case MetricKind::kGauge:
      return "gauge";
    case MetricKind::kHistogram:
      return "histogram";
  }
  return "untyped";
}

Family::Family(Registry& registry, MetricInfo info) : info_(std::move(info)) { registry.add(this); }

void Family::append(std::string& out, TextFormat format) const {
  append_header(out, info_, format);
  append_series(out, format);
}

void append_header(std::string& out, const MetricInfo& info, TextFormat format) {
  std::string_view name = info.name;
  // In OpenMetrics the family has no "_total", only its samples.
  if (format == TextFormat::kOpenMetrics && info.kind == MetricKind::kCounter && name.ends_with("_total")) {
    name.remove_suffix(std::string_view("_total").size());
  }
  fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", name, escaped(info.help), name,
                 name_of(info.kind));
}

void append_sample(std::string& out, std::string_view name, std::string_view labels, double value) {
  if (labels.empty()) {
    fmt::format_to(std::back_inserter(out), "{} {}\n", name, value);
  } else {
    fmt::format_to(std::back_inserter(out), "{}{{{}}} {}\n", name, labels, value);
  }
}

void append_sample(std::string& out, std::string_view name, std::string_view labels, std::uint64_t value) {
  if (labels.empty()) {
    fmt::format_to(std::back_inserter(out), "{} {}\n", name, value);
  } else {
    fmt::format_to(std::back_inserter(out), "{}{{{}}} {}\n", name, labels, value);
  }
}

std::string label_text(std::string_view key, std::string_view value) {
  return fmt::format("{}=\"{}\"", key, escaped(value));
}

Counter::Counter(Registry& registry, std::string_view name, std::string_view help)
    : Family(registry, {name, MetricKind::kCounter, help, {}}) {}

void Counter::append_series(std::string& out, TextFormat) const {
  append_sample(out, info().name, "", value());
}

Gauge::Gauge(Registry& registry, std::string_view name, std::string_view help)
    : Family(registry, {name, MetricKind::kGauge, help, {}}) {}

void Gauge::append_series(std::string& out, TextFormat) const {
  if (!std::isnan(value())) append_sample(out, info().name, "", value());
}

Distribution::Distribution(std::span<const double> bounds) : bounds_(bounds), buckets_(bounds.size() + 1) {}

void Distribution::observe(double value) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  buckets_[static_cast<std::size_t>(at - bounds_.begin())].fetch_add(1, std::memory_order_relaxed);
  double sum = sum_.load(std::memory_order_relaxed);
  while (!sum_.compare_exchange_weak(sum, sum + value, std::memory_order_relaxed)) {
  }
}

std::uint64_t Distribution::count() const {
  std::uint64_t n = 0;
  for (const auto& bucket : buckets_) n += bucket.load(std::memory_order_relaxed);
  return n;
}

void Distribution::append(std::string& out, std::string_view name, const std::string& labels,
                          TextFormat format) const {
  const std::string prefix = labels.empty() ? "" : labels + ",";
  const std::string bucket = fmt::format("{}_bucket", name);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < bounds_.size(); ++i) {
    below += buckets_[i].load(std::memory_order_relaxed);
    append_sample(out, bucket, prefix + label_text("le", bound_text(bounds_[i], format)), below);
  }
  below += buckets_.back().load(std::memory_order_relaxed);
  append_sample(out, bucket, prefix + label_text("le", "+Inf"), below);
  append_sample(out, fmt::format("{}_sum", name), labels, sum());
  append_sample(out, fmt::format("{}_count", name), labels, below);  // the same number as +Inf, always
}

Histogram::Histogram(Registry& registry, std::string_view name, std::string_view help,
                     std::span<const double> bounds)
    : Family(registry, {name, MetricKind::kHistogram, help, {}}), samples_(bounds) {}

void Histogram::append_series(std::string& out, TextFormat format) const {
  samples_.append(out, info().name, "", format);
}

TextGauge::TextGauge(Registry& registry, std::string_view name, std::string_view help, std::string_view key)
    : Family(registry, {name, MetricKind::kGauge, help, {key}}) {}

void TextGauge::set(std::string_view label, double value) {
  const Locked lock(mutex_);
  slot(values_, label) = value;
}

void TextGauge::lower(std::string_view label, double value) {
  const Locked lock(mutex_);
  const auto known = values_.find(label);
  if (known == values_.end()) {
    slot(values_, label) = value;
  } else {
    known->second = std::min(known->second, value);
  }
}

void TextGauge::append_series(std::string& out, TextFormat) const {
  const Locked lock(mutex_);
  for (const auto& [label, value] : values_) {
    append_sample(out, info().name, label_text(info().labels.front(), label), value);
  }
}

TextCounter::TextCounter(Registry& registry, std::string_view name, std::string_view help,
                         std::string_view key)
    : Family(registry, {name, MetricKind::kCounter, help, {key}}) {}

void TextCounter::inc(std::string_view label, std::uint64_t by) {
  const Locked lock(mutex_);
  slot(values_, label) += by;
}

std::uint64_t TextCounter::value(std::string_view label) const {
  const Locked lock(mutex_);
  const auto it = values_.find(label);
  return it == values_.end() ? 0 : it->second;
}

void TextCounter::append_series(std::string& out, TextFormat) const {
  const Locked lock(mutex_);
  for (const auto& [label, value] : values_) {
    append_sample(out, info().name, label_text(info().labels.front(), label), value);
  }
}

}  // namespace dracpu::observe
