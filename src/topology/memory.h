// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// How much memory each NUMA node has, and its hugepage pools.
//
// Apart from reader.h, because memory is published by amount: where a CPU is left out if its files are odd, a
// node whose numbers cannot be read must not be offered at all. It is also small enough to be read again and
// again.
//
// Input    Below the root: sys/devices/system/node (has_memory, nodeN/meminfo, nodeN/hugepages). If the
// kernel
//          has no node directory: proc/meminfo and sys/kernel/mm/hugepages, as node 0.
// Output   The nodes that have memory: those of has_memory or, without that list, those whose MemTotal is
// above
//          zero. Ids are the numbers of the directories.
// Errors   Of one node: in its `amounts`, because a node that is not published may be as odd as it likes.
//          Of the whole:
//          kUnavailable  a directory or list cannot be read
//          kCorrupt      a file does not say what it should; the text names it
//          kNotFound     a file that every kernel has is missing
// Cost     A few small reads per node.
// Threads  Keeps no state; call it from any thread.

#ifndef DRACPU_TOPOLOGY_MEMORY_H_
#define DRACPU_TOPOLOGY_MEMORY_H_

#include <cstdint>
#include <map>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "topology/reader.h"
#include "topology/source.h"
#include "topology/topology.h"

namespace dracpu::topology {

struct MemoryAmounts {
  std::uint64_t total_bytes = 0;        // MemTotal; hugepage pools are part of it
  std::vector<HugepagePool> hugepages;  // ascending page size, pools of no page included

  friend bool operator==(const MemoryAmounts&, const MemoryAmounts&) = default;
};

struct MachineMemory {
  std::map<NumaNodeId, Result<MemoryAmounts>> nodes;
  bool has_numa = false;  // false: one node 0 stands for the machine
};

Result<MachineMemory> read_memory(Source& source);
// With the overlay of `options`.
Result<MachineMemory> read_memory(const ReadOptions& options);

}  // namespace dracpu::topology

#endif  // DRACPU_TOPOLOGY_MEMORY_H_
