// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Even distribution over the fewest nodes: spec cpu-allocation section 6. Internal to this folder.

#ifndef DRACPU_ALLOC_DISTRIBUTED_H_
#define DRACPU_ALLOC_DISTRIBUTED_H_

#include <cstddef>

#include "alloc/free_state.h"
#include "alloc/pick.h"
#include "base/cpuset.h"

namespace dracpu::alloc {

// Takes `count` CPUs, a multiple of `group`, out of `free`, which must hold that many. Falls back to packing
// where no set of nodes can give groups of that size.
CpuSet take_distributed(FreeState& free, std::size_t count, Sorting sorting, std::size_t group);

}  // namespace dracpu::alloc

#endif  // DRACPU_ALLOC_DISTRIBUTED_H_
