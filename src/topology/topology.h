// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What this machine looks like: a value, equal for two reads of an unchanged tree.
//
// Source  spec topology-sysfs section 11. Counts are sizes of sets, never divisions. Every set holds online
//         CPUs only. "Unknown" is an empty optional, never -1 or 0.
// Threads A value; no shared state.

#ifndef DRACPU_TOPOLOGY_TOPOLOGY_H_
#define DRACPU_TOPOLOGY_TOPOLOGY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpuset.h"
#include "base/ids.h"

namespace dracpu::topology {

enum class CoreType { kStandard, kPerformance, kEfficiency, kMiddle };

// "standard", "p-core", "m-core", "e-core".
std::string_view name_of(CoreType type);

// Where the types come from: the driver publishes only what a monitoring device says (driver-behaviours 4).
enum class CoreTypeSource { kNone, kPmuDevices, kCapacity };

struct Cpu {
  CpuId id;
  std::optional<SocketId> socket;
  std::optional<int> die;
  std::optional<int> cluster;
  std::optional<int> core_label;  // the kernel's core_id, as printed; identifies nothing by itself
  std::size_t core = 0;           // index into Topology::cores
  std::optional<NumaNodeId> node;
  std::optional<std::size_t> l3;  // index into Topology::l3_groups
  CoreType type = CoreType::kStandard;
  std::optional<int> capacity;  // cpu_capacity, 1024 for the strongest
  bool isolated = false;
  bool nohz_full = false;

  friend bool operator==(const Cpu&, const Cpu&) = default;
};

// Threads that share one core, named by the lowest online CPU (spec section 3, "Identity of a core").
struct Core {
  CpuSet cpus;

  friend bool operator==(const Core&, const Core&) = default;
};

// A die or a cluster: the kernel's id is unique inside one socket only.
struct Group {
  std::optional<SocketId> socket;
  int id = 0;
  CpuSet cpus;

  friend bool operator==(const Group&, const Group&) = default;
};

// CPUs that share one cache of a level.
struct CacheGroup {
  CpuSet cpus;
  std::int64_t label = 0;          // `id` if every group of the machine has one, else the lowest CPU
  std::optional<std::int64_t> id;  // the kernel's cache id, where all members agree
  std::optional<std::uint64_t> size_bytes;

  friend bool operator==(const CacheGroup&, const CacheGroup&) = default;
};

struct HugepagePool {
  std::uint64_t page_bytes = 0;
  std::uint64_t total = 0;  // pages, surplus ones included
  std::uint64_t free = 0;
  std::uint64_t surplus = 0;

  friend bool operator==(const HugepagePool&, const HugepagePool&) = default;
};

struct Node {
  NumaNodeId id;
  CpuSet cpus;  // empty for a memory-only node; may overlap on faulty firmware, Cpu::node decides
  std::optional<std::uint64_t> memory_bytes;
  std::vector<HugepagePool> hugepages;  // ascending page size
  std::map<NumaNodeId, int> distance;   // kernel scale, 10 is local; empty if the row is not usable

  friend bool operator==(const Node&, const Node&) = default;
};

struct PcieRoot {
  std::string name;  // "pci0000:00"
  CpuSet cpus;       // local CPUs; all of them where firmware gave no node
  std::optional<NumaNodeId> node;

  friend bool operator==(const PcieRoot&, const PcieRoot&) = default;
};

// Something odd that was read, and what was assumed instead.
struct Warning {
  std::string path;
  std::string found;
  std::string assumed;

  friend bool operator==(const Warning&, const Warning&) = default;
};

struct Topology {
  std::map<CpuId, Cpu> cpus;          // the usable CPUs: online, with readable facts
  std::vector<Core> cores;            // ascending by lowest CPU
  std::vector<CacheGroup> l2_groups;  // for information; never overlap
  std::vector<CacheGroup> l3_groups;
  std::map<NumaNodeId, Node> nodes;    // memory-only nodes included
  std::map<SocketId, CpuSet> sockets;  // CPUs of unknown socket are in none
  std::vector<Group> dies;             // ascending by socket and id; empty: no such level
  std::vector<Group> clusters;
  std::vector<PcieRoot> pcie_roots;
  CpuSet online;   // as the kernel says
  CpuSet usable;   // keys of `cpus`
  CpuSet offline;  // present, or with a directory, but not online
  CpuSet isolated;
  CpuSet nohz_full;
  bool smt_enabled = false;  // rule of driver-behaviours section 4
  std::string smt_control;   // raw text, empty if there is none
  std::optional<bool> smt_active;
  bool has_numa = false;    // false: the kernel has no node directory, and every CPU is in one nameless node
  bool has_caches = false;  // false: no CPU has a cache directory
  CoreTypeSource core_type_source = CoreTypeSource::kNone;
  std::vector<Warning> warnings;

  const CpuSet& siblings(CpuId cpu) const { return cores[cpus.at(cpu).core].cpus; }

  friend bool operator==(const Topology&, const Topology&) = default;
};

}  // namespace dracpu::topology

#endif  // DRACPU_TOPOLOGY_TOPOLOGY_H_
