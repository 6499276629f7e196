// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// From what the kernel says to what can be claimed: one span per NUMA node and kind of memory.
//
// Rules    Base memory is what is left of MemTotal without the hugepage pools and the reservation, rounded
// down
//          to whole pages; less than 1 MiB or two pages is not offered. A pool offers its pages without
//          surplus ones, which the kernel takes back, and without the reservation. Offered are the nodes of
//          memory.nodes or, if that is empty, those with CPUs: a node without any may be a device's own
//          memory.
// Errors   That of an offered node whose files could not be read; kCorrupt if it claims to have more than the
//          API can count. check_reserved() and check_nodes() come first; later, when pools have grown, a
//          reservation of more than there is leaves nothing, which is no error.
// Threads  Pure.

#ifndef DRACPU_MEMORY_DISCOVERY_H_
#define DRACPU_MEMORY_DISCOVERY_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "memory/types.h"
#include "topology/memory.h"
#include "topology/topology.h"

namespace dracpu::memory {

struct Span {
  Kind kind;
  NumaNodeId node;
  Bytes page;      // of base memory, too
  Bytes present;   // before the reservation
  Bytes reserved;  // as configured
  Bytes capacity;  // what claims can have; never zero

  friend bool operator==(const Span&, const Span&) = default;
};

struct NodeFacts {
  bool has_cpus = false;
  std::optional<SocketId> socket;  // if its CPUs are of one

  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

struct Inventory {
  std::vector<Span> spans;                 // by kind, then by node: in published order
  std::map<NumaNodeId, NodeFacts> nodes;   // those offered
  std::set<NumaNodeId> nodes_with_memory;  // all of the machine
  bool has_numa = false;
  std::vector<topology::Warning> warnings;

  friend bool operator==(const Inventory&, const Inventory&) = default;
};

struct Selection {
  std::set<NumaNodeId> nodes{};  // empty: those with CPUs
  Amounts reserved{};
  Bytes base_page{4096};  // sysconf(_SC_PAGESIZE)
};

Result<Inventory> take_inventory(const topology::MachineMemory& machine, const topology::Topology& topology,
                                 const Selection& selection);

// What a node has of one kind, before any reservation.
Bytes present_of(const topology::MemoryAmounts& amounts, Kind kind);

// Base memory is offered from here on.
constexpr Bytes least_memory(Bytes base_page) {
  constexpr Bytes kMiB{std::uint64_t{1} << 20U};
  return std::max(kMiB, base_page + base_page);
}

}  // namespace dracpu::memory

#endif  // DRACPU_MEMORY_DISCOVERY_H_
