// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A sysfs tree of a machine that does not exist, drawn at random.

#ifndef DRACPU_TEST_DATA_RANDOM_TREE_H_
#define DRACPU_TEST_DATA_RANDOM_TREE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "topology/source.h"

namespace dracpu::test {

// SplitMix64: a small state, so that every case can have a seed of its own.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  // 0 to n - 1; n is not 0.
  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(next() % n); }
  std::uint32_t between(std::uint32_t low, std::uint32_t high) { return low + below(high - low + 1); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  template <typename T>
  const T& among(const std::vector<T>& list) {
    return list[below(list.size())];
  }

 private:
  std::uint64_t state_;
};

// 1 to 8 sockets, up to 16 nodes, 1, 2, 4 or 8 threads, cores of different size, numbers with gaps, CPUs off
// line, with and without caches, nodes, sibling lists and core numbers. Lists only, no masks.
topology::MemorySource random_tree(Random& random);

}  // namespace dracpu::test

#endif  // DRACPU_TEST_DATA_RANDOM_TREE_H_
