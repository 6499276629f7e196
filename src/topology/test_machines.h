// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The machines that the tests of both pictures draw: even ones of all sizes, odd ones, and the collection.

#ifndef DRACPU_TOPOLOGY_TEST_MACHINES_H_
#define DRACPU_TOPOLOGY_TEST_MACHINES_H_

#include <string>
#include <vector>

#include "topology/topology.h"

namespace dracpu::topology {

struct NamedMachine {
  std::string name;
  Topology topology;
};

std::vector<NamedMachine> made_machines();
const Topology& made_machine(const std::vector<NamedMachine>& machines, const std::string& name);

// Read once. Empty where the collection is not there; see data/corpus.h.
const std::vector<NamedMachine>& collected_machines();

}  // namespace dracpu::topology

#endif  // DRACPU_TOPOLOGY_TEST_MACHINES_H_
