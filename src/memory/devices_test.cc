// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/devices.h"

#include <gtest/gtest.h>

#include "device/build.h"
#include "memory/reserved.h"
#include "memory/test_amounts.h"

namespace dracpu::memory {
namespace {

using device::AttributeValue;
using device::ByteRange;
using device::Device;

Inventory inventory_of(const std::map<std::int32_t, topology::MemoryAmounts>& nodes,
                       const std::vector<std::int32_t>& with_cpus, const Selection& selection = {}) {
  return take_inventory(machine_of(nodes), cpus_on(with_cpus), selection).value();
}

const Device& device_at(const Published& published, std::string_view name) {
  for (const device::Slice& slice : published.slices) {
    for (const Device& d : slice.devices) {
      if (d.name == name) return d;
    }
  }
  static const Device none;
  ADD_FAILURE() << "no device " << name;
  return none;
}

std::int64_t count(Bytes amount) { return static_cast<std::int64_t>(amount.count); }

TEST(SeparateDevices, OfBaseMemoryHaveExactlyTheseAttributes) {
  const topology::MemoryAmounts node{.total_bytes = std::uint64_t{32551096} * 1024, .hugepages = {}};
  const Published got = separate_devices(inventory_of({{0, node}}, {0}), {});
  ASSERT_EQ(got.slices.size(), 1U);
  ASSERT_EQ(got.slices[0].devices.size(), 1U);
  const Device& d = got.slices[0].devices[0];
  EXPECT_EQ(d.name, "memory-numa000");
  EXPECT_TRUE(d.allow_multiple_allocations);
  EXPECT_EQ(d.attributes,
            (std::map<std::string, AttributeValue>{{"resource.kubernetes.io/numaNode", std::int64_t{0}},
                                                   {"resource.kubernetes.io/pageSize", std::string("4Ki")},
                                                   {"resource.kubernetes.io/hugeTLB", false},
                                                   {"dra.memory/pageSize", std::string("4Ki")},
                                                   {"dra.memory/hugeTLB", false},
                                                   {"dra.memory/hasCPU", true},
                                                   {"dra.memory/socketID", std::int64_t{0}},
                                                   {"dra.cpu/numaNodeID", std::int64_t{0}},
                                                   {"dra.net/numaNode", std::int64_t{0}}}));
  EXPECT_EQ(d.capacity, (std::map<std::string, std::int64_t>{{"size", 33332322304}}));
  EXPECT_EQ(d.byte_ranges.at("size"),
            (ByteRange{.fallback = 1 << 20, .min = 4096, .step = 4096, .max = 33332322304}));
  EXPECT_TRUE(d.node_allocatable.empty());
  EXPECT_EQ(
      got.offers,
      (std::vector<Offer>{{"memory-numa000", "size", Kind(), NumaNodeId(0), 4_KiB, Bytes{33332322304}}}));
}

TEST(SeparateDevices, OfHugepagesCountWholePages) {
  const Published got = separate_devices(inventory_of({{2, worked_node()}}, {2}), {});
  const Device& d = device_at(got, "hugepages-2mi-numa002");
  EXPECT_EQ(d.attributes.at("resource.kubernetes.io/pageSize"), AttributeValue(std::string("2Mi")));
  EXPECT_EQ(d.attributes.at("resource.kubernetes.io/hugeTLB"), AttributeValue(true));
  EXPECT_EQ(d.attributes.at("resource.kubernetes.io/numaNode"), AttributeValue(std::int64_t{2}));
  EXPECT_EQ(
      d.byte_ranges.at("size"),
      (ByteRange{.fallback = count(2_MiB), .min = count(2_MiB), .step = count(2_MiB), .max = count(2_GiB)}));
}

TEST(SeparateDevices, OnePageHasNoStepAndTwoHave) {
  for (const std::uint64_t pages : {1U, 2U}) {
    topology::MemoryAmounts node = worked_node();
    node.hugepages = {pool(1_GiB, pages)};
    const Published got = separate_devices(inventory_of({{0, node}}, {0}), {});
    EXPECT_TRUE(got.warnings.empty());
    const ByteRange& range = device_at(got, "hugepages-1gi-numa000").byte_ranges.at("size");
    EXPECT_EQ(range.min, count(1_GiB));
    EXPECT_EQ(range.fallback, count(1_GiB));
    EXPECT_EQ(range.max, count(1_GiB) * static_cast<std::int64_t>(pages));
    EXPECT_EQ(range.step.has_value(), pages == 2);
    EXPECT_EQ(device_at(got, "memory-numa000").name, "memory-numa000");
  }
}

TEST(SeparateDevices, NodesWithoutCpusSayIt) {
  const Published got = separate_devices(
      inventory_of({{0, worked_node()}, {2, worked_node()}}, {0}, {.nodes = parse_nodes("0,2").value()}), {});
  const Device& d = device_at(got, "memory-numa002");
  EXPECT_EQ(d.attributes.at("dra.memory/hasCPU"), AttributeValue(false));
  EXPECT_FALSE(d.attributes.contains("dra.memory/socketID"));
}

TEST(SeparateDevices, SlicesAreByKindAndThenByNode) {
  const Published got = separate_devices(
      inventory_of({{0, worked_node()}, {10, worked_node()}, {2, worked_node()}}, {0, 2, 10}), {});
  std::vector<std::string> names;
  for (const device::Slice& slice : got.slices) {
    std::string line;
    for (const Device& d : slice.devices) line += d.name + " ";
    names.push_back(line);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"memory-numa000 memory-numa002 memory-numa010 ",
                                      "hugepages-2mi-numa000 hugepages-2mi-numa002 hugepages-2mi-numa010 ",
                                      "hugepages-1gi-numa000 hugepages-1gi-numa002 hugepages-1gi-numa010 "}));
}

