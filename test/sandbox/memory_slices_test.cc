// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Slices of memory devices, as they are sent, against the rules of the API server.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "data/random.h"
#include "kube/slice_codec.h"
#include "memory/devices.h"
#include "memory/test_amounts.h"
#include "slice_rules.h"

namespace dracpu::sandbox {
namespace {

namespace json = boost::json;
using memory::Bytes;
using memory::operator""_GiB;
using memory::operator""_KiB;
using memory::operator""_MiB;

const ServerProfile kServer{.minor = 37, .node_allocatable = true};

// The devices of all slices as the server would store them.
std::vector<json::object> stored(const memory::Published& published, std::string_view driver) {
  std::vector<json::object> out;
  const kube::SliceTarget target{std::string(driver), "worker", "uid", 1, published.slices.size()};
  for (std::size_t i = 0; i < published.slices.size(); ++i) {
    const kube::WireSlice wire = kube::encode_slice(published.slices[i], {}, std::nullopt);
    json::object slice = json::parse(kube::create_body(target, i, wire)).as_object();
    slice["metadata"].as_object()["name"] = fmt::format("slice-{}", i);
    for (const Cause& cause : check_slice(kServer, slice))
      ADD_FAILURE() << cause.field << ": " << cause.message;
    for (const json::value& device : slice.at("spec").at("devices").as_array()) {
      out.push_back(device.as_object());
    }
  }
  return out;
}

memory::Inventory inventory_of(const topology::MemoryAmounts& node, Bytes base_page = 4_KiB) {
  return memory::take_inventory(memory::machine_of({{0, node}, {1, node}}), memory::cpus_on({0, 1}),
                                {.base_page = base_page})
      .value();
}

TEST(MemorySlices, AreAcceptedWithOnePageToo) {
  const topology::MemoryAmounts node{.total_bytes = std::uint64_t{32551096} * 1024,
                                     .hugepages = {memory::pool(1_GiB, 1)}};
  const std::vector<json::object> devices =
      stored(separate_devices(inventory_of(node), {.node_allocatable_mapping = true}), "dra.memory");
  ASSERT_EQ(devices.size(), 4U);
  EXPECT_EQ(devices[0].at("name"), "memory-numa000");
  EXPECT_EQ(devices[0].at("capacity"), json::parse(R"({"size":{"value":"31502520Ki","requestPolicy":{
    "default":"1Mi","validRange":{"min":"4Ki","step":"4Ki","max":"31502520Ki"}}}})"));
  EXPECT_EQ(devices[0].at("nodeAllocatableResources"),
            json::parse(R"({"memory":{"mapping":{"capacityKey":"size","capacityMultiplier":"1"}}})"));
  EXPECT_EQ(devices[3].at("name"), "hugepages-1gi-numa001");
  EXPECT_EQ(devices[3].at("capacity"), json::parse(R"({"size":{"value":"1Gi","requestPolicy":{
    "default":"1Gi","validRange":{"min":"1Gi","max":"1Gi"}}}})"));
}

TEST(MemorySlices, OfRandomMachinesAreAccepted) {
  test::Random random(1);
  std::size_t accepted = 0;
  for (int n = 0; n < 200; ++n) {
    const Bytes base{(4_KiB).count << random.pick(5)};
    topology::MemoryAmounts node{.total_bytes = (random.next() >> (24 + random.pick(20))) / 1024 * 1024,
                                 .hugepages = {}};
    for (const Bytes page : {64_KiB, 2_MiB, 32_MiB, 1_GiB}) {
      if (random.one_in(2)) node.hugepages.push_back(memory::pool(page, random.pick(5)));
    }
    accepted += stored(separate_devices(inventory_of(node, base), {}), "dra.memory").size();
  }
  EXPECT_GT(accepted, 400U);
}

TEST(MemorySlices, OfCombinedDevicesAreAccepted) {
  device::Device cpus;
  cpus.name = "cpudevnuma000";
  cpus.allow_multiple_allocations = true;
  cpus.attributes.emplace("resource.kubernetes.io/numaNode", std::int64_t{0});
  cpus.capacity.emplace("dra.cpu/cpu", 8);
  const topology::MemoryAmounts node{.total_bytes = (64_GiB).count, .hugepages = {memory::pool(1_GiB, 1)}};
  const std::vector<json::object> devices =
      stored(combined_devices(inventory_of(node), {{{cpus}}}, {.node_allocatable_mapping = true}), "dra.cpu");
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].at("capacity"), json::parse(R"({"dra.cpu/cpu":{"value":"8"},
    "dra.memory/memory":{"value":"63Gi","requestPolicy":{"default":"0","validRange":{"min":"0","step":"4Ki","max":"63Gi"}}},
    "dra.memory/hugepages_1Gi":{"value":"1Gi","requestPolicy":{"default":"0",
      "validRange":{"min":"0","step":"1Gi","max":"1Gi"}}}})"));
}

}  // namespace
}  // namespace dracpu::sandbox
