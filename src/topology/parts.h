// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The parts of one read, in the order of spec topology-sysfs section 9. Internal to this folder.
//
// Each part fills its own fields of the Topology from files below the source and from fields that earlier
// parts filled: lists, then nodes, CPUs (cores, sockets, dies, clusters), caches, core types, PCIe roots.

#ifndef DRACPU_TOPOLOGY_PARTS_H_
#define DRACPU_TOPOLOGY_PARTS_H_

#include "topology/files.h"
#include "topology/topology.h"

namespace dracpu::topology {

// Fills `offline`, `isolated`, `nohz_full`, `smt_control`, `smt_active`; wants `online`.
void read_lists(Files& files, Topology& out);
// Fills `has_numa`, `nodes`.
void read_nodes(Files& files, Topology& out);
// Fills `cpus`, `usable`, `cores`, `sockets`, `dies`, `clusters`, and the nodes of CPUs.
void read_cpus(Files& files, Topology& out);
// Fills `has_caches`, `l3_groups`, and the groups of CPUs.
void read_caches(Files& files, Topology& out);
// Fills `core_type_source`, and types and capacities of CPUs.
void read_core_types(Files& files, Topology& out);
// Fills `pcie_roots`.
void read_pcie_roots(Files& files, Topology& out);

}  // namespace dracpu::topology

#endif  // DRACPU_TOPOLOGY_PARTS_H_
