// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Counters, gauges and histograms with label values fixed at compile time, and a registry that writes them.
//
// A metric is a member of a struct (observe/metrics.h) and registers itself there on construction; the order
// of registration is the order of output. There is no way to add a label value at run time, except for
// TextGauge and TextCounter, which stop at kMaxTextLabels, so a scrape cannot grow without bound.
//
// Output  Prometheus text 0.0.4, or OpenMetrics 1.0.0 when asked.
// Errors  None; a metric cannot fail.
// Cost    One or two relaxed atomic operations a sample; TextGauge and TextCounter take a lock.
// Threads Any.

#ifndef DRACPU_OBSERVE_METRIC_TYPES_H_
#define DRACPU_OBSERVE_METRIC_TYPES_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/mutex.h"

namespace dracpu::observe {

enum class TextFormat { kPrometheus, kOpenMetrics };
enum class MetricKind { kCounter, kGauge, kHistogram };
std::string_view name_of(MetricKind kind);

struct MetricInfo {
  std::string_view name;
  MetricKind kind = MetricKind::kGauge;
  std::string_view help;
  std::vector<std::string_view> labels;
};

class Registry;

// One name with all its series.
class Family {
 public:
  Family(Registry& registry, MetricInfo info);
  virtual ~Family() = default;
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  const MetricInfo& info() const { return info_; }
  void append(std::string& out, TextFormat format) const;

 protected:
  virtual void append_series(std::string& out, TextFormat format) const = 0;

 private:
  MetricInfo info_;
};

// Families in order; does not own them, they outlive it or lie in the same struct.
class Registry {
 public:
  void add(const Family* family) { families_.push_back(family); }
  const std::vector<const Family*>& families() const { return families_; }

