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
//           share one nameless unit here; the numbers never leave this folder.
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

// One CPU of a machine given as a table. Negative: not reported.
struct Row {
  std::uint32_t cpu = 0;
  std::int64_t socket = -1;
  std::int64_t node = -1;
  std::int64_t cluster = -1;
  std::int64_t core = -1;
  std::int64_t cache = -1;
};

// One socket, node, cache or core. Members and parents are dense indices.
struct Unit {
  std::int64_t id = 0;                 // as the kernel numbers it; for cores the sort key
  std::vector<std::uint32_t> cpus;     // ascending
  std::vector<std::uint32_t> nodes;    // nodes that a member lies in
  std::vector<std::uint32_t> sockets;  // sockets that a member lies in
  std::vector<std::uint32_t> cores;    // cores with a member, ascending
};

class Layout {
 public:
  explicit Layout(const topology::Topology& topology);
  explicit Layout(std::span<const Row> rows);

  std::size_t cpu_count() const { return cpus_.size(); }
  const CpuSet& all() const { return all_; }
  const std::vector<Unit>& sockets() const { return sockets_; }
  const std::vector<Unit>& nodes() const { return nodes_; }
  const std::vector<Unit>& caches() const { return caches_; }
  const std::vector<Unit>& cores() const { return cores_; }

  // Where a CPU (dense index) belongs.
  struct Place {
    std::uint32_t number = 0;  // the kernel's
    std::uint32_t socket = 0;
    std::uint32_t node = 0;
    std::uint32_t cache = 0;
    std::uint32_t core = 0;
  };
  const std::vector<Place>& cpus() const { return cpus_; }
  // Dense index of a CPU number, nothing for a CPU that the machine does not have.
  std::optional<std::uint32_t> index_of(CpuId cpu) const;

  bool numa_first() const { return sockets_.size() >= nodes_.size(); }
  std::size_t threads_per_core() const { return cores_.empty() ? 1 : cpus_.size() / cores_.size(); }
  std::size_t average_cache() const { return has_caches_ ? cpus_.size() / caches_.size() : 0; }

 private:
  void build(std::vector<Row> rows, bool has_unique_core_numbers);

  CpuSet all_;
  std::vector<Place> cpus_;                             // ascending by number
  std::vector<std::uint32_t> index_;                    // CPU number → dense index, kNoIndex for none
  std::vector<Unit> sockets_, nodes_, caches_, cores_;  // ascending by id
  bool has_caches_ = false;
};

}  // namespace dracpu::alloc

#endif  // DRACPU_ALLOC_LAYOUT_H_
