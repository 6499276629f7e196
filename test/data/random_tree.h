// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A sysfs tree of a machine that does not exist, drawn at random.

#ifndef DRACPU_TEST_DATA_RANDOM_TREE_H_
#define DRACPU_TEST_DATA_RANDOM_TREE_H_

#include "data/random.h"
#include "topology/source.h"

namespace dracpu::test {

// 1 to 8 sockets, up to 16 nodes, 1, 2, 4 or 8 threads, cores of different size, numbers with gaps, CPUs off
// line, with and without caches, nodes, sibling lists and core numbers. Lists only, no masks.
topology::MemorySource random_tree(Random& random);

}  // namespace dracpu::test

#endif  // DRACPU_TEST_DATA_RANDOM_TREE_H_
