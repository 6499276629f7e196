// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/discovery.h"

#include <gtest/gtest.h>

#include "data/corpus.h"
#include "memory/devices.h"
#include "memory/reserved.h"
#include "memory/test_amounts.h"
#include "topology/reader.h"

namespace dracpu::memory {
namespace {

Inventory taken(const topology::MachineMemory& machine, const topology::Topology& topology,
                const Selection& selection = {}) {
  Result<Inventory> got = take_inventory(machine, topology, selection);
  EXPECT_TRUE(got.ok()) << got.error().text;
  return got.ok() ? std::move(got).value() : Inventory();
}

// "memory@0=57132Mi"
std::vector<std::string> spans_of(const Inventory& inventory) {
  std::vector<std::string> out;
  for (const Span& s : inventory.spans) {
    out.push_back(fmt::format("{}@{}={}", resource_name(s.kind), s.node.get(), text_of(s.capacity)));
  }
  return out;
}

using Spans = std::vector<std::string>;

TEST(Inventory, CapacityIsWhatPoolsAndReservationLeave) {
  struct Case {
    const char* about;
    topology::MemoryAmounts node;
    const char* reserved;
    Bytes base_page;
    Spans spans;
  };
  const topology::MemoryAmounts plain{.total_bytes = std::uint64_t{32551096} * 1024, .hugepages = {}};
  topology::MemoryAmounts surplus = worked_node();
  surplus.hugepages = {pool(2_MiB, 1024, 8)};
  topology::MemoryAmounts odd;
  odd.total_bytes = std::uint64_t{65843204} * 1024;
  for (const Case& c : std::vector<Case>{
           {"no pools, no reservation", plain, "", 4_KiB, {"memory@0=32551096Ki"}},
           {"pools and a reservation of memory",
            worked_node(),
            "0:memory=1Gi",
            4_KiB,
            {"memory@0=57132Mi", "hugepages-2Mi@0=2Gi", "hugepages-1Gi@0=4Gi"}},
           {"a reservation in a pool leaves memory alone",
            worked_node(),
            "0:memory=1Gi,hugepages-2Mi=64Mi",
            4_KiB,
            {"memory@0=57132Mi", "hugepages-2Mi@0=1984Mi", "hugepages-1Gi@0=4Gi"}},
           {"surplus pages are not counted",
            surplus,
            "0:memory=1Gi",
            4_KiB,
            {"memory@0=61244Mi", "hugepages-2Mi@0=2032Mi"}},
           {"pages of 64 KiB round down more", odd, "0:memory=1Gi", 64_KiB, {"memory@0=63276Mi"}},
           {"a decimal reservation rounds down to a page",
            plain,
            "0:memory=1e9",
            4_KiB,
            {"memory@0=31574532Ki"}},
           {"a reserved pool is not offered",
            worked_node(),
            "0:hugepages-1Gi=4Gi",
            4_KiB,
            {"memory@0=58156Mi", "hugepages-2Mi@0=2Gi"}},
           {"what is left of the memory is too little",
            worked_node(),
            "0:memory=58156Mi",
            4_KiB,
            {"hugepages-2Mi@0=2Gi", "hugepages-1Gi@0=4Gi"}},
           {"pools of more than there is",
            {.total_bytes = 1U << 30U, .hugepages = {pool(1_GiB, 2)}},
            "",
            4_KiB,
            {"hugepages-1Gi@0=2Gi"}},
       }) {
    SCOPED_TRACE(c.about);
    const Inventory got = taken(machine_of({{0, c.node}}), cpus_on({0}),
                                {.reserved = parse_reserved(c.reserved).value(), .base_page = c.base_page});
    EXPECT_EQ(spans_of(got), c.spans);
  }
}

TEST(Inventory, SurplusAndReservationsThatLeaveNothingAreTold) {
  topology::MemoryAmounts node = worked_node();
  node.hugepages[0].surplus = 8;
  const Inventory got = taken(machine_of({{0, node}}), cpus_on({0}),
                              {.reserved = parse_reserved("0:hugepages-1Gi=4Gi").value()});
  ASSERT_EQ(got.warnings.size(), 2U);
  EXPECT_EQ(got.warnings[0].path, "hugepages-2Mi on NUMA node 0");
  EXPECT_EQ(got.warnings[0].found, "8 of 1024 pages are surplus");
  EXPECT_EQ(got.warnings[1].found, "4Gi of 4Gi are reserved");
}

TEST(Inventory, SmallMemoryIsNotOffered) {
  const auto offered = [](Bytes total, Bytes page) {
    const topology::MachineMemory machine = machine_of({{0, {.total_bytes = total.count, .hugepages = {}}}});
    return !taken(machine, cpus_on({0}), {.base_page = page}).spans.empty();
  };
  EXPECT_FALSE(offered(1_MiB - 4_KiB, 4_KiB));
  EXPECT_TRUE(offered(1_MiB, 4_KiB));
  EXPECT_FALSE(offered(1_MiB, 1_MiB));
  EXPECT_TRUE(offered(2_MiB, 1_MiB));
}

TEST(Inventory, NodesKeepTheirNumbersInNumericOrder) {
  std::map<std::int32_t, topology::MemoryAmounts> nodes;
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < 12; ++id) {
    nodes.emplace(id, topology::MemoryAmounts{.total_bytes = 1U << 30U, .hugepages = {}});
    ids.push_back(id);
  }
  const Inventory got = taken(machine_of(nodes), cpus_on(ids));
  ASSERT_EQ(got.spans.size(), 12U);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(got.spans[i].node.get(), static_cast<std::int32_t>(i));
  const Inventory sparse = taken(machine_of({{0, worked_node()}, {2, worked_node()}}), cpus_on({0, 2}));
  EXPECT_EQ(spans_of(sparse), (Spans{"memory@0=58156Mi", "memory@2=58156Mi", "hugepages-2Mi@0=2Gi",
                                     "hugepages-2Mi@2=2Gi", "hugepages-1Gi@0=4Gi", "hugepages-1Gi@2=4Gi"}));
}

TEST(Inventory, NodesWithoutCpusAreOfferedOnlyByName) {
  const topology::MachineMemory machine =
      machine_of({{0, worked_node()}, {1, worked_node()}, {2, worked_node()}});
  const Inventory by_default = taken(machine, cpus_on({0, 1}));
  EXPECT_FALSE(by_default.nodes.contains(NumaNodeId(2)));
  EXPECT_EQ(by_default.nodes_with_memory.size(), 3U);
  const Inventory by_name = taken(machine, cpus_on({0, 1}), {.nodes = parse_nodes("0-2").value()});
  EXPECT_FALSE(by_name.nodes.at(NumaNodeId(2)).has_cpus);
  EXPECT_FALSE(by_name.nodes.at(NumaNodeId(2)).socket.has_value());
  EXPECT_TRUE(by_name.nodes.at(NumaNodeId(1)).has_cpus);
  EXPECT_EQ(by_name.nodes.at(NumaNodeId(1)).socket, SocketId(1));
  const Inventory one = taken(machine, cpus_on({0, 1}), {.nodes = parse_nodes("1").value()});
  EXPECT_EQ(one.nodes.size(), 1U);
}

TEST(Inventory, ANodeOfTwoSocketsHasNone) {
  topology::Topology topology = cpus_on({0, 1});
  topology.cpus.at(CpuId(1)).node = NumaNodeId(0);
  EXPECT_FALSE(taken(machine_of({{0, worked_node()}}), topology).nodes.at(NumaNodeId(0)).socket.has_value());
}

TEST(Inventory, AMachineWithoutNodesIsNodeZero) {
  topology::MachineMemory machine = machine_of({{0, worked_node()}});
  machine.has_numa = false;
  topology::Topology topology = cpus_on({0});
  topology.nodes.clear();
  topology.cpus.at(CpuId(0)).node.reset();
  const Inventory got = taken(machine, topology);
  EXPECT_EQ(got.spans.size(), 3U);
  EXPECT_TRUE(got.nodes.at(NumaNodeId(0)).has_cpus);
  EXPECT_EQ(got.nodes.at(NumaNodeId(0)).socket, SocketId(0));
}

TEST(Inventory, AnUnreadableNodeFailsOnlyWhereItIsOffered) {
  topology::MachineMemory machine = machine_of({{0, worked_node()}});
  machine.nodes.emplace(NumaNodeId(1), make_error(Errc::kCorrupt, "\"node1/meminfo\" does not say MemTotal"));
  EXPECT_EQ(taken(machine, cpus_on({0})).spans.size(), 3U);
  const Result<Inventory> got = take_inventory(machine, cpus_on({0, 1}), {});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().text, "\"node1/meminfo\" does not say MemTotal");
}

