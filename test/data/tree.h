// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A sysfs tree of a machine that does not exist, as big and as even as asked for.

#ifndef DRACPU_TEST_DATA_TREE_H_
#define DRACPU_TEST_DATA_TREE_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/cpuset.h"
#include "topology/source.h"

namespace dracpu::test {

struct TreeSpec {
  std::uint32_t sockets = 2;
  std::uint32_t nodes_per_socket = 1;
  std::uint32_t cores_per_node = 2;
  std::uint32_t threads = 2;
  std::uint32_t cores_per_l3 = 2;      // 0: no cache directories
  bool are_siblings_adjacent = false;  // else thread t of core c is CPU c + t × cores
  bool has_masks = true;               // beside the lists, as kernels print them

  std::uint32_t cores() const { return sockets * nodes_per_socket * cores_per_node; }
  std::uint32_t cpus() const { return cores() * threads; }
};

// "sys/devices/system/cpu/cpu3/topology/core_id" and so on, with one PCI root per node.
topology::MemorySource make_tree(const TreeSpec& spec);
// "ff,ffffffff", as a kernel built for `cpus` CPUs prints it.
std::string mask_text(const CpuSet& set, std::uint32_t cpus);
void write_tree(const topology::MemorySource& tree, const std::filesystem::path& root);

}  // namespace dracpu::test

#endif  // DRACPU_TEST_DATA_TREE_H_
