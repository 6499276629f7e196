// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/gatherinfo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "config/yaml.h"
#include "data/corpus.h"
#include "data/tree.h"
#include "topology/reader.h"

namespace dracpu::cli {
namespace {

using ::testing::HasSubstr;

class GatherInfoTest : public ::testing::Test {
 protected:
  void process(int pid, const std::string& comm, const std::vector<std::string>& args,
               const std::string& environment = "") {
    const std::filesystem::path dir = proc() / std::to_string(pid);
    std::filesystem::create_directories(dir / "root");
    std::filesystem::create_directories(dir / "cwd");
    put(dir / "comm", comm + "\n");
    std::string line;
    for (const std::string& a : args) line += a + '\0';
    put(dir / "cmdline", line);
    put(dir / "environ", environment);
  }
  static void put(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  std::filesystem::path proc() const { return dir_.path() / "proc"; }
  std::filesystem::path root_of(int pid) const { return proc() / std::to_string(pid) / "root"; }

  test::TempDir dir_;
  std::vector<std::string> notes_;
};

TEST_F(GatherInfoTest, FindsTheDriverAndNotItsSubcommands) {
  EXPECT_FALSE(find_driver(proc(), 1));
  process(7, "bash", {"bash"});
  process(8, "dracpu", {"/dracpu", "health", "live"});
  process(9, "dracpu", {"/dracpu", "gatherinfo", "--stdout"});
  process(10, "dracpu", {"/dracpu-gatherinfo", "--stdout"});
  process(11, "dracpu", {});  // a kernel thread's, or one that ends
  process(12, "dracpu", {"/dracpu", "--no-such-flag"});
  EXPECT_FALSE(find_driver(proc(), 1));
  process(200, "dracpu", {"/dracpu", "--group-by=socket"},
          std::string("HOST_ROOT=/host\0NODE_NAME=n1\0", 29));
  process(100, "dracpu", {"dracpu", "--v=4", "--reserved-cpus", "0-1"});
  EXPECT_FALSE(find_driver(proc() / "no", 1));
  ASSERT_TRUE(find_driver(proc(), 1));
  EXPECT_EQ(find_driver(proc(), 1)->pid, 100);
  const std::optional<FoundDriver> other = find_driver(proc(), 100);
  ASSERT_TRUE(other) << "itself is left out";
  EXPECT_EQ(other->pid, 200);
  EXPECT_EQ(other->env.host_root, "/host");
  EXPECT_EQ(other->env.node_name, "n1");
}

TEST_F(GatherInfoTest, FilesAreReadThroughTheDriversRootAndFolder) {
  process(100, "dracpu", {"/dracpu", "--config=/etc/dracpu/config.yaml"});
  put(root_of(100) / "etc/dracpu/config.yaml", "apiVersion: v1alpha1\nreservedCPUs: \"0-1\"\n");
  config::Config config = config_of(*find_driver(proc(), 1), proc(), notes_);
  EXPECT_EQ(config.node.reserved_cpus.to_string(), "0-1");
  EXPECT_TRUE(notes_.empty());

  process(50, "dracpu", {"/dracpu", "--config", "c.yaml", "--group-by=socket"});
  put(proc() / "50/cwd/c.yaml", "reservedCPUs: \"3\"\n");
  config = config_of(*find_driver(proc(), 1), proc(), notes_);
  EXPECT_EQ(config.node.reserved_cpus.to_string(), "3");
  EXPECT_EQ(config.cpu.group_by, config::GroupBy::kSocket);
}

TEST_F(GatherInfoTest, WhatCannotBeReadFallsBackAndIsTold) {
  process(100, "dracpu", {"/dracpu", "--config=/gone.yaml", "--reserved-cpus=2"});
  config::Config config = config_of(*find_driver(proc(), 1), proc(), notes_);
  EXPECT_EQ(config.node.reserved_cpus.to_string(), "2") << "the flags are known";
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_THAT(notes_[0], HasSubstr("gone.yaml"));
  put(root_of(100) / "gone.yaml", "groupBy: nonsense\n");
  config = config_of(*find_driver(proc(), 1), proc(), notes_);
  EXPECT_EQ(notes_.size(), 2U);
  EXPECT_EQ(config.cpu.group_by, config::GroupBy::kNumaNode);
}

TEST_F(GatherInfoTest, TheReportHasTheLayoutThatToolsRead) {
  topology::MemorySource tree =
      test::make_tree({.sockets = 1, .nodes_per_socket = 1, .cores_per_node = 2, .threads = 2});
  const topology::Topology t = *topology::read_topology(tree);
  config::Config config;
  config.node.reserved_cpus = CpuSet{0};
  config.node.sysfs_overlay = "/o.yaml";
  const std::string text = report(t, config);
  ASSERT_TRUE(text.starts_with("---\ntoolVersion:\n"));
  EXPECT_EQ(text.back(), '\n');
  const Result<config::YamlNode> root = config::parse_yaml(text);
  ASSERT_TRUE(root.ok()) << root.error().text;
  EXPECT_EQ(root->find("layoutVersion")->text, "v1");
  const config::YamlNode* counts = root->find("cpuDetails")->find("topology");
  EXPECT_EQ(counts->find("numCPUs")->text, "4");
  EXPECT_EQ(counts->find("numCores")->text, "2");
  EXPECT_EQ(counts->find("smtEnabled")->text, "true");
  const config::YamlNode* cpus = root->find("cpuDetails")->find("cpus");
  ASSERT_EQ(cpus->items.size(), 4U);
  const config::YamlNode& first = cpus->items[0];
  std::vector<std::string> keys;
  for (const config::YamlKey& key : first.keys) keys.push_back(key.text);
  EXPECT_EQ(keys,
            (std::vector<std::string>{"cpuID", "coreID", "socketID", "clusterID", "numaNodeID",
                                      "numaNodeCPUSet", "sibling", "siblings", "coreType", "uncoreCacheID"}));
  EXPECT_EQ(first.find("sibling")->text, "2");
  EXPECT_EQ(first.find("siblings")->text, "0,2");
  EXPECT_EQ(first.find("coreType")->text, "standard");
  const config::YamlNode* driver = root->find("driverConfig");
  EXPECT_EQ(driver->find("bindAddress")->text, ":8080");
  EXPECT_EQ(driver->find("kubeletRootDir")->text, "/var/lib/kubelet");
  EXPECT_EQ(driver->find("reservedCPUs")->text, "0");
  EXPECT_EQ(config::type_of(*driver->find("reservedCPUs")), config::YamlType::kText)
      << "a number would not fit";
  EXPECT_EQ(driver->find("sysfsOverlay")->text, "/o.yaml");
  EXPECT_EQ(driver->find("exposePCIeRoots"), nullptr) << "zero values are left out";
}

TEST_F(GatherInfoTest, MoreThreadsHaveNoSingleSibling) {
  topology::MemorySource tree = test::make_tree(
      {.sockets = 1, .nodes_per_socket = 1, .cores_per_node = 1, .threads = 4, .cores_per_l3 = 0});
  const std::string text = report(*topology::read_topology(tree), {});
  EXPECT_THAT(text, HasSubstr("sibling: -1\n      siblings: \"0-3\""));
  EXPECT_THAT(text, HasSubstr("uncoreCacheID: -1"));
}

}  // namespace
}  // namespace dracpu::cli
