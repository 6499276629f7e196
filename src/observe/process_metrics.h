// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The figures every Prometheus client gives of its own process, read from /proc.
//
// What cannot be read is left out.
// Threads Any; no state.

#ifndef DRACPU_OBSERVE_PROCESS_METRICS_H_
#define DRACPU_OBSERVE_PROCESS_METRICS_H_

#include <filesystem>
#include <string>

#include "observe/metric_types.h"

namespace dracpu::observe {

// `proc` is "/proc" except in tests.
void append_process_metrics(std::string& out, TextFormat format, const std::filesystem::path& proc = "/proc");

}  // namespace dracpu::observe

#endif  // DRACPU_OBSERVE_PROCESS_METRICS_H_
