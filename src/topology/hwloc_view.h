// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A machine as hwloc sees it, from a tree of files. For tests only.

#ifndef DRACPU_TOPOLOGY_HWLOC_VIEW_H_
#define DRACPU_TOPOLOGY_HWLOC_VIEW_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/cpuset.h"
#include "base/ids.h"

namespace dracpu::topology {

using Sets = std::set<CpuSet>;

struct SeenNode {
  CpuSet cpus;
  std::uint64_t memory_bytes = 0;  // 0: not told
};

struct Seen {
  CpuSet cpus;
  Sets packages;
  Sets cores;
  Sets l2;  // unified ones
  Sets l3;
  std::map<NumaNodeId, SeenNode> nodes;
};

// Nothing if hwloc refuses the tree. Sets environment variables.
std::optional<Seen> look_with_hwloc(const std::filesystem::path& root);

// hwloc reads masks only. These write the masks that a tree lacks, from what it has, and tell if they wrote
// any: from lists, also where list and mask differ in online CPUs; of nodes from links; and of nodes without
// the CPUs that are off line.
bool write_masks_from_lists(const std::filesystem::path& root, const CpuSet& online);
bool write_node_masks_from_links(const std::filesystem::path& root);
bool cut_node_masks(const std::filesystem::path& root, const CpuSet& online);

// The set in a mask file; nothing if it is not there or does not parse.
std::optional<CpuSet> mask_in(const std::filesystem::path& file);

}  // namespace dracpu::topology

#endif  // DRACPU_TOPOLOGY_HWLOC_VIEW_H_
