// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Subsets of 0..n-1 in lexicographic order. Internal to this folder.

#ifndef DRACPU_ALLOC_SUBSETS_H_
#define DRACPU_ALLOC_SUBSETS_H_

#include <cstddef>
#include <numeric>
#include <span>

#include "alloc/scratch.h"

namespace dracpu::alloc {

// Calls `visit` with each subset of k elements until it returns false. No subset if k is 0 or above n.
template <typename F>
void for_each_subset(std::size_t n, std::size_t k, F&& visit) {
  if (k > n || k == 0) return;
  ScratchVector<std::size_t> at(k);
  std::iota(at.begin(), at.end(), std::size_t{0});
  for (;;) {
    if (!visit(std::span<const std::size_t>(at))) return;
    std::size_t i = k;
    while (i > 0 && at[i - 1] == n - k + i - 1) --i;
    if (i == 0) return;
    ++at[i - 1];
    for (std::size_t j = i; j < k; ++j) at[j] = at[j - 1] + 1;
  }
}

}  // namespace dracpu::alloc

#endif  // DRACPU_ALLOC_SUBSETS_H_
