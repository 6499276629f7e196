// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "topology/test_machines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "data/corpus.h"
#include "data/tree.h"
#include "topology/reader.h"

namespace dracpu::topology {
namespace {

using Place = std::function<std::optional<std::uint32_t>(std::uint32_t)>;

std::optional<std::uint32_t> unknown(std::uint32_t) { return std::nullopt; }
Place every(std::uint32_t n) {
  return [n](std::uint32_t i) { return std::optional(i / n); };
}

// Where the i-th CPU lies.
struct Shape {
  std::uint32_t cpus = 8;
  Place socket = every(8);
  Place node = every(8);
  Place l3 = every(8);
  Place core = every(2);
  std::uint32_t step = 1;  // from one CPU number to the next
};

Topology make(const Shape& shape) {
  Topology t;
  t.has_caches = true;
  t.has_numa = true;
  t.smt_enabled = true;
  std::map<std::uint32_t, std::size_t> cores;
  std::map<std::uint32_t, std::size_t> groups;
  for (std::uint32_t i = 0; i < shape.cpus; ++i) {
    Cpu cpu;
    cpu.id = CpuId(i * shape.step);
    if (const auto socket = shape.socket(i)) {
      cpu.socket = SocketId(static_cast<std::int32_t>(*socket));
      t.sockets[*cpu.socket].insert(cpu.id);
    }
    if (const auto node = shape.node(i)) {
      cpu.node = NumaNodeId(static_cast<std::int32_t>(*node));
      Node& n = t.nodes[*cpu.node];
      n.id = *cpu.node;
      n.cpus.insert(cpu.id);
      n.memory_bytes = std::uint64_t{37} << 30U;
    }
    if (const auto l3 = shape.l3(i)) {
      const auto [it, is_new] = groups.emplace(*l3, t.l3_groups.size());
      if (is_new) t.l3_groups.push_back({.cpus = {}, .label = *l3, .id = *l3, .size_bytes = 36700160});
      t.l3_groups[it->second].cpus.insert(cpu.id);
      cpu.l3 = it->second;
    }
    const auto [it, is_new] = cores.emplace(shape.core(i).value_or(i), t.cores.size());
    if (is_new) t.cores.emplace_back();
    t.cores[it->second].cpus.insert(cpu.id);
    cpu.core = it->second;
    t.online.insert(cpu.id);
    t.cpus.emplace(cpu.id, cpu);
  }
  t.usable = t.online;
  return t;
}

Topology even(const test::TreeSpec& spec) {
  topology::MemorySource tree = test::make_tree(spec);
  Result<Topology> t = read_topology(tree);
  EXPECT_TRUE(t.ok());
  return t.ok() ? *std::move(t) : Topology();
}

Topology with_types() {
  Topology t = make({.cpus = 16, .socket = every(16), .node = every(16), .l3 = every(12)});
  t.core_type_source = CoreTypeSource::kPmuDevices;
  for (auto& [id, cpu] : t.cpus) {
    cpu.type = id.get() < 6 ? CoreType::kPerformance : CoreType::kEfficiency;
    if (id.get() == 6) cpu.type = CoreType::kMiddle;
    if (id.get() == 7) cpu.type = CoreType::kStandard;
  }
  return t;
}

Topology with_lists() {
  Topology t = make({.cpus = 16, .step = 3});
  t.isolated = CpuSet{6, 7, 9};
  for (auto& [id, cpu] : t.cpus) cpu.isolated = t.isolated.contains(id);
  for (std::uint32_t id = 100; id < 400; id += 2) t.offline.insert(CpuId(id));
  t.nohz_full = CpuSet{9, 12};
  t.online |= CpuSet{50, 51};
  t.smt_control = "<odd>\x1b[31m & \"text\"\xff";
  return t;
}

Topology with_memory_nodes(int count) {
  Topology t = make({.cpus = 16});
  for (int i = 0; i < count; ++i) {
    Node node;
    node.id = NumaNodeId(2 + 3 * i);
    node.memory_bytes = i % 2 == 0 ? 0 : std::uint64_t{3} << 41U;
    node.hugepages = {{.page_bytes = 2U << 20U, .total = 512, .free = 12, .surplus = 3},
                      {.page_bytes = 1U << 30U, .total = 0, .free = 0, .surplus = 0}};
    t.nodes.emplace(node.id, node);
  }
  for (auto& [from, node] : t.nodes) {
    if (from.get() == 5) continue;  // a row that was not usable
    for (const auto& [to, other] : t.nodes) node.distance[to] = from == to ? 10 : 17 + to.get() % 3 * 100;
  }
  t.nodes.at(NumaNodeId(8)).cpus = CpuSet{0, 1};  // counted in node 0
  t.pcie_roots = {{"pci0000:00", t.online, {}},
                  {"pci0000:10", t.nodes.at(NumaNodeId(0)).cpus, NumaNodeId(0)},
                  {"pci0000:20", t.nodes.at(NumaNodeId(1)).cpus, {}},
                  {"pci0000:30", CpuSet{2}, NumaNodeId(1)},
                  {"pci10000:40", {}, NumaNodeId(5)},
                  {"pci10000:50", CpuSet{3}, NumaNodeId(999)}};
  return t;
}

std::vector<NamedMachine> read_collected_machines() {
  std::vector<NamedMachine> out;
  for (const test::Machine& machine : test::machines()) {
    const test::TempDir dir;
    if (!test::unpack(machine, dir.path())) continue;
    Result<Topology> t = read_topology({.root = dir.path()});
    EXPECT_TRUE(t.ok()) << machine.name;
    if (t.ok()) out.push_back({machine.name, *std::move(t)});
  }
  return out;
}

}  // namespace

std::vector<NamedMachine> made_machines() {
  const Place crossed = [](std::uint32_t i) { return std::optional((i + 3) / 6); };
  const Place often = [](std::uint32_t i) { return i % 3 == 0 ? std::nullopt : std::optional(i / 6); };
  return {
      {"nothing", Topology()},
      {"1 CPU", even({.sockets = 1, .cores_per_node = 1, .threads = 1})},
      {"8 CPUs", even({.sockets = 1, .cores_per_node = 4, .cores_per_l3 = 4})},
      {"512 CPUs", even({.sockets = 2, .nodes_per_socket = 4, .cores_per_node = 32, .cores_per_l3 = 8})},
      {"1024 CPUs", even({.sockets = 4, .nodes_per_socket = 1, .cores_per_node = 128, .cores_per_l3 = 128})},
      {"SMT4", even({.sockets = 2, .cores_per_node = 20, .threads = 4, .cores_per_l3 = 20})},
      {"SMT8", even({.sockets = 2, .cores_per_node = 12, .threads = 8, .cores_per_l3 = 1})},
      {"no caches", even({.sockets = 2, .cores_per_node = 56, .threads = 1, .cores_per_l3 = 0})},
      {"SMT8, one thread online", make({.cpus = 20, .core = every(1), .step = 8})},
      {"L3 over two nodes", make({.cpus = 32, .socket = every(16), .node = every(8), .l3 = every(16)})},
      {"node over two sockets", make({.cpus = 16, .socket = every(4), .node = every(8), .l3 = every(4)})},
      {"nodes across sockets", make({.cpus = 18, .socket = every(6), .node = crossed, .l3 = every(9)})},
      {"nothing known",
       make({.cpus = 5, .socket = unknown, .node = unknown, .l3 = unknown, .core = unknown})},
      {"much unknown", make({.cpus = 24, .socket = often, .node = crossed, .l3 = often, .core = every(1)})},
      {"cores across L3 groups", make({.cpus = 24, .l3 = every(3), .core = every(4)})},
      {"all one core", make({.cpus = 300, .core = every(300), .step = 2})},
      {"far apart", make({.cpus = 30, .socket = every(15), .step = 2259})},
      {"a socket for each CPU", make({.cpus = 200, .socket = every(1), .node = every(200), .l3 = every(1)})},
      {"types of core", with_types()},
      {"offline, isolated, unreadable", with_lists()},
      {"memory-only nodes", with_memory_nodes(4)},
      {"many memory-only nodes", with_memory_nodes(40)},
  };
}

const Topology& made_machine(const std::vector<NamedMachine>& machines, const std::string& name) {
  const auto it =
      std::find_if(machines.begin(), machines.end(), [&](const auto& m) { return m.name == name; });
  if (it == machines.end()) throw std::out_of_range(name);
  return it->topology;
}

const std::vector<NamedMachine>& collected_machines() {
  static const std::vector<NamedMachine> machines = read_collected_machines();
  return machines;
}

}  // namespace dracpu::topology
