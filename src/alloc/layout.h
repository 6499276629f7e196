// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The machine as the selectors see it: units (sockets, nodes, caches, cores) as small dense tables.
//
// Built once per topology; picking then allocates a few arrays per call and nothing per step.
//
// Identity  A core is a set of threads. Units are ordered by the kernel's number; where two cores share a
// number,
//           by socket, cluster and number (spec cpu-allocation section 1). A CPU without a last-level cache
//           belongs to a cache of its socket, numbered after the real ones. CPUs of unknown socket or node
//           share one nameless unit here; its number never leaves this folder.
// Threads   Immutable after construction; share it freely.

#ifndef DRACPU_ALLOC_LAYOUT_H_
#define DRACPU_ALLOC_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/cpuset.h"
#include "topology/topology.h"

namespace dracpu::alloc {

// Dense index of a CPU or a unit.
using Index = std::uint32_t;

// One CPU of a machine given as a table. Negative: not reported.
struct Row {
  std::uint32_t cpu = 0;
  std::int64_t socket = -1;
  std::int64_t node = -1;
  std::int64_t cluster = -1;
  std::int64_t core = -1;
  std::int64_t cache = -1;
};

// One socket, node, cache or core. All lists ascend.
struct Unit {
  std::int64_t id = 0;       // the kernel's number; for a core its sort key
  std::vector<Index> cpus;   // members
  std::vector<Index> nodes;  // nodes, sockets and cores that a member lies in
  std::vector<Index> sockets;
  std::vector<Index> cores;
};

class Layout {
 public:
  explicit Layout(const topology::Topology& topology);
  explicit Layout(std::span<const Row> rows);

  // Where a CPU belongs.
  struct Place {
    std::uint32_t number = 0;  // the kernel's
    Index socket = 0;
    Index node = 0;
    Index cache = 0;
    Index core = 0;
  };
  const std::vector<Place>& cpus() const { return cpus_; }  // ascending by number
  const std::vector<Unit>& sockets() const { return sockets_; }
  const std::vector<Unit>& nodes() const { return nodes_; }
  const std::vector<Unit>& caches() const { return caches_; }
  const std::vector<Unit>& cores() const { return cores_; }

  // Nothing for a CPU that the machine does not have.
  std::optional<Index> index_of(CpuId cpu) const;
  // The kernel's numbers of a unit's members.
  CpuSet cpus_of(const Unit& unit) const;

  // Which level is on top when packing.
  bool is_numa_first() const { return sockets_.size() >= nodes_.size(); }
  std::size_t threads_per_core() const { return cores_.empty() ? 1 : cpus_.size() / cores_.size(); }
  std::size_t average_cache() const { return has_caches_ ? cpus_.size() / caches_.size() : 0; }

 private:
  // `core` names the core of each row, in the order of `rows`, which ascend by CPU without repeats.
  void build(const std::vector<Row>& rows, const std::vector<std::int64_t>& core);

  std::vector<Place> cpus_;
  std::vector<Index> index_;  // by CPU number
  std::vector<Unit> sockets_;
  std::vector<Unit> nodes_;
  std::vector<Unit> caches_;
  std::vector<Unit> cores_;
  bool has_caches_ = false;
};

}  // namespace dracpu::alloc

#endif  // DRACPU_ALLOC_LAYOUT_H_
