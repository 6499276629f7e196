// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Which CPUs a claim gets: the repaired form of spec cpu-allocation.
//
// Input    The machine, the CPUs that are free (unknown numbers are ignored; for a claim: what is free inside
// its
//          device), how many are wanted.
// Output   Exactly that many CPUs, all of them free; checked before returning. Same input, same output.
// Errors   kNoCapacity    fewer are free than wanted; the text gives both numbers
//          kInvalidInput  whole cores wanted and the count is not a multiple of the threads per core
//          kInternal      the check at the end failed; nothing is handed out
// Cost     Linear in the free CPUs, plus sorting of units: tens of microseconds for 512 CPUs.
// Threads  Pure.

#ifndef DRACPU_ALLOC_PICK_H_
#define DRACPU_ALLOC_PICK_H_

#include <cstddef>

#include "alloc/layout.h"
#include "base/cpuset.h"
#include "base/result.h"

namespace dracpu::alloc {

enum class Sorting {
  kPacked,  // whole cores first, then what is left of the fullest
  kSpread,  // one thread of every core before the second of any
};

struct Options {
  Sorting sorting = Sorting::kPacked;
  bool prefer_caches = true;   // one last-level cache where possible; the driver's default
  bool distribute = false;     // evenly over the fewest nodes; caches are then not preferred
  std::size_t group_size = 1;  // for distribute: CPUs handed out together
};

Result<CpuSet> pick(const Layout& layout, const CpuSet& free, std::size_t count, const Options& options = {});

}  // namespace dracpu::alloc

#endif  // DRACPU_ALLOC_PICK_H_
