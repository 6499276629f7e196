// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What is read of nodes and their pools, and what must not be passed over.

#include "topology/memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "data/corpus.h"
#include "data/tree.h"

namespace dracpu::topology {
namespace {

constexpr const char* kNode = "sys/devices/system/node/";

void add_pool(MemorySource& tree, const std::string& dir, const char* size, int total, int free,
              int surplus) {
  const std::string pool = fmt::format("{}/hugepages/hugepages-{}/", dir, size);
  tree.add(pool + "nr_hugepages", fmt::format("{}\n", total));
  tree.add(pool + "free_hugepages", fmt::format("{}\n", free));
  tree.add(pool + "surplus_hugepages", fmt::format("{}\n", surplus));
}

// Two nodes of 1 GiB with an empty pool of 2 MiB.
MemorySource small() { return test::make_tree({}); }

std::string ids_of(const MachineMemory& memory) {
  std::string out;
  for (const auto& [id, amounts] : memory.nodes) out += fmt::format("{} ", id.get());
  return out;
}

TEST(Memory, ReadsAmountsAndPools) {
  MemorySource tree = small();
  add_pool(tree, std::string(kNode) + "node1", "1048576kB", 4, 3, 1);
  const Result<MachineMemory> got = read_memory(tree);
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_TRUE(got->has_numa);
  EXPECT_EQ(ids_of(*got), "0 1 ");
  const Result<MemoryAmounts>& node = got->nodes.at(NumaNodeId(1));
  ASSERT_TRUE(node.ok()) << node.error().text;
  EXPECT_EQ(node->total_bytes, std::uint64_t{1} << 30U);
  EXPECT_EQ(node->hugepages,
            (std::vector<HugepagePool>{{.page_bytes = 2U << 20U, .total = 0, .free = 0, .surplus = 0},
                                       {.page_bytes = 1U << 30U, .total = 4, .free = 3, .surplus = 1}}));
}

TEST(Memory, NodesAreThoseWithMemoryAndKeepTheirNumbers) {
  struct Case {
    const char* about;
    std::function<void(MemorySource&)> edit;
    const char* ids;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"the kernel's list counts",
            [](MemorySource& t) { t.add(std::string(kNode) + "has_memory", "1\n"); }, "1 "},
           {"a listed node without a directory is gone",
            [](MemorySource& t) { t.add(std::string(kNode) + "has_memory", "0-1,7\n"); }, "0 1 "},
           {"without a list a node of no memory has none",
            [](MemorySource& t) {
              t.add(std::string(kNode) + "node0/meminfo", "Node 0 MemTotal:       0 kB\n");
            },
            "1 "},
           {"numbers with gaps, in the order of numbers",
            [](MemorySource& t) {
              t.add(std::string(kNode) + "node10/meminfo", "Node 10 MemTotal:       64 kB\n");
              t.add(std::string(kNode) + "node2/meminfo", "Node 2 MemTotal:       64 kB\n");
            },
            "0 1 2 10 "},
           {"other names are no nodes",
            [](MemorySource& t) { t.add(std::string(kNode) + "nodes/meminfo", "MemTotal: 1 kB\n"); }, "0 1 "},
       }) {
    SCOPED_TRACE(c.about);
    MemorySource tree = small();
    c.edit(tree);
    const Result<MachineMemory> got = read_memory(tree);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(ids_of(*got), c.ids);
  }
}

TEST(Memory, AMachineWithoutNodesIsNodeZero) {
  MemorySource tree;
  tree.add("proc/meminfo", "MemTotal:       16384256 kB\nMemFree:        16384 kB\n");
  add_pool(tree, "sys/kernel/mm", "2048kB", 8, 8, 0);
  const Result<MachineMemory> got = read_memory(tree);
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_FALSE(got->has_numa);
  EXPECT_EQ(ids_of(*got), "0 ");
  const Result<MemoryAmounts>& node = got->nodes.at(NumaNodeId(0));
  ASSERT_TRUE(node.ok()) << node.error().text;
  EXPECT_EQ(node->total_bytes, std::uint64_t{16384256} * 1024);
  EXPECT_EQ(node->hugepages.at(0).total, 8U);
}

TEST(Memory, AnOddFileIsAnErrorOfItsNodeAlone) {
  struct Case {
    const char* about;
    const char* file;
    const char* content;  // null: the file is not there
    Errc code;
  };
  const char* const pool = "hugepages/hugepages-2048kB/";
  for (const Case& c : std::initializer_list<Case>{
           {"no meminfo", "meminfo", nullptr, Errc::kNotFound},
           {"no MemTotal", "meminfo", "Node 0 MemFree: 1 kB\n", Errc::kCorrupt},
           {"MemTotal is no number", "meminfo", "Node 0 MemTotal: much kB\n", Errc::kCorrupt},
           {"MemTotal beyond counting", "meminfo", "Node 0 MemTotal: 18446744073709551615 kB\n",
            Errc::kCorrupt},
           {"no number of pages", "nr_hugepages", "\n", Errc::kCorrupt},
           {"a negative number of pages", "nr_hugepages", "-1\n", Errc::kCorrupt},
           {"no surplus", "surplus_hugepages", nullptr, Errc::kNotFound},
           {"no free pages", "free_hugepages", nullptr, Errc::kNotFound},
       }) {
    SCOPED_TRACE(c.about);
    const bool is_pool = std::string_view(c.file).ends_with("_hugepages");
    const std::string path = fmt::format("{}node0/{}{}", kNode, is_pool ? pool : "", c.file);
    MemorySource tree = small();
    if (c.content == nullptr) {
      tree.remove(path);
    } else {
      tree.add(path, c.content);
    }
    const Result<MachineMemory> got = read_memory(tree);
    ASSERT_TRUE(got.ok()) << got.error().text;
    const Result<MemoryAmounts>& node = got->nodes.at(NumaNodeId(0));
    ASSERT_FALSE(node.ok());
    EXPECT_EQ(node.error().code, c.code);
    EXPECT_NE(node.error().text.find(path), std::string::npos) << node.error().text;
    EXPECT_TRUE(got->nodes.at(NumaNodeId(1)).ok());
  }
}

TEST(Memory, AnOddListIsAnErrorOfTheWhole) {
  MemorySource tree = small();
  tree.add(std::string(kNode) + "has_memory", "0-\n");
  const Result<MachineMemory> got = read_memory(tree);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, Errc::kCorrupt);
  EXPECT_NE(got.error().text.find("has_memory"), std::string::npos) << got.error().text;
}

TEST(Memory, OfADirectoryWithAnOverlay) {
  const test::TempDir dir;
  test::write_tree(small(), dir.path());
  const Result<MachineMemory> plain = read_memory({.root = dir.path()});
  ASSERT_TRUE(plain.ok()) << plain.error().text;
  EXPECT_EQ(ids_of(*plain), "0 1 ");
  const Result<MachineMemory> overlaid =
      read_memory({.root = dir.path(), .overlay = {{std::string(kNode) + "has_memory", "0\n"}}});
  ASSERT_TRUE(overlaid.ok()) << overlaid.error().text;
  EXPECT_EQ(ids_of(*overlaid), "0 ");
  EXPECT_FALSE(read_memory({.root = dir.path() / "none"}).ok());
}

}  // namespace
}  // namespace dracpu::topology
