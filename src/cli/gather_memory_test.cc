// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/gather_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "agent/state_codec.h"
#include "cli/gatherinfo.h"
#include "config/yaml.h"
#include "data/corpus.h"
#include "data/tree.h"
#include "store/state_file.h"
#include "topology/reader.h"

namespace dracpu::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class GatherMemoryTest : public ::testing::Test {
 protected:
  // A NUMA node of 1 GiB, eight pages of 2 MiB of it in a pool; another whose memory cannot be read.
  GatherMemoryTest() {
    test::write_tree(
        test::make_tree({.sockets = 2, .nodes_per_socket = 1, .cores_per_node = 1, .threads = 1}), machine());
    for (const char* file : {"nr_hugepages", "free_hugepages"})
      put(machine() / "sys/devices/system/node/node0/hugepages/hugepages-2048kB" / file, "8\n");
    put(machine() / "sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: much kB\n");
    node_.config.memory.enabled = true;
    node_.config.memory.nodes = "0";
    node_.config.memory.reserved = "0:memory=256Mi";
    node_.files.root = machine();
    driver_.pid = 100;
  }
  static void put(const std::filesystem::path& path, const std::string& text) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  std::filesystem::path machine() const { return dir_.path() / "machine"; }
  std::filesystem::path proc() const { return dir_.path() / "proc"; }
  // As the driver sees it.
  std::filesystem::path state() const {
    return proc() / "100/root/var/lib/kubelet/plugins/dracpu/state.json";
  }
  std::string section() { return memory_of(driver_, node_, proc(), notes_); }

  test::TempDir dir_;
  agent::Node node_;
  FoundDriver driver_;
  std::vector<std::string> notes_;
};

TEST_F(GatherMemoryTest, SaysPerNodeWhatThereIsAndWhoHasIt) {
  const auto grant = [](memory::Kind kind, std::uint64_t bytes) {
    return memory::Grant{"r",           "n1",   memory::device_name(kind, NumaNodeId(0)), {}, kind,
                         NumaNodeId(0), {bytes}};
  };
  agent::State held;
  held.memory[ClaimUid("u-1")] = {"team", "secret-1", PodUid("p"), {grant(memory::Kind(), 4096)}, {}, true};
  held.memory[ClaimUid("u-2")] = {
      "team",      "secret-2",
      PodUid("q"), {grant(memory::Kind(), 8192), grant(memory::Kind::hugepages({1U << 30U}), 1U << 30U)},
      {},          true};
  ASSERT_TRUE(store::StateFile(state()).save(agent::encode_state(held)).ok());
  const std::string text = section();
  EXPECT_THAT(notes_, IsEmpty());
  EXPECT_THAT(text, ::testing::StartsWith("memoryDetails:\n  numaNodes:\n"
                                          "    - numaNodeID: 0\n"
                                          "      total: 1073741824\n"
                                          "      hugepages:\n"
                                          "        - pageSize: \"2Mi\"\n"
                                          "          pages: 8\n"
                                          "          freePages: 8\n"
                                          "          surplusPages: 0\n"
                                          "      resources:\n"
                                          "        - name: memory\n"
                                          "          reserved: 268435456\n"
                                          "          published: 788529152\n"
                                          "          prepared: 12288\n"
                                          "        - name: hugepages-2Mi\n"
                                          "          reserved: 0\n"
                                          "          published: 16777216\n"
                                          "          prepared: 0\n"
                                          "        - name: hugepages-1Gi\n"
                                          "          reserved: 0\n"
                                          "          published: 0\n"
                                          "          prepared: 1073741824\n"
                                          "    - numaNodeID: 1\n"
                                          "      error: "));
  for (const char* secret : {"u-1", "secret", "team"}) EXPECT_THAT(text, Not(HasSubstr(secret)));
  const topology::Topology topology = topology::read_topology(node_.files).value();
  const std::string whole = report(topology, node_.config, text);
  const Result<config::YamlNode> root = config::parse_yaml(whole);
  ASSERT_TRUE(root.ok()) << root.error().text << whole;
  EXPECT_EQ(root->find("layoutVersion")->text, "v1");
  EXPECT_EQ(root->find("memoryDetails")->find("numaNodes")->items.size(), 2U);
  EXPECT_NE(root->find("driverConfig"), nullptr);
}

TEST_F(GatherMemoryTest, WhatIsNotKnownIsLeftOut) {
  EXPECT_THAT(section(), HasSubstr("prepared: 0\n")) << "no state file: nothing was prepared yet";
  put(state(), "junk");
  EXPECT_THAT(section(), Not(HasSubstr("prepared")));
  ASSERT_EQ(notes_.size(), 1U);
  EXPECT_THAT(notes_[0], HasSubstr("state.json"));
  node_.config.memory.reserved = "junk";
  EXPECT_EQ(section(), "");
  EXPECT_EQ(notes_.size(), 2U);
}

TEST_F(GatherMemoryTest, OffThereIsNoSection) {
  node_.config.memory.enabled = false;
  EXPECT_EQ(section(), "");
  EXPECT_THAT(notes_, IsEmpty());
  const topology::Topology topology = topology::read_topology(node_.files).value();
  EXPECT_THAT(report(topology, node_.config, section()), Not(HasSubstr("memory")));
}

}  // namespace
}  // namespace dracpu::cli
