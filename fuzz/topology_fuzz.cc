// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The reader against a small even machine of which any file may hold any bytes, or be gone.
//
// Input: records of a file's number (two bytes), a length (one byte, 255 removes the file) and the content.
// What comes out is checked for what every caller relies on, and is then turned into devices and selections.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/pick.h"
#include "data/tree.h"
#include "device/build.h"
#include "topology/files.h"
#include "topology/reader.h"

namespace {

using namespace dracpu;

void require(bool is_true) {
  if (!is_true) std::abort();
}

const topology::MemorySource& clean_tree() {
  static const topology::MemorySource tree = [] {
    topology::MemorySource out = test::make_tree({.cores_per_node = 1, .cores_per_l3 = 1});
    for (const char* extra : {"cpu/isolated", "cpu/nohz_full", "cpu/cpu1/cpu_capacity", "cpu/cpu2/online",
                              "cpu/cpu3/topology/book_id", "cpu/cpu0/topology/thread_siblings_list"}) {
      out.add(std::string("sys/devices/system/") + extra, "\n");
    }
    out.add("sys/devices/cpu_atom/cpus", "\n");
    out.add("sys/devices/cpu_core/cpus", "\n");
    out.add("sys/class/pci_bus/0000:00", "../../devices/pci0000:00/pci_bus/0000:00");
    return out;
  }();
  return tree;
}

const std::vector<std::string>& paths() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (const auto& [path, content] : clean_tree().files()) out.push_back(path);
    return out;
  }();
  return all;
}

topology::MemorySource tree_of(std::string_view input) {
  topology::MemorySource tree = clean_tree();
  while (input.size() >= 3) {
    const auto byte = [&](std::size_t i) {
      return static_cast<std::size_t>(static_cast<unsigned char>(input[i]));
    };
    const std::string& path = paths()[(byte(0) * 256 + byte(1)) % paths().size()];
    const std::size_t length = byte(2);
    input.remove_prefix(3);
    if (length == 255) {
      tree.remove(path);
      continue;
    }
    tree.add(path, std::string(input.substr(0, length)));
    input.remove_prefix(std::min(length, input.size()));
  }
  return tree;
}

void check(const topology::Topology& t) {
  CpuSet in_cores;
  for (const topology::Core& core : t.cores) {
    require(!core.cpus.empty() && !core.cpus.intersects(in_cores));
    in_cores |= core.cpus;
  }
  require(in_cores == t.usable);
  require(t.usable.is_subset_of(t.online));
  CpuSet in_caches;
  for (const topology::CacheGroup& group : t.l3_groups) {
    require(!group.cpus.empty() && !group.cpus.intersects(in_caches));
    in_caches |= group.cpus;
  }
  require(in_caches.is_subset_of(t.usable));
  for (const auto& [id, cpu] : t.cpus) {
    require(t.siblings(id).contains(id));
    require(!cpu.l3 || t.l3_groups[*cpu.l3].cpus.contains(id));
    require(!cpu.node || t.nodes.at(*cpu.node).cpus.contains(id));
    require(!cpu.socket || (cpu.socket->get() >= 0 && t.sockets.at(*cpu.socket).contains(id)));
  }
  for (const topology::PcieRoot& root : t.pcie_roots) require(root.cpus.is_subset_of(t.online));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  topology::MemorySource tree = tree_of({reinterpret_cast<const char*>(data), size});
  const auto online = tree.files().find("sys/devices/system/cpu/online");
  if (online != tree.files().end()) {
    // Sixty thousand CPUs are lawful, but teach the fuzzer nothing that a thousand do not.
    const Result<CpuSet> cpus = CpuSet::parse(topology::clean(online->second));
    if (cpus.ok() && cpus->size() > 1024) return 0;
  }
  const Result<topology::Topology> got = topology::read_topology(tree);
  if (!got.ok()) return 0;
  check(*got);
  const Result<device::BuildResult> devices = device::build_devices(
      *got, got->isolated, {.allocator = config::Allocator::kExternal, .expose_pcie_roots = true});
  if (!devices.ok() || got->usable.size() > 512) return 0;
  const alloc::Layout layout(*got);
  for (const device::Device& device : devices->devices) {
    const Result<CpuSet> picked = alloc::pick(layout, device.cpus, (device.cpus.size() + 1) / 2);
    require(picked.ok() && picked->is_subset_of(device.cpus));
  }
  return 0;
}
