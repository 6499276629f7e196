// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A node with folders of its own, for tests and benchmarks: eight CPUs (one socket, one NUMA node, a core
// each), or another machine.

#ifndef DRACPU_AGENT_TEST_NODE_H_
#define DRACPU_AGENT_TEST_NODE_H_

#include <filesystem>
#include <memory>
#include <string>

#include "agent/books.h"
#include "agent/node.h"
#include "base/strings.h"

namespace dracpu::agent {

class TestNode {
 public:
  TestNode() : TestNode(eight_cpus(), std::filesystem::temp_directory_path()) {}
  TestNode(topology::Topology topology, const std::filesystem::path& parent)
      : dir(parent / ("dracpu-agent-test-" + random_hex(6))) {
    std::filesystem::create_directories(dir);
    node.name = "node1";
    node.config.runtime.cdi_dir = dir / "cdi";
    node.config.runtime.kubelet_root_dir = dir / "kubelet";
    machine.topology = std::move(topology);
    machine.managed = machine.topology.usable;
    machine.layout = std::make_shared<const alloc::Layout>(machine.topology);
  }
  ~TestNode() { std::filesystem::remove_all(dir); }
  TestNode(const TestNode&) = delete;
  TestNode& operator=(const TestNode&) = delete;

  PrepareOrder order(const std::string& uid, std::size_t cpus) const {
    return {ClaimUid(uid),
            "ns",
            "c-" + uid,
            {{"r", "node1", "cpudevnuma000", std::nullopt, cpus, machine.managed}}};
  }

  std::filesystem::path dir;
  Node node;
  Machine machine;

 private:
  static topology::Topology eight_cpus() {
    topology::Topology t;
    for (std::uint32_t cpu = 0; cpu < 8; ++cpu) {
      topology::Cpu c;
      c.id = CpuId(cpu);
      c.socket = SocketId(0);
      c.node = NumaNodeId(0);
      c.core = cpu;
      t.cpus[c.id] = c;
      t.cores.push_back({CpuSet{cpu}});
      t.usable.insert(c.id);
    }
    t.online = t.usable;
    t.sockets[SocketId(0)] = t.usable;
    t.nodes[NumaNodeId(0)].id = NumaNodeId(0);
    t.nodes[NumaNodeId(0)].cpus = t.usable;
    return t;
  }
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_TEST_NODE_H_
