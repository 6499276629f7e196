// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Machines that do not exist, drawn at random: what the property test of the selectors runs on.

#ifndef DRACPU_ALLOC_RANDOM_MACHINE_H_
#define DRACPU_ALLOC_RANDOM_MACHINE_H_

#include <cstdint>
#include <vector>

#include "alloc/layout.h"
#include "base/cpuset.h"

namespace dracpu::alloc {

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

struct RandomMachine {
  std::vector<Row> rows;  // as the layout has it, for a report
  Layout layout;
  Layout twin;  // made a second time from the same tree
  CpuSet cpus;
  // Members by unit, in the order of the layout.
  std::vector<CpuSet> sockets;
  std::vector<CpuSet> nodes;
  std::vector<CpuSet> caches;
  std::vector<CpuSet> cores;
  bool are_cores_equal = false;  // all of one size
  bool is_nested = false;        // every core lies in one node, socket and cache
};

// A sysfs tree, read like that of a real machine: 1 to 8 sockets, up to 16 nodes, 1, 2, 4 or 8 threads, cores
// of different size, numbers with gaps, CPUs off line, with and without caches, nodes and core numbers.
RandomMachine machine_from_tree(Random& random);
// A table in which nothing fits: every number of every CPU is drawn for itself.
RandomMachine machine_from_rows(Random& random);

}  // namespace dracpu::alloc

#endif  // DRACPU_ALLOC_RANDOM_MACHINE_H_
