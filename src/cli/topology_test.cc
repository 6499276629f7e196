// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/topology.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>

#include "data/corpus.h"
#include "data/tree.h"
#include "topology/reader.h"

namespace dracpu::cli {
namespace {

namespace json = boost::json;

TEST(TopologyJson, EveryFieldOfASmallMachine) {
  topology::MemorySource tree =
      test::make_tree({.sockets = 1, .nodes_per_socket = 1, .cores_per_node = 2, .threads = 2});
  tree.add("sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 2048 kB\n");
  tree.add("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "5\n");
  tree.add("sys/devices/system/cpu/isolated", "3\n");
  tree.add("sys/devices/system/cpu/present", "0-5\n");
  const json::value root = json::parse(topology_json(*topology::read_topology(tree)));
  EXPECT_EQ(
      json::serialize(root.at("topology")),
      R"({"numCPUs":4,"numCores":2,"numUncoreCache":1,"numSockets":1,"numNUMANodes":1,"smtEnabled":true})");
  EXPECT_EQ(root.at("offlineCPUs").as_string(), "4-5");
  EXPECT_EQ(root.at("isolatedCPUs").as_string(), "3");
  ASSERT_EQ(root.at("cpus").as_array().size(), 6U) << "offline ones too";
  const json::value& first = root.at("cpus").at(0);
  EXPECT_EQ(first.at("cpuID").as_int64(), 0);
  EXPECT_EQ(first.at("coreType").as_string(), "standard");
  EXPECT_TRUE(first.at("online").as_bool());
  EXPECT_EQ(first.at("siblings").as_string(), "0,2");
  EXPECT_FALSE(root.at("cpus").at(5).at("online").as_bool());
  const json::value& node = root.at("numaNodes").at(0);
  EXPECT_EQ(node.at("cpus").as_string(), "0-3");
  EXPECT_EQ(node.at("memTotalBytes").as_int64(), 2048 * 1024);
  EXPECT_EQ(json::serialize(node.at("hugepages")), R"([{"pageSizeBytes":2097152,"total":5,"free":0}])");
  EXPECT_EQ(json::serialize(node.at("distances")), "[10]");
  EXPECT_EQ(root.at("pcieRoots").at(0).at("cpus").as_string(), "0-3");
}

// What the picture of a machine says has to hang together, whatever machine it is.
TEST(TopologyJson, EveryMachineOfTheCollection) {
  const std::vector<test::Machine> machines = test::machines();
  if (machines.empty()) GTEST_SKIP() << "no machines in " << test::data_dir();
  for (const test::Machine& machine : machines) {
    const test::TempDir dir;
    ASSERT_TRUE(test::unpack(machine, dir.path())) << machine.name;
    const Result<topology::Topology> got = read_machine({dir.path().string(), ""});
    if (!got.ok()) continue;  // the reader's own tests know which may be refused
    SCOPED_TRACE(machine.name);
    const json::value root = json::parse(topology_json(*got));
    std::size_t usable = 0;
    CpuSet in_siblings;
    for (const json::value& cpu : root.at("cpus").as_array()) {
      const std::string siblings(cpu.at("siblings").as_string());
      if (siblings.empty()) continue;
      ++usable;
      const CpuSet all = CpuSet::parse(siblings).value();
      EXPECT_TRUE(all.contains(CpuId(static_cast<std::uint32_t>(cpu.at("cpuID").as_int64()))));
      in_siblings |= all;
    }
    EXPECT_EQ(usable, static_cast<std::size_t>(root.at("topology").at("numCPUs").as_int64()));
    EXPECT_EQ(in_siblings, got->usable);
    for (const json::value& cache : root.at("caches").as_array()) {
      EXPECT_FALSE(cache.at("cpus").as_string().empty());
    }
  }
}

TEST(ReadMachine, OverlayAndFolderAreNamedWhenTheyFail) {
  const Result<topology::Topology> no_folder = read_machine({"/does/not/exist", ""});
  ASSERT_FALSE(no_folder.ok());
  EXPECT_NE(no_folder.error().text.find("/does/not/exist"), std::string::npos);
  const test::TempDir dir;
  const Result<topology::Topology> empty = read_machine({dir.path().string(), ""});
  EXPECT_FALSE(empty.ok());
  std::ofstream(dir.path() / "o.yaml") << "/proc/x: y\n";
  const Result<topology::Topology> bad =
      read_machine({dir.path().string(), (dir.path() / "o.yaml").string()});
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().text.find("/proc/x"), std::string::npos);
}

}  // namespace
}  // namespace dracpu::cli
