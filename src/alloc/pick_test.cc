// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What must hold whatever the order: on every machine, with free sets as ragged as they come.

#include "alloc/pick.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "data/corpus.h"
#include "data/tree.h"
#include "topology/reader.h"

namespace dracpu::alloc {
namespace {

CpuSet set_of(std::string_view text) { return CpuSet::parse(text).value(); }

topology::Topology machine(const test::TreeSpec& spec) {
  topology::MemorySource tree = test::make_tree(spec);
  return read_topology(tree).value();
}

// Core numbers repeat on the two sockets: cores c,c+4 with node 0 = 0-1,4-5.
Layout small() { return Layout(machine({})); }

TEST(Pick, GivesWhatWasAskedForOrSaysWhyNot) {
  struct Case {
    const char* about;
    const char* free;
    std::size_t count;
    const char* cpus;  // null: refused
  };
  const Layout layout = small();
  for (const Case& c : std::initializer_list<Case>{
           {"nothing of nothing", "", 0, ""},
           {"nothing of something", "0-7", 0, ""},
           {"a whole core", "0-7", 2, "0,4"},
           {"a whole node", "0-7", 4, "0-1,4-5"},
           {"all", "0-7", 8, "0-7"},
           {"the split core first", "0-3,5-7", 1, "0"},
           {"unknown numbers do not count", "3,100-200", 1, "3"},
           {"one from nothing", "", 1, nullptr},
           {"more than there are", "0-7", 9, nullptr},
           {"unknown numbers are no capacity", "3,100-200", 2, nullptr},
       }) {
    SCOPED_TRACE(c.about);
    const Result<CpuSet> got = pick(layout, set_of(c.free), c.count);
    ASSERT_EQ(got.ok(), c.cpus != nullptr);
    if (got.ok()) {
      EXPECT_EQ(got->to_string(), c.cpus);
    } else {
      EXPECT_EQ(got.error().code, Errc::kNoCapacity);
    }
  }
}

// The public driver gives 13 and 37, which are on the other node: "core 1" exists on both sockets.
TEST(Pick, NeverLeavesTheDeviceWhenCoreNumbersRepeat) {
  const topology::Topology t = machine({.cores_per_node = 12, .cores_per_l3 = 12});
  const Layout layout(t);
  CpuSet device = t.nodes.at(NumaNodeId(0)).cpus;  // 0-11,24-35
  const Result<CpuSet> first = pick(layout, device, 1);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->to_string(), "0");
  device -= *first;
  const Result<CpuSet> second = pick(layout, device, 4);
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second->is_subset_of(t.nodes.at(NumaNodeId(0)).cpus)) << second->to_string();
}

TEST(Pick, WorksOnMachinesThatTellLittle) {
  topology::Topology t = machine({.cores_per_l3 = 0});
  for (auto& [id, cpu] : t.cpus) cpu.node.reset(), cpu.socket.reset(), cpu.core_label.reset();
  const Layout layout(t);
  EXPECT_EQ(layout.nodes().size(), 1U);
  EXPECT_EQ(layout.sockets().size(), 1U);
  EXPECT_EQ(pick(layout, t.usable, 3).value().to_string(), "0-1,4");
  const Layout empty{topology::Topology()};
  EXPECT_FALSE(pick(empty, set_of("0-3"), 1).ok());
  EXPECT_TRUE(pick(empty, {}, 0).ok());
}

// Firmware of virtual machines can lay a node over two sockets; the order of nodes then names it twice.
TEST(Pick, CountsANodeThatLiesInTwoSocketsOnce) {
  topology::Topology t = machine({});
  const std::map<std::uint32_t, std::int32_t> node_of = {{0, 0}, {4, 0}, {1, 1}, {5, 1},
                                                         {2, 1}, {6, 1}, {3, 2}, {7, 2}};
  for (const auto& [cpu, node] : node_of) t.cpus.at(CpuId(cpu)).node = NumaNodeId(node);
  const Layout layout(t);
  const Result<CpuSet> got = pick(layout, t.usable, 6, {.distribute = true});
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->to_string(), "0-1,3-5,7");  // two of each node
}