TEST(Inventory, AmountsBeyondCountingAreAnError) {
  for (const topology::MemoryAmounts& node : std::vector<topology::MemoryAmounts>{
           {.total_bytes = UINT64_MAX, .hugepages = {}},
           {.total_bytes = 1U << 30U, .hugepages = {pool(1_GiB, std::uint64_t{1} << 40U)}},
           {.total_bytes = 1U << 30U, .hugepages = {pool(1_GiB, std::uint64_t{1} << 33U)}},
       }) {
    const Result<Inventory> got = take_inventory(machine_of({{0, node}}), cpus_on({0}), {});
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::kCorrupt);
  }
}

TEST(Inventory, ReservationsThatPoolsHaveOvergrownLeaveNothing) {
  topology::MemoryAmounts node = worked_node();
  node.hugepages[0].total = 29500;
  const Inventory got =
      taken(machine_of({{0, node}}), cpus_on({0}), {.reserved = parse_reserved("0:memory=2Gi").value()});
  EXPECT_EQ(spans_of(got), (Spans{"hugepages-2Mi@0=59000Mi", "hugepages-1Gi@0=4Gi"}));
}

// Every captured machine, read as the driver reads it: whatever is published obeys the API.
TEST(Inventory, OfRealMachinesIsPublishable) {
  const std::vector<test::Machine> machines = test::machines();
  if (machines.empty()) GTEST_SKIP() << "no captured machines in " << test::data_dir();
  std::size_t offered = 0;
  for (const test::Machine& machine : machines) {
    SCOPED_TRACE(machine.name);
    const test::TempDir dir;
    if (!test::unpack(machine, dir.path())) GTEST_SKIP() << "tar cannot unpack " << machine.archive;
    const Result<topology::Topology> topology = topology::read_topology({.root = dir.path()});
    const Result<topology::MachineMemory> memory = topology::read_memory({.root = dir.path()});
    ASSERT_TRUE(topology.ok()) << topology.error().text;
    ASSERT_TRUE(memory.ok()) << memory.error().text;
    const Result<Inventory> inventory = take_inventory(*memory, *topology, {});
    if (!inventory.ok()) {  // a capture without meminfo
      EXPECT_EQ(inventory.error().code, Errc::kNotFound) << inventory.error().text;
      continue;
    }
    const Published published = separate_devices(*inventory, {});
    EXPECT_TRUE(published.warnings.empty());
    EXPECT_EQ(published.offers.size(), inventory->spans.size());
    offered += published.offers.size();
  }
  EXPECT_GT(offered, 0U);
}

}  // namespace
}  // namespace dracpu::memory