TEST(SeparateDevices, ManyNodesTakeSeveralSlices) {
  std::map<std::int32_t, topology::MemoryAmounts> nodes;
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < 130; ++id) {
    nodes.emplace(id, topology::MemoryAmounts{.total_bytes = 1U << 30U, .hugepages = {}});
    ids.push_back(id);
  }
  const Published got = separate_devices(inventory_of(nodes, ids), {});
  ASSERT_EQ(got.slices.size(), 2U);
  EXPECT_EQ(got.slices[0].devices.size(), 128U);
  EXPECT_EQ(got.slices[1].devices[0].name, "memory-numa128");
}

TEST(SeparateDevices, AreTheSameAfterARestartAndOtherwiseAfterAChange) {
  const auto publish = [](std::uint64_t pages) {
    topology::MemoryAmounts node = worked_node();
    node.hugepages = {pool(2_MiB, pages)};
    return separate_devices(inventory_of({{0, node}}, {0}), {});
  };
  EXPECT_EQ(publish(0), publish(0));
  const Published grown = publish(512);
  EXPECT_NE(publish(0), grown);
  EXPECT_EQ(device_at(publish(0), "memory-numa000").capacity.at("size") -
                device_at(grown, "memory-numa000").capacity.at("size"),
            count(1_GiB));
}

TEST(SeparateDevices, MapTheirResourceOnlyWhenToldTo) {
  const Published got =
      separate_devices(inventory_of({{0, worked_node()}}, {0}), {.node_allocatable_mapping = true});
  using Map = std::map<std::string, std::string>;
  EXPECT_EQ(device_at(got, "memory-numa000").node_allocatable, (Map{{"memory", "size"}}));
  EXPECT_EQ(device_at(got, "hugepages-2mi-numa000").node_allocatable, (Map{{"hugepages-2Mi", "size"}}));
}

TEST(SeparateDevices, WhatTheApiRefusesIsLeftOut) {
  // With such pages the default of 1 MiB is below the minimum.
  const Published got = separate_devices(inventory_of({{0, worked_node()}}, {0}, {.base_page = 2_MiB}), {});
  ASSERT_EQ(got.warnings.size(), 1U);
  EXPECT_EQ(got.warnings[0].path, "memory-numa000");
  EXPECT_EQ(got.slices.size(), 2U);
  EXPECT_EQ(got.offers.size(), 2U);
}

TEST(SeparateDevices, TheAliasHasTheDomainOfTheCpuDevices) {
  const Published got =
      separate_devices(inventory_of({{0, worked_node()}}, {0}), {.cpu_driver_name = "cpu.example"});
  EXPECT_TRUE(device_at(got, "memory-numa000").attributes.contains("cpu.example/numaNodeID"));
}

TEST(CheckRange, KnowsTheRulesOfTheApi) {
  struct Case {
    const char* about;
    std::int64_t capacity;
    ByteRange range;
    bool is_good;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"a range of steps", 10, {.fallback = 2, .min = 2, .step = 2, .max = 10}, true},
           {"no step", 2, {.fallback = 2, .min = 2, .step = {}, .max = 2}, true},
           {"nothing by default", 10, {.fallback = 0, .min = 0, .step = 2, .max = 10}, true},
           {"min above the capacity", 1, {.fallback = 2, .min = 2, .step = {}, .max = 2}, false},
           {"max above the capacity", 9, {.fallback = 2, .min = 2, .step = {}, .max = 10}, false},
           {"default below min", 10, {.fallback = 1, .min = 2, .step = {}, .max = 10}, false},
           {"default above max", 10, {.fallback = 9, .min = 2, .step = {}, .max = 8}, false},
           {"no room for a step", 2, {.fallback = 2, .min = 2, .step = 2, .max = 2}, false},
           {"a step of zero", 10, {.fallback = 2, .min = 2, .step = 0, .max = 10}, false},
           {"default between steps", 10, {.fallback = 3, .min = 2, .step = 2, .max = 10}, false},
           {"max between steps", 10, {.fallback = 2, .min = 2, .step = 2, .max = 9}, false},
       }) {
    SCOPED_TRACE(c.about);
    EXPECT_EQ(check_range(c.capacity, c.range).ok(), c.is_good);
  }
}

