// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What both pictures show: the machine as a tree of boxes, and words for its parts. Internal to this folder.
//
// Threads  Functions of their arguments.

#ifndef DRACPU_TOPOLOGY_PICTURE_TREE_H_
#define DRACPU_TOPOLOGY_PICTURE_TREE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/topology.h"

namespace dracpu::topology {

// A longer list of CPUs is told as their number, where that will do.
inline constexpr std::size_t kLongList = 40;

enum class Level { kMachine, kSocket, kNode, kL3 };

struct Box {
  Level level = Level::kMachine;
  std::string name;                // "Socket 0", "part of L3 3 (10 of 20 CPUs)"
  std::string facts;               // "125.7 GiB, hugepages 4 x 1 GiB (0 free)"; may be empty
  std::optional<NumaNodeId> node;  // set in the first box of this node
  CpuSet cpus;
  std::vector<Box> boxes;     // of the next level; empty: the cores are here
  std::vector<CpuSet> cores;  // the threads that lie in this box
};

// The usable CPUs. The outermost box is the machine.
Box machine_tree(const Topology& t);

// "96 CPUs, 48 cores, 2 threads per core, 2 sockets, 8 NUMA nodes, 16 L3 groups, SMT on", then a line each
// for offline, isolated and other lists of CPUs that are not empty.
std::vector<std::string> summary(const Topology& t);

// Nodes that have no box in the tree: without CPUs, or with CPUs that belong to another node.
struct SideNode {
  NumaNodeId id;
  std::string facts;  // "NUMA node 4, 124 GiB"
  std::string note;   // "nearest node 0 (distance 17)"; may be empty
};
std::vector<SideNode> side_nodes(const Topology& t);

// PCIe roots with the same node and CPUs, in the order of the machine.
struct RootGroup {
  // The node that the firmware names, else the only one with exactly these CPUs.
  std::optional<NumaNodeId> home;
  bool is_whole_node = false;  // the local CPUs are those of `home`
  std::string cpus;            // "CPUs 0-7", "all CPUs", "all 40 CPUs of node 0"
  std::string place;           // "node 0, CPUs 0-7"; "no node told, all CPUs"
  std::string names;           // "pci0000:00 pci0000:20"
};
std::vector<RootGroup> root_groups(const Topology& t);

// "P", "M", "E"; empty for a core of no kind.
std::string_view letter_of(CoreType type);

// "CPU 3", "CPUs 0-7", "no CPUs".
std::string cpus_text(const CpuSet& cpus);

// "512 KiB", "35.8 MiB", "1.5 TiB".
std::string bytes_text(std::uint64_t bytes);

// Printable ASCII, other bytes as "?".
std::string plain(std::string_view text);

// Lines of at most `width` characters (at least 1), broken after a comma and a space, else after spaces and
// commas, and anywhere in a word that is too long.
std::vector<std::string> wrap(std::string_view text, std::size_t width);

}  // namespace dracpu::topology

#endif  // DRACPU_TOPOLOGY_PICTURE_TREE_H_
