// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// How an operation ended, as a label of metrics.
//
// Threads A value.

#ifndef DRACPU_OBSERVE_OUTCOME_H_
#define DRACPU_OBSERVE_OUTCOME_H_

#include <array>
#include <string_view>

#include "observe/metric_types.h"

namespace dracpu::observe {

enum class Outcome { kSuccess, kError, kUnknown };
template <>
struct LabelOf<Outcome> {
  static constexpr std::string_view kKey = "result";
  static constexpr std::array<std::string_view, 3> kValues = {"success", "error", "unknown"};
};

// The Prometheus client's default buckets.
inline constexpr std::array kDefaultSeconds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0};

}  // namespace dracpu::observe

#endif  // DRACPU_OBSERVE_OUTCOME_H_
