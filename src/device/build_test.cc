// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Devices of even and odd machines: names, attributes, limits, and what is left out.

#include "device/build.h"

#include <gtest/gtest.h>

#include <set>

#include "data/corpus.h"
#include "data/tree.h"
#include "topology/reader.h"

namespace dracpu::device {
namespace {

using config::Allocator;
using config::DeviceMode;
using config::GroupBy;
using Attributes = std::map<std::string, AttributeValue>;

topology::Topology machine(const test::TreeSpec& spec) {
  topology::MemorySource tree = test::make_tree(spec);
  return read_topology(tree).value();
}

// 16 CPUs, node 0 has 0-3,8-11, node 1 has 4-7,12-15, siblings n and n+8: the worked machine of the rules.
topology::Topology sixteen() { return machine({.cores_per_node = 4, .cores_per_l3 = 4}); }

BuildResult built(const topology::Topology& topology, const CpuSet& reserved,
                  const BuildOptions& options = {}) {
  Result<BuildResult> got = build_devices(topology, reserved, options);
  EXPECT_TRUE(got.ok()) << got.error().text;
  return got.ok() ? std::move(got).value() : BuildResult();
}

std::vector<std::string> names(const BuildResult& result) {
  std::vector<std::string> out;
  for (const Device& device : result.devices) out.push_back(device.name);
  return out;
}

TEST(Devices, OfNumaNodesHaveExactlyTheAttributesOfTheDriver) {
  const BuildResult got = built(sixteen(), {0, 8});
  ASSERT_EQ(names(got), (std::vector<std::string>{"cpudevnuma000", "cpudevnuma001"}));
  EXPECT_TRUE(got.warnings.empty());
  EXPECT_EQ(got.managed.to_string(), "0-15");
  const Device& first = got.devices[0];
  EXPECT_TRUE(first.allow_multiple_allocations);
  EXPECT_EQ(first.cpus.to_string(), "1-3,9-11");
  EXPECT_EQ(first.capacity, (std::map<std::string, std::int64_t>{{"dra.cpu/cpu", 6}}));
  EXPECT_EQ(first.attributes, (Attributes{{"resource.kubernetes.io/numaNode", std::int64_t{0}},
                                          {"dra.cpu/numaNodeID", std::int64_t{0}},
                                          {"dra.net/numaNode", std::int64_t{0}},
                                          {"dra.cpu/socketID", std::int64_t{0}},
                                          {"dra.cpu/numCPUs", std::int64_t{6}},
                                          {"dra.cpu/smtEnabled", true}}));
  EXPECT_EQ(got.devices[1].attributes.at("dra.cpu/socketID"), AttributeValue(std::int64_t{1}));
}

TEST(Devices, OfSocketsAndMachine) {
  const BuildResult sockets = built(sixteen(), {0, 8}, {.group_by = GroupBy::kSocket});
  ASSERT_EQ(names(sockets), (std::vector<std::string>{"cpudevsocket000", "cpudevsocket001"}));
  EXPECT_EQ(sockets.devices[0].attributes, (Attributes{{"dra.cpu/socketID", std::int64_t{0}},
                                                       {"dra.cpu/numCPUs", std::int64_t{6}},
                                                       {"dra.cpu/smtEnabled", true}}));

  const BuildOptions by_machine = {.group_by = GroupBy::kMachine, .allocator = Allocator::kExternal};
  const BuildResult whole = built(sixteen(), {0, 8}, by_machine);
  ASSERT_EQ(names(whole), std::vector<std::string>{"cpudevmachine"});
  EXPECT_EQ(whole.devices[0].attributes, (Attributes{{"dra.cpu/numCPUs", std::int64_t{14}},
                                                     {"dra.cpu/smtEnabled", true},
                                                     {"dra.cpu/cpuIDs", std::string("1-7,9-15")},
                                                     {"dra.cpu/smtLayout", std::string("0-15>8")}}));
}

TEST(Devices, WithNothingToGiveAreNotPublishedUnlessMachine) {
  const topology::Topology t = sixteen();
  EXPECT_EQ(names(built(t, {0, 1, 2, 3, 8, 9, 10, 11})), std::vector<std::string>{"cpudevnuma001"});
  EXPECT_TRUE(built(t, t.usable).devices.empty());
  EXPECT_TRUE(built(t, t.usable, {.group_by = GroupBy::kSocket}).devices.empty());
  const BuildResult whole =
      built(t, t.usable, {.group_by = GroupBy::kMachine, .allocator = Allocator::kExternal});
  ASSERT_EQ(whole.devices.size(), 1U);
  EXPECT_EQ(whole.devices[0].capacity.at("dra.cpu/cpu"), 0);
  EXPECT_FALSE(whole.devices[0].attributes.contains("dra.cpu/cpuIDs"));
}

TEST(Devices, NeverPublishWhatIsNotKnown) {
  topology::Topology t = sixteen();
  t.cpus.at(CpuId(1)).node.reset();
  BuildResult got = built(t, {});
  EXPECT_EQ(got.devices[0].cpus.to_string(), "0,2-3,8-11");
  EXPECT_FALSE(got.managed.contains(CpuId(1)));
  ASSERT_EQ(got.warnings.size(), 1U);
  EXPECT_NE(got.warnings[0].path.find("cpulist"), std::string::npos);
  EXPECT_NE(got.warnings[0].found.find("CPUs 1 "), std::string::npos);

  for (auto& [id, cpu] : t.cpus) cpu.node.reset(), cpu.socket.reset();
  got = built(t, {});
  ASSERT_EQ(names(got), std::vector<std::string>{"cpudevnuma000"});
  EXPECT_EQ(got.devices[0].cpus.to_string(), "0-15");
  EXPECT_EQ(got.devices[0].attributes,
            (Attributes{{"dra.cpu/numCPUs", std::int64_t{16}}, {"dra.cpu/smtEnabled", true}}));
  EXPECT_EQ(got.warnings.size(), 1U);
  got = built(t, {}, {.group_by = GroupBy::kSocket});
  ASSERT_EQ(names(got), std::vector<std::string>{"cpudevsocket000"});
  EXPECT_FALSE(got.devices[0].attributes.contains("dra.cpu/socketID"));
}

TEST(Devices, CarryLongIdsInTheirNames) {
  topology::Topology t = sixteen();
  for (auto& [id, cpu] : t.cpus) {
    cpu.socket = SocketId(268435456);
    cpu.node = NumaNodeId(cpu.node == NumaNodeId(0) ? 7 : 1234);
  }
  EXPECT_EQ(names(built(t, {})), (std::vector<std::string>{"cpudevnuma007", "cpudevnuma1234"}));
  EXPECT_EQ(names(built(t, {}, {.group_by = GroupBy::kSocket})),
            std::vector<std::string>{"cpudevsocket268435456"});
}

TEST(Devices, FollowTheDriversName) {
  const BuildResult got = built(sixteen(), {}, {.driver_name = "cpu.example"});
  EXPECT_TRUE(got.devices[0].capacity.contains("cpu.example/cpu"));
  EXPECT_TRUE(got.devices[0].attributes.contains("cpu.example/numCPUs"));
  EXPECT_TRUE(got.devices[0].attributes.contains("dra.net/numaNode"));
  EXPECT_FALSE(got.devices[0].attributes.contains("dra.cpu/numCPUs"));
}

TEST(Devices, NameTheRootsNearTheirCpus) {
  const BuildResult got = built(sixteen(), {}, {.expose_pcie_roots = true});
  EXPECT_EQ(got.devices[1].attributes.at("resource.kubernetes.io/pcieRoot"),
            AttributeValue(std::vector<std::string>{"pci0000:10"}));

  topology::Topology many = sixteen();
  many.pcie_roots.clear();
  EXPECT_FALSE(built(many, {}, {.expose_pcie_roots = true})
                   .devices[0]
                   .attributes.contains("resource.kubernetes.io/pcieRoot"));
}

// The API takes 48 values of a device, list elements counted: a node with more roots starts all the same.
TEST(Devices, LeaveOutRootsBeyondTheLimit) {
  topology::Topology t = sixteen();
  t.pcie_roots.clear();
  for (int i = 0; i < 67; ++i)
    t.pcie_roots.push_back({fmt::format("pci0000:{:02x}", i), t.usable, std::nullopt});
  for (const DeviceMode mode : {DeviceMode::kGrouped, DeviceMode::kIndividual}) {
    const BuildResult got = built(t, {}, {.mode = mode, .expose_pcie_roots = true});
    ASSERT_EQ(got.warnings.size(), got.devices.size());
    for (const Device& device : got.devices) {
      const auto& roots =
          std::get<std::vector<std::string>>(device.attributes.at("resource.kubernetes.io/pcieRoot"));
      EXPECT_EQ(device.attributes.size() - 1 + roots.size(), 48U);
      EXPECT_EQ(roots.front(), "pci0000:00") << "the first ones stay, in order";
      EXPECT_NE(got.warnings[0].found.find("67 PCIe roots"), std::string::npos) << got.warnings[0].found;
    }
  }
}

TEST(Devices, OneByOneFollowCores) {
  topology::Topology t = sixteen();
  const BuildResult got = built(t, {0}, {.mode = DeviceMode::kIndividual});
  ASSERT_EQ(got.devices.size(), 15U);
  std::vector<std::uint32_t> order;
  for (const Device& device : got.devices) order.push_back(device.cpus.first()->get());
  EXPECT_EQ(order, (std::vector<std::uint32_t>{8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15}));
  const Device& second = got.devices[1];
  EXPECT_EQ(second.name, "cpudev001");
  EXPECT_FALSE(second.allow_multiple_allocations);
  EXPECT_TRUE(second.capacity.empty());
  EXPECT_EQ(second.attributes, (Attributes{{"resource.kubernetes.io/numaNode", std::int64_t{0}},
                                           {"dra.cpu/numaNodeID", std::int64_t{0}},
                                           {"dra.net/numaNode", std::int64_t{0}},
                                           {"dra.cpu/socketID", std::int64_t{0}},
                                           {"dra.cpu/cpuID", std::int64_t{1}},
                                           {"dra.cpu/coreID", std::int64_t{1}},
                                           {"dra.cpu/cacheL3ID", std::int64_t{0}},
                                           {"dra.cpu/coreType", std::string("standard")},
                                           {"dra.cpu/smtEnabled", true}}));

  t.cpus.at(CpuId(1)).type = topology::CoreType::kEfficiency;
  t.core_type_source = topology::CoreTypeSource::kCapacity;
  EXPECT_EQ(built(t, {0}, {.mode = DeviceMode::kIndividual}).devices[1].attributes.at("dra.cpu/coreType"),
            AttributeValue(std::string("standard")));
  t.core_type_source = topology::CoreTypeSource::kPmuDevices;
  EXPECT_EQ(built(t, {0}, {.mode = DeviceMode::kIndividual}).devices[1].attributes.at("dra.cpu/coreType"),
            AttributeValue(std::string("e-core")));
}

TEST(Devices, AreCutIntoSlices) {
  const topology::Topology big = machine({.cores_per_node = 66});  // 264 CPUs
  const auto sizes = [](const BuildResult& result) {
    std::vector<std::size_t> out;
    for (const Slice& slice : cut_into_slices(result.devices)) out.push_back(slice.devices.size());
    return out;
  };
  EXPECT_EQ(sizes(built(big, {}, {.mode = DeviceMode::kIndividual})),
            (std::vector<std::size_t>{128, 128, 8}));
  EXPECT_EQ(sizes(built(big, {}, {.mode = DeviceMode::kIndividual, .expose_pcie_roots = true})),
            (std::vector<std::size_t>{64, 64, 64, 64, 8}));
  EXPECT_EQ(sizes(built(big, {})), std::vector<std::size_t>{2});
  EXPECT_TRUE(cut_into_slices({}).empty());
}

TEST(Devices, AreFoundByName) {
  const BuildResult got = built(sixteen(), {});
  ASSERT_NE(device_by_name(got.devices, "cpudevnuma001"), nullptr);
  EXPECT_EQ(device_by_name(got.devices, "cpudevnuma001")->cpus.to_string(), "4-7,12-15");
  EXPECT_EQ(device_by_name(got.devices, "cpudevnuma002"), nullptr);
}

// On every machine: devices are disjoint, hold usable CPUs only, reserved ones never, and lose none silently.
TEST(Devices, OfEveryMachineAreSound) {
  const std::vector<test::Machine> machines = test::machines();
  if (machines.empty()) GTEST_SKIP() << "no machines in " << test::data_dir() << "; set DRACPU_TEST_DATA";
  for (const test::Machine& entry : machines) {
    const test::TempDir dir;
    ASSERT_TRUE(test::unpack(entry, dir.path()));
    const Result<topology::Topology> t = topology::read_topology({.root = dir.path()});
    ASSERT_TRUE(t.ok()) << entry.name;
    const CpuSet reserved = t->usable.lowest(t->usable.size() / 3);
    for (const DeviceMode mode : {DeviceMode::kGrouped, DeviceMode::kIndividual}) {
      for (const GroupBy group_by : {GroupBy::kNumaNode, GroupBy::kSocket, GroupBy::kMachine}) {
        SCOPED_TRACE(fmt::format("{} {} {}", entry.name, static_cast<int>(mode), static_cast<int>(group_by)));
        const BuildOptions options = {
            .mode = mode, .group_by = group_by, .allocator = Allocator::kExternal, .expose_pcie_roots = true};
        const BuildResult got = built(*t, reserved, options);
        CpuSet all;
        std::set<std::string> seen;
        for (const Device& device : got.devices) {
          EXPECT_TRUE(seen.insert(device.name).second) << device.name;
          EXPECT_LE(device.name.size(), 63U);
          EXPECT_FALSE(all.intersects(device.cpus));
          all |= device.cpus;
          for (const auto& [name, value] : device.attributes) {
            if (const auto* text = std::get_if<std::string>(&value)) {
              EXPECT_LE(text->size(), 64U) << name;
            }
            const auto* number = std::get_if<std::int64_t>(&value);
            if (number != nullptr && name != "dra.cpu/cacheL3ID" && name != "dra.cpu/coreID") {
              EXPECT_GE(*number, 0) << name;
            }
          }
        }
        EXPECT_EQ(all, got.managed - reserved);
        EXPECT_TRUE(got.managed.is_subset_of(t->usable));
        EXPECT_TRUE(got.managed == t->usable || !got.warnings.empty());
      }
    }
  }
}

}  // namespace
}  // namespace dracpu::device
