// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The opaque configuration of a claim: which CPUs an external allocator has chosen.
//
// Input   JSON of `opaque.parameters` (spec driver-behaviours section 10). Without `kind` it is release
// 0.3.0's
//         form: apiVersion "v1alpha1" and cpuConfig.cpuset, a Linux list; other keys are ignored.
// Errors  kInvalidInput  names what is missing or wrong, with the value
//         kUnsupported   another `kind` (RULINGS 19)
// Threads Any; no state.

#ifndef DRACPU_AGENT_OPAQUE_CONFIG_H_
#define DRACPU_AGENT_OPAQUE_CONFIG_H_

#include <string_view>

#include "base/cpuset.h"
#include "base/result.h"

namespace dracpu::agent {

Result<CpuSet> parse_chosen_cpus(std::string_view parameters);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_OPAQUE_CONFIG_H_
