// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The steps of a start, each with its name and time in the log and the metric, if it was done.
//
// Errors   Those of the work, led by the step's name.
// Threads  The caller's.

#ifndef DRACPU_AGENT_START_STEP_H_
#define DRACPU_AGENT_START_STEP_H_

#include <functional>
#include <string_view>

#include "base/result.h"
#include "observe/metrics.h"

namespace dracpu::agent {

Status timed_step(observe::Metrics& metrics, std::string_view name, const std::function<Status()>& work);
// Of a wait. False: given up, so it was not done.
Result<bool> timed_wait(observe::Metrics& metrics, std::string_view name,
                        const std::function<Result<bool>()>& work);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_START_STEP_H_