// Slices of CPU devices as the CPU part makes them.
std::vector<device::Slice> cpu_slices(const std::vector<std::int32_t>& nodes, std::size_t attributes = 0) {
  std::vector<Device> devices;
  for (const std::int32_t node : nodes) {
    Device d;
    d.name = fmt::format("cpudevnuma{:03}", node);
    d.allow_multiple_allocations = true;
    d.attributes.emplace("resource.kubernetes.io/numaNode", std::int64_t{node});
    for (std::size_t i = 0; i < attributes; ++i) d.attributes.emplace(fmt::format("dra.cpu/a{}", i), true);
    d.capacity.emplace("dra.cpu/cpu", 8);
    devices.push_back(std::move(d));
  }
  return device::cut_into_slices(devices);
}

TEST(CombinedDevices, HaveTheMemoryOfTheirNode) {
  const Published got = combined_devices(inventory_of({{0, worked_node()}, {1, worked_node()}}, {0, 1}),
                                         cpu_slices({0, 1}), {.node_allocatable_mapping = true});
  EXPECT_TRUE(got.warnings.empty());
  ASSERT_EQ(got.slices.size(), 1U);
  const Device& d = device_at(got, "cpudevnuma001");
  EXPECT_EQ(d.capacity, (std::map<std::string, std::int64_t>{{"dra.cpu/cpu", 8},
                                                             {"dra.memory/memory", count(58156_MiB)},
                                                             {"dra.memory/hugepages_2Mi", count(2_GiB)},
                                                             {"dra.memory/hugepages_1Gi", count(4_GiB)}}));
  EXPECT_FALSE(d.byte_ranges.contains("dra.cpu/cpu"));
  EXPECT_EQ(d.byte_ranges.at("dra.memory/memory"),
            (ByteRange{.fallback = 0, .min = 0, .step = 4096, .max = count(58156_MiB)}));
  EXPECT_EQ(d.node_allocatable,
            (std::map<std::string, std::string>{{"memory", "dra.memory/memory"},
                                                {"hugepages-2Mi", "dra.memory/hugepages_2Mi"},
                                                {"hugepages-1Gi", "dra.memory/hugepages_1Gi"}}));
  ASSERT_EQ(got.offers.size(), 6U);
  EXPECT_EQ(got.offers[4],
            (Offer{"cpudevnuma001", "dra.memory/hugepages_2Mi", kind(2_MiB), NumaNodeId(1), 2_MiB, 2_GiB}));
}

TEST(CombinedDevices, OnePageMayHaveAStep) {
  topology::MemoryAmounts node = worked_node();
  node.hugepages = {pool(1_GiB, 1)};
  const Published got = combined_devices(inventory_of({{0, node}}, {0}), cpu_slices({0}), {});
  EXPECT_TRUE(got.warnings.empty());
  EXPECT_EQ(device_at(got, "cpudevnuma000").byte_ranges.at("dra.memory/hugepages_1Gi").step, count(1_GiB));
}

TEST(CombinedDevices, TooManyCapacitiesAreLeftOutAndTheDeviceStays) {
  const Published got = combined_devices(inventory_of({{0, worked_node()}}, {0}), cpu_slices({0}, 29), {});
  EXPECT_EQ(got.warnings.size(), 2U);
  EXPECT_EQ(got.offers.size(), 1U);
  EXPECT_EQ(device_at(got, "cpudevnuma000").capacity.size(), 2U);
}

TEST(CombinedDevices, ANodeWithoutCpusIsToldAndNotOffered) {
  const Published got =
      combined_devices(inventory_of({{0, worked_node()}, {1, worked_node()}}, {0, 1}), cpu_slices({0}), {});
  EXPECT_EQ(got.offers.size(), 3U);
  ASSERT_EQ(got.warnings.size(), 1U);
  EXPECT_EQ(got.warnings[0].path, "NUMA node 1");
}

TEST(CombinedDevices, OfAMachineWithoutNodesGetAll) {
  topology::MachineMemory machine = machine_of({{0, worked_node()}});
  machine.has_numa = false;
  const Inventory inventory = take_inventory(machine, cpus_on({0}), {}).value();
  std::vector<device::Slice> slices = cpu_slices({0});
  slices[0].devices[0].attributes.clear();
  EXPECT_EQ(combined_devices(inventory, slices, {}).offers.size(), 3U);
}

}  // namespace
}  // namespace dracpu::memory
