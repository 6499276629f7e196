// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Machines that do not exist, drawn at random: what the property test of the selectors runs on.

#ifndef DRACPU_ALLOC_RANDOM_MACHINE_H_
#define DRACPU_ALLOC_RANDOM_MACHINE_H_

#include <vector>

#include "alloc/layout.h"
#include "base/cpuset.h"

namespace dracpu::test {
class Random;
}

namespace dracpu::alloc {

using test::Random;

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

// A tree of data/random_tree.h, read like that of a real machine.
RandomMachine machine_from_tree(Random& random);
// A table in which nothing fits: every number of every CPU is drawn for itself.
RandomMachine machine_from_rows(Random& random);

}  // namespace dracpu::alloc

#endif  // DRACPU_ALLOC_RANDOM_MACHINE_H_
