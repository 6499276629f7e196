// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Packing: spec cpu-allocation sections 4 and 5.2. Internal to this folder.

#ifndef DRACPU_ALLOC_PACKED_H_
#define DRACPU_ALLOC_PACKED_H_

#include <cstddef>

#include "alloc/free_state.h"
#include "alloc/pick.h"
#include "base/cpuset.h"

namespace dracpu::alloc {

// Takes `count` CPUs out of `free` and returns their numbers. `free` must hold that many.
CpuSet take_packed(FreeState& free, std::size_t count, Sorting sorting, bool prefer_caches);

}  // namespace dracpu::alloc

#endif  // DRACPU_ALLOC_PACKED_H_