// Sixty-four equal nodes have more combinations than can be counted; the answer comes anyway.
TEST(Pick, EndsOnMachinesWithManyNodes) {
  const topology::Topology t = machine({.sockets = 64, .cores_per_node = 4});
  const Layout layout(t);
  std::mt19937 random(1);
  CpuSet free;
  t.usable.for_each([&](CpuId cpu) {
    if (random() % 8 != 0) free.insert(cpu);
  });
  for (const std::size_t count : {101U, 202U, 333U}) {
    const Result<CpuSet> got = pick(layout, free, count, {.distribute = true});
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(got->size(), count);
  }
}

// Random free sets inside random devices. The seed is fixed: a failure can be run again.
void check_machine(const topology::Topology& t, std::mt19937& random) {
  const Layout layout(t);
  std::vector<CpuSet> devices = {t.usable};
  for (const auto& [id, node] : t.nodes) devices.push_back(node.cpus & t.usable);
  for (const auto& [id, socket] : t.sockets) devices.push_back(socket);
  for (int round = 0; round < 60; ++round) {
    const CpuSet& device = devices[random() % devices.size()];
    const unsigned keep_of_8 = 1 + random() % 8;
    CpuSet free;
    device.for_each([&](CpuId cpu) {
      if (random() % 8 < keep_of_8) free.insert(cpu);
    });
    const Options options = {.sorting = random() % 3 == 0 ? Sorting::kSpread : Sorting::kPacked,
                             .prefer_caches = random() % 2 == 0,
                             .distribute = random() % 3 == 0,
                             .group_size = 1 + random() % 2};
    const std::size_t count = random() % (free.size() + 2);
    SCOPED_TRACE(fmt::format("{} of {}", count, free.to_string()));
    const Result<CpuSet> got = pick(layout, free, count, options);
    ASSERT_EQ(got.ok(), count <= free.size()) << (got.ok() ? "" : got.error().text);
    if (!got.ok()) {
      EXPECT_EQ(got.error().code, Errc::kNoCapacity);
      continue;
    }
    EXPECT_EQ(got->size(), count);
    EXPECT_TRUE(got->is_subset_of(free));
    EXPECT_EQ(*got, *pick(layout, free, count, options));
  }
}

TEST(Pick, KeepsToTheFreeSetOnEveryMachine) {
  const std::vector<test::Machine> machines = test::machines();
  if (machines.empty()) GTEST_SKIP() << "no machines in " << test::data_dir() << "; set DRACPU_TEST_DATA";
  std::mt19937 random(20260820);
  for (const test::Machine& entry : machines) {
    SCOPED_TRACE(entry.name);
    const test::TempDir dir;
    ASSERT_TRUE(test::unpack(entry, dir.path()));
    const Result<topology::Topology> t = topology::read_topology({.root = dir.path()});
    ASSERT_TRUE(t.ok());
    check_machine(*t, random);
  }
}

// Cores are threads that the kernel calls siblings, on every machine; a layout must not cut or join any.
TEST(Layout, KeepsTheCoresOfTheTopology) {
  for (const std::uint32_t threads : {1U, 2U, 4U, 8U}) {
    for (const bool are_adjacent : {false, true}) {
      const topology::Topology t = machine({.sockets = 2,
                                            .nodes_per_socket = 2,
                                            .cores_per_node = 3,
                                            .threads = threads,
                                            .cores_per_l3 = 3,
                                            .are_siblings_adjacent = are_adjacent});
      const Layout layout(t);
      ASSERT_EQ(layout.cores().size(), t.cores.size());
      for (const Unit& core : layout.cores()) {
        const CpuSet cpus = layout.cpus_of(core);
        EXPECT_EQ(cpus, t.siblings(*cpus.first()));
      }
      EXPECT_EQ(layout.threads_per_core(), threads);
      EXPECT_EQ(layout.caches().size(), t.l3_groups.size());
    }
  }
}

}  // namespace
}  // namespace dracpu::alloc