 private:
  std::vector<const Family*> families_;
};

// A label: its key and values, in the order of the enumerators. Specialised beside each enumeration.
template <typename E>
struct LabelOf;

template <typename E>
constexpr std::size_t label_count() {
  return LabelOf<E>::kValues.size();
}

// The HELP and TYPE lines.
void append_header(std::string& out, const MetricInfo& info, TextFormat format);
// `labels` is empty or like result="success",mode="shared".
void append_sample(std::string& out, std::string_view name, std::string_view labels, double value);
void append_sample(std::string& out, std::string_view name, std::string_view labels, std::uint64_t value);
std::string label_text(std::string_view key, std::string_view value);

class Counter final : public Family {
 public:
  Counter(Registry& registry, std::string_view name, std::string_view help);
  void inc(std::uint64_t by = 1) { value_.fetch_add(by, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 protected:
  void append_series(std::string& out, TextFormat format) const override;

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Every value of the label is there from the start, at 0.
template <typename E>
class CounterBy final : public Family {
 public:
  CounterBy(Registry& registry, std::string_view name, std::string_view help)
      : Family(registry, {name, MetricKind::kCounter, help, {LabelOf<E>::kKey}}) {}
  void inc(E label, std::uint64_t by = 1) {
    values_[static_cast<std::size_t>(label)].fetch_add(by, std::memory_order_relaxed);
  }
  std::uint64_t value(E label) const {
    return values_[static_cast<std::size_t>(label)].load(std::memory_order_relaxed);
  }

 protected:
  void append_series(std::string& out, TextFormat) const override {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      append_sample(out, info().name, label_text(LabelOf<E>::kKey, LabelOf<E>::kValues[i]),
                    values_[i].load(std::memory_order_relaxed));
    }
  }

 private:
  std::array<std::atomic<std::uint64_t>, label_count<E>()> values_{};
};

// Without a sample while its value is no number.
class Gauge final : public Family {
 public:
  Gauge(Registry& registry, std::string_view name, std::string_view help);
  template <typename T>
    requires std::is_arithmetic_v<T>
  void set(T value) {
    value_.store(static_cast<double>(value), std::memory_order_relaxed);
  }
  double value() const { return value_.load(std::memory_order_relaxed); }

 protected:
  void append_series(std::string& out, TextFormat format) const override;

 private:
  std::atomic<double> value_{0};
};

// Samples of one histogram series. Buckets are upper bounds, ascending, without +Inf.
class Distribution {
 public:
  explicit Distribution(std::span<const double> bounds);
  void observe(double value);
  std::uint64_t count() const;
  double sum() const { return sum_.load(std::memory_order_relaxed); }
  void append(std::string& out, std::string_view name, const std::string& labels, TextFormat format) const;

 private:
  std::span<const double> bounds_;                   // static storage
  std::vector<std::atomic<std::uint64_t>> buckets_;  // one more than bounds_
  std::atomic<double> sum_{0};
};

class Histogram final : public Family {
 public:
  Histogram(Registry& registry, std::string_view name, std::string_view help, std::span<const double> bounds);
  void observe(double value) { samples_.observe(value); }
  const Distribution& samples() const { return samples_; }

 protected:
  void append_series(std::string& out, TextFormat format) const override;

 private:
  Distribution samples_;
};

// A series is written once it has a sample, as the Prometheus client does it.
template <typename E>
class HistogramBy final : public Family {
 public:
  HistogramBy(Registry& registry, std::string_view name, std::string_view help,
              std::span<const double> bounds)
      : Family(registry, {name, MetricKind::kHistogram, help, {LabelOf<E>::kKey}}) {
    for (std::size_t i = 0; i < label_count<E>(); ++i)
      series_.push_back(std::make_unique<Distribution>(bounds));
  }
  void observe(E label, double value) { series_[static_cast<std::size_t>(label)]->observe(value); }
  const Distribution& samples(E label) const { return *series_[static_cast<std::size_t>(label)]; }

 protected:
  void append_series(std::string& out, TextFormat format) const override {
    for (std::size_t i = 0; i < series_.size(); ++i) {
      if (series_[i]->count() == 0) continue;
      series_[i]->append(out, info().name, label_text(LabelOf<E>::kKey, LabelOf<E>::kValues[i]), format);
    }
  }

 private:
  std::vector<std::unique_ptr<Distribution>> series_;
};

template <typename E, typename F>
class HistogramBy2 final : public Family {
 public:
  HistogramBy2(Registry& registry, std::string_view name, std::string_view help,
               std::span<const double> bounds)
      : Family(registry, {name, MetricKind::kHistogram, help, {LabelOf<E>::kKey, LabelOf<F>::kKey}}) {
    for (std::size_t i = 0; i < label_count<E>() * label_count<F>(); ++i) {
      series_.push_back(std::make_unique<Distribution>(bounds));
    }
  }
  void observe(E first, F second, double value) { series_[index(first, second)]->observe(value); }
  const Distribution& samples(E first, F second) const { return *series_[index(first, second)]; }

 protected:
  void append_series(std::string& out, TextFormat format) const override {
    for (std::size_t i = 0; i < series_.size(); ++i) {
      if (series_[i]->count() == 0) continue;
      const std::string labels = label_text(LabelOf<E>::kKey, LabelOf<E>::kValues[i / label_count<F>()]) +
                                 "," +
                                 label_text(LabelOf<F>::kKey, LabelOf<F>::kValues[i % label_count<F>()]);
      series_[i]->append(out, info().name, labels, format);
    }
  }

 private:
  static std::size_t index(E first, F second) {
    return static_cast<std::size_t>(first) * label_count<F>() + static_cast<std::size_t>(second);
  }
  std::vector<std::unique_ptr<Distribution>> series_;
};

inline constexpr std::size_t kMaxTextLabels = 64;

// One label whose values are short texts of our own code (a step's name, an operation). Those over
// kMaxTextLabels are counted under "other".
class TextGauge final : public Family {
 public:
  TextGauge(Registry& registry, std::string_view name, std::string_view help, std::string_view key);
  void set(std::string_view label, double value);
  // Keeps the lowest value seen.
  void lower(std::string_view label, double value);

 protected:
  void append_series(std::string& out, TextFormat format) const override;

 private:
  mutable Mutex mutex_;
  std::map<std::string, double, std::less<>> values_ DRACPU_GUARDED_BY(mutex_);
};

class TextCounter final : public Family {
 public:
  TextCounter(Registry& registry, std::string_view name, std::string_view help, std::string_view key);
  void inc(std::string_view label, std::uint64_t by = 1);
  std::uint64_t value(std::string_view label) const;

 protected:
  void append_series(std::string& out, TextFormat format) const override;

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::uint64_t, std::less<>> values_ DRACPU_GUARDED_BY(mutex_);
};

}  // namespace dracpu::observe

#endif  // DRACPU_OBSERVE_METRIC_TYPES_H_
