// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A machine of eight CPUs in one node, made to look like others.

#include "topology/overlay.h"

#include <gtest/gtest.h>

#include "data/tree.h"
#include "topology/reader.h"

namespace dracpu::topology {
namespace {

constexpr const char* kCpu = "sys/devices/system/cpu/";
constexpr const char* kNode = "sys/devices/system/node/";

class OverlayTest : public ::testing::Test {
 protected:
  OverlayTest() : base_(test::make_tree({.sockets = 1, .nodes_per_socket = 1, .cores_per_node = 4})) {}

  void cpu(const std::string& path, const std::string& text) { table_[kCpu + path] = text; }
  void node(const std::string& path, const std::string& text) { table_[kNode + path] = text; }
  Topology read() {
    OverlaySource overlaid(base_, table_);
    Result<Topology> got = read_topology(overlaid);
    EXPECT_TRUE(got.ok()) << got.error().text;
    return got.ok() ? *got : Topology{};
  }

  MemorySource base_;
  OverlaySource::Table table_;
};

TEST_F(OverlayTest, NothingInItChangesNothing) {
  const Topology plain = *read_topology(base_);
  EXPECT_EQ(read(), plain);
}

// The form of the example that users of 0.3.0 have: four CPUs, two sockets, two nodes, two L3 caches.
TEST_F(OverlayTest, ACompleteMachineInFrontOfAnother) {
  cpu("online", "0-3\n");
  cpu("smt/control", "off\n");
  node("node0/cpulist", "0-1\n");
  node("node1/cpulist", "2-3\n");
  for (int c = 0; c < 4; ++c) {
    const std::string dir = "cpu" + std::to_string(c) + "/";
    const std::string half = std::to_string(c / 2) + "\n";
    cpu(dir + "node" + std::to_string(c / 2), "");
    cpu(dir + "topology/physical_package_id", half);
    cpu(dir + "topology/core_id", std::to_string(c % 2) + "\n");
    cpu(dir + "topology/cluster_id", "0\n");
    cpu(dir + "cache/index3/level", "3\n");
    cpu(dir + "cache/index3/id", half);
    cpu(dir + "cache/index3/shared_cpu_list", c < 2 ? "0-1\n" : "2-3\n");
  }
  const Topology t = read();
  EXPECT_EQ(t.usable.to_string(), "0-3");
  ASSERT_EQ(t.sockets.size(), 2U);
  EXPECT_EQ(t.sockets.at(SocketId(1)).to_string(), "2-3");
  ASSERT_EQ(t.nodes.size(), 2U);
  EXPECT_EQ(t.nodes.at(NumaNodeId(0)).cpus.to_string(), "0-1");
  EXPECT_EQ(t.nodes.at(NumaNodeId(1)).cpus.to_string(), "2-3");
  EXPECT_EQ(t.cores.size(), 4U) << "the base's sibling lists say otherwise and are hidden";
  EXPECT_EQ(t.l3_groups.size(), 2U);
  EXPECT_FALSE(t.smt_enabled);
}

TEST_F(OverlayTest, AnEntryOfACpuMovesItToItsNode) {
  cpu("cpu6/node3", "");
  cpu("cpu7/node3", "");
  const Topology t = read();
  ASSERT_EQ(t.nodes.size(), 2U);
  EXPECT_EQ(t.nodes.at(NumaNodeId(0)).cpus.to_string(), "0-5");
  EXPECT_EQ(t.nodes.at(NumaNodeId(3)).cpus.to_string(), "6-7");
  EXPECT_EQ(t.cpus.at(CpuId(7)).node, NumaNodeId(3));
}

TEST_F(OverlayTest, OneFileReplacesOneFile) {
  cpu("cpu5/cache/index3/id", "9\n");
  cpu("isolated", "2\n");
  const Topology t = read();
  EXPECT_EQ(t.isolated.to_string(), "2");
  EXPECT_EQ(t.cores.size(), 4U) << "siblings of CPUs without an id here stay";
}

TEST_F(OverlayTest, SiblingListsOfTheOverlayCount) {
  for (int c = 0; c < 8; ++c) {
    cpu("cpu" + std::to_string(c) + "/topology/core_id", "0\n");
    cpu("cpu" + std::to_string(c) + "/topology/core_cpus_list", c < 4 ? "0-3\n" : "4-7\n");
  }
  const Topology t = read();
  ASSERT_EQ(t.cores.size(), 2U);
  EXPECT_EQ(t.cores[0].cpus.to_string(), "0-3");
}

TEST_F(OverlayTest, RootsCanBeAdded) {
  for (const char* root : {"pci0001:80"}) {
    table_[std::string("sys/devices/") + root + "/0001:80:00.0/local_cpulist"] = "2-3\n";
    table_[std::string("sys/devices/") + root + "/0001:80:00.0/class"] = "0x060000\n";
    table_[std::string("sys/devices/") + root + "/0001:80:00.0/numa_node"] = "0\n";
  }
  const Topology t = read();
  bool found = false;
  for (const PcieRoot& root : t.pcie_roots) {
    if (root.name != "pci0001:80") continue;
    found = true;
    EXPECT_EQ(root.cpus.to_string(), "2-3");
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace dracpu::topology
