// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/slice_codec.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "kube/slice_content.h"

namespace dracpu::kube {
namespace {

namespace json = boost::json;

device::Device numa_device(const std::string& name, std::int64_t cpus) {
  device::Device d;
  d.name = name;
  d.allow_multiple_allocations = true;
  d.attributes = {{"dra.cpu/smtEnabled", true},
                  {"dra.cpu/cpuIDs", std::string("0-61")},
                  {"resource.kubernetes.io/numaNode", std::int64_t{0}},
                  {"resource.kubernetes.io/pcieRoot", std::vector<std::string>{"pci0000:00"}}};
  d.capacity = {{"dra.cpu/cpu", cpus}};
  return d;
}

std::string content_of(std::string_view spec) {
  return slice_content(json::parse({spec.data(), spec.size()}).get_object());
}

// Checklist 55, the body.
TEST(SliceCodec, CreateBodyIsWhatTheApiWants) {
  const WireSlice wire = encode_slice({{numa_device("cpudevnuma000", 62)}}, {}, std::nullopt);
  const std::string body = create_body({"dra.cpu", "worker-1", "node-uid", 1, 1}, 0, wire);
  EXPECT_EQ(json::parse(body), json::parse(
                                   R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice",
     "metadata":{"generateName":"00000-dra.cpu-worker-1-",
      "ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"worker-1","uid":"node-uid","controller":true}]},
     "spec":{"driver":"dra.cpu","nodeName":"worker-1",
      "pool":{"name":"worker-1","generation":1,"resourceSliceCount":1},
      "devices":[{"name":"cpudevnuma000","allowMultipleAllocations":true,
       "attributes":{"dra.cpu/cpuIDs":{"string":"0-61"},"dra.cpu/smtEnabled":{"bool":true},
         "resource.kubernetes.io/numaNode":{"int":0},"resource.kubernetes.io/pcieRoot":{"strings":["pci0000:00"]}},
       "capacity":{"dra.cpu/cpu":{"value":"62"}}}]}})"));
}

TEST(SliceCodec, CapacitiesInBytesSayWhatMayBeAskedFor) {
  device::Device d;
  d.name = "memory-numa000";
  d.allow_multiple_allocations = true;
  d.capacity = {{"size", 33332322304}, {"plain", 1024}};
  d.byte_ranges = {{"size", {.fallback = 1 << 20, .min = 4096, .step = 4096, .max = 33332322304}}};
  const WireSlice stepped = encode_slice({{d}}, {}, std::nullopt);
  EXPECT_EQ(json::parse(stepped.devices),
            json::parse(R"([{"name":"memory-numa000","allowMultipleAllocations":true,
    "capacity":{"plain":{"value":"1024"},"size":{"value":"32551096Ki","requestPolicy":{"default":"1Mi",
     "validRange":{"min":"4Ki","step":"4Ki","max":"32551096Ki"}}}}}])"));
  d.byte_ranges.at("size").step.reset();
  const WireSlice single = encode_slice({{d}}, {}, std::nullopt);
  EXPECT_EQ(single.devices.find("step"), std::string::npos);
  EXPECT_NE(single.content, stepped.content);
}

TEST(SliceCodec, DevicesMapTheirOwnResources) {
  device::Device d = numa_device("cpudevnuma000", 4);
  d.capacity.emplace("dra.memory/memory", 1 << 20);
  d.node_allocatable = {{"memory", "dra.memory/memory"}};
  const auto mapped = [&](int minor, const std::optional<AllocatableMapping>& all) {
    const WireSlice wire = encode_slice({{d}}, SliceFeatures::of_minor(minor), all);
    EXPECT_EQ(wire.mapping_left_out, minor < 36);
    const json::value devices = json::parse(wire.devices);
    const json::object& item = devices.at(0).as_object();
    const json::value* found = item.if_contains("nodeAllocatableResources");
    if (found == nullptr) found = item.if_contains("nodeAllocatableResourceMappings");
    EXPECT_EQ(wire.has_mapping, found != nullptr);
    return found == nullptr ? json::value(nullptr) : *found;
  };
  EXPECT_EQ(
      mapped(37, std::nullopt),
      json::parse(R"({"memory":{"mapping":{"capacityKey":"dra.memory/memory","capacityMultiplier":"1"}}})"));
  EXPECT_EQ(mapped(36, std::nullopt),
            json::parse(R"({"memory":{"capacityKey":"dra.memory/memory","allocationMultiplier":"1"}})"));
  EXPECT_EQ(mapped(37, AllocatableMapping{"cpu", "dra.cpu/cpu"}),
            json::parse(R"({"cpu":{"mapping":{"capacityKey":"dra.cpu/cpu","capacityMultiplier":"1"}},
                            "memory":{"mapping":{"capacityKey":"dra.memory/memory","capacityMultiplier":"1"}}})"));
  EXPECT_TRUE(mapped(35, std::nullopt).is_null());
}

TEST(SliceCodec, NamesCarryTheIndexInHex) {
  EXPECT_EQ(index_prefix(0, 1), "00000");
  EXPECT_EQ(index_prefix(26, 27), "0001a");
  EXPECT_EQ(index_prefix(1, 0x100001), "000001");
}

TEST(SliceCodec, LeavesOutWhatTheServerCannotTake) {
  const AllocatableMapping mapping{"cpu", "dra.cpu/cpu"};
  device::Device single;
  single.name = "cpudev000";
  const device::Slice slice{{numa_device("a", 4), single}};
  struct Case {
    int minor;
    bool lists;
    const char* has;  // text in the devices, or nullptr
  };
  for (
      const Case& c : std::initializer_list<Case>{
          {34, false, nullptr},
          {35, false, nullptr},
          {36, true,
           R"("nodeAllocatableResourceMappings":{"cpu":{"capacityKey":"dra.cpu/cpu","allocationMultiplier":"1"}})"},
          {37, true,
           R"("nodeAllocatableResources":{"cpu":{"mapping":{"capacityKey":"dra.cpu/cpu","capacityMultiplier":"1"}}})"},
      }) {
    SCOPED_TRACE(c.minor);
    const WireSlice wire = encode_slice(slice, SliceFeatures::of_minor(c.minor), mapping);
    EXPECT_EQ(wire.has_lists, c.lists);
    EXPECT_EQ(wire.lists_left_out, !c.lists);
    EXPECT_EQ(wire.devices.find("pcieRoot") != std::string::npos, c.lists);
    EXPECT_EQ(wire.has_mapping, c.has != nullptr);
    EXPECT_EQ(wire.mapping_left_out, c.has == nullptr);
    if (c.has != nullptr) {
      EXPECT_NE(wire.devices.find(c.has), std::string::npos) << wire.devices;
    }
  }
  const WireSlice wire = encode_slice(slice, SliceFeatures::of_minor(37), mapping);
  EXPECT_NE(wire.devices.find(R"({"cpu":{"mapping":{"deviceMultiplier":"1"}}})"), std::string::npos);
}

TEST(SliceCodec, EmptyListsAreNotSent) {
  device::Device d;
  d.name = "x";
  d.attributes = {{"a", std::vector<std::string>{}}};
  const WireSlice wire = encode_slice({{d}}, {}, std::nullopt);
  EXPECT_EQ(wire.devices, R"([{"name":"x"}])");
  EXPECT_FALSE(wire.has_lists);
}

// Checklist 58 and 63, the comparison.
TEST(SliceContent, ComparesByMeaning) {
  struct Case {
    const char* about;
    const char* a;
    const char* b;
    bool same;
  };
  for (
      const Case& c : std::initializer_list<Case>{
          {"quantities by value", R"({"devices":[{"name":"d","capacity":{"c":{"value":"1000"}}}]})",
           R"({"devices":[{"name":"d","capacity":{"c":{"value":"1k"}}}]})", true},
          {"other value", R"({"devices":[{"name":"d","capacity":{"c":{"value":"1000"}}}]})",
           R"({"devices":[{"name":"d","capacity":{"c":{"value":"1Ki"}}}]})", false},
          {"policies by value",
           R"({"devices":[{"capacity":{"c":{"value":"1","requestPolicy":{"validValues":["1","2k"]}}}}]})",
           R"({"devices":[{"capacity":{"c":{"value":"1","requestPolicy":{"validValues":["1000m","2000"]}}}}]})",
           true},
          {"a policy counts", R"({"devices":[{"capacity":{"c":{"value":"1"}}}]})",
           R"({"devices":[{"capacity":{"c":{"value":"1","requestPolicy":{"default":"1"}}}}]})", false},
          {"null and empty are absent", R"({"devices":[{"name":"d"}]})",
           R"({"devices":[{"name":"d","attributes":null,"taints":[],"capacity":{}}],"sharedCounters":null})",
           true},
          {"key order", R"({"devices":[{"name":"d","attributes":{"a":{"int":1},"b":{"int":2}}}]})",
           R"({"devices":[{"attributes":{"b":{"int":2},"a":{"int":1}},"name":"d"}]})", true},
          {"device order", R"({"devices":[{"name":"a"},{"name":"b"}]})",
           R"({"devices":[{"name":"b"},{"name":"a"}]})", false},
          {"false flag is absent", R"({"devices":[{"name":"a","allowMultipleAllocations":false}]})",
           R"({"devices":[{"name":"a"}]})", true},
          {"a false attribute is not absent", R"({"devices":[{"attributes":{"a":{"bool":false}}}]})",
           R"({"devices":[{"attributes":{}}]})", false},
          {"a text that looks like a quantity", R"({"devices":[{"attributes":{"value":{"string":"1000"}}}]})",
           R"({"devices":[{"attributes":{"value":{"string":"1k"}}}]})", false},
          {"empty text attribute", R"({"devices":[{"attributes":{"a":{"string":""}}}]})",
           R"({"devices":[{"attributes":{}}]})", false},
          {"a foreign taint", R"({"devices":[{"name":"a"}]})",
           R"({"devices":[{"name":"a","taints":[{"key":"k","effect":"NoSchedule"}]}]})", false},
          {"an unknown field", R"({"devices":[{"name":"a"}]})", R"({"devices":[{"name":"a","newThing":1}]})",
           false},
          {"pool, driver and node are not content",
           R"({"driver":"a","nodeName":"n","pool":{"generation":1}})",
           R"({"driver":"b","nodeName":"m","pool":{"generation":2}})", true},
      }) {
    SCOPED_TRACE(c.about);
    EXPECT_EQ(content_of(c.a) == content_of(c.b), c.same) << content_of(c.a) << "\n" << content_of(c.b);
  }
}

TEST(SliceCodec, ReadsBackWhatItWrote) {
  const WireSlice wire = encode_slice({{numa_device("d", 1000)}}, {}, std::nullopt);
  json::value body = json::parse(create_body({"dra.cpu", "w", "nu", 3, 2}, 1, wire));
  json::object& metadata = body.at("metadata").get_object();
  metadata["name"] = "00001-dra.cpu-w-abcde";
  metadata["uid"] = "u";
  metadata["resourceVersion"] = "7";
  metadata["labels"] = {{"k", "v"}};
  metadata["managedFields"] = json::array{1, 2};
  const Result<ServerSlice> got = parse_slice(json::serialize(body));
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->content, wire.content);
  EXPECT_EQ(got->name, "00001-dra.cpu-w-abcde");
  EXPECT_EQ(got->uid, "u");
  EXPECT_EQ(got->resource_version, "7");
  EXPECT_EQ(got->driver, "dra.cpu");
  EXPECT_EQ(got->node, "w");
  EXPECT_EQ(got->pool, "w");
  EXPECT_EQ(got->generation, 3);
  EXPECT_EQ(got->count, 2);
  EXPECT_EQ(got->node_owner, "nu");

  const json::value update = json::parse(update_body({"dra.cpu", "w", "nu2", 4, 2}, *got, wire));
  const json::object& kept = update.at("metadata").get_object();
  EXPECT_EQ(kept.at("labels"), json::value({{"k", "v"}}));
  EXPECT_EQ(kept.at("resourceVersion").get_string(), "7");
  EXPECT_FALSE(kept.contains("managedFields"));
  ASSERT_EQ(kept.at("ownerReferences").get_array().size(), 1U);
  EXPECT_EQ(kept.at("ownerReferences").get_array()[0].at("uid").get_string(), "nu2");
  EXPECT_EQ(update.at("spec").at("pool").at("generation").to_number<int>(), 4);
}

TEST(SliceCodec, ReadsListsAndWatchLines) {
  const std::string item =
      R"({"metadata":{"name":"n","uid":"u","resourceVersion":"5"},"spec":{"driver":"d","nodeName":"w","pool":{"name":"w"}}})";
  const Result<SliceList> list = parse_slice_list(
      fmt::format(R"({{"metadata":{{"resourceVersion":"9","continue":"c"}},"items":[{}]}})", item));
  ASSERT_TRUE(list.ok()) << list.error().text;
  EXPECT_EQ(list->items.size(), 1U);
  EXPECT_EQ(list->resource_version, "9");
  EXPECT_EQ(list->continue_token, "c");
  EXPECT_TRUE(parse_slice_list(R"({"metadata":{"resourceVersion":"9"},"items":null})").ok());

  const Result<WatchEvent> added = parse_watch_line(fmt::format(R"({{"type":"ADDED","object":{}}})", item));
  ASSERT_TRUE(added.ok());
  EXPECT_EQ(added->type, WatchEvent::Type::kAdded);
  EXPECT_EQ(added->resource_version, "5");
  const Result<WatchEvent> mark =
      parse_watch_line(R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}})");
  EXPECT_EQ(mark->resource_version, "12");
  EXPECT_FALSE(mark->slice);
  const Result<WatchEvent> gone = parse_watch_line(
      R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"old"}})");
  EXPECT_EQ(gone->error.code, 410);
  EXPECT_EQ(parse_watch_line(R"({"type":"NEW","object":{}})")->type, WatchEvent::Type::kUnknown);
}

TEST(SliceCodec, RefusesWhatIsNotASlice) {
  for (const char* text :
       {"", "[]", "{}", R"({"metadata":{"name":"n"}})", R"({"metadata":{"name":1,"uid":"u"}})",
        R"({"metadata":{"name":"n","uid":"u"},"spec":{"pool":{"generation":"1"}}})",
        R"({"metadata":{"name":"n","uid":"u","ownerReferences":[1]}})"}) {
    SCOPED_TRACE(text);
    ASSERT_FALSE(parse_slice(text).ok());
    EXPECT_EQ(parse_slice(text).error().code, Errc::kCorrupt);
    EXPECT_FALSE(parse_slice_list(fmt::format(R"({{"items":[{}]}})", text)).ok());
    EXPECT_FALSE(parse_watch_line(fmt::format(R"({{"type":"ADDED","object":{}}})", text)).ok());
  }
  EXPECT_FALSE(parse_watch_line("{\"type\":\"ADDED\"}").ok());
  EXPECT_FALSE(parse_node_uid("{}").ok());
  EXPECT_EQ(*parse_node_uid(R"({"metadata":{"uid":"x"}})"), "x");
  EXPECT_EQ(*parse_server_minor(R"({"minor":"34+"})"), 34);
  EXPECT_EQ(*parse_server_minor(R"({"minor":"37"})"), 37);
  EXPECT_FALSE(parse_server_minor(R"({"minor":""})").ok());
}

// Checklist 69.
TEST(SliceCodec, ADeviceNameComesOnceInThePool) {
  EXPECT_TRUE(check_pool({{{numa_device("a", 1)}}, {{numa_device("b", 1)}}}).ok());
  const Status twice = check_pool({{{numa_device("a", 1)}}, {{numa_device("a", 1)}}});
  ASSERT_FALSE(twice.ok());
  EXPECT_NE(twice.error().text.find("pool validation failed"), std::string::npos);
}

// Checklist 70, the naming of gates.
TEST(DescribeDropped, NamesTheGate) {
  struct Case {
    const char* sent;
    const char* received;
    const char* says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {R"({"taints":[{"key":"k"}]})", R"({})", "DRADeviceTaints"},
           {R"({"consumesCounters":[{"counterSet":"c"}]})", R"({})", "DRAPartitionableDevices"},
           {R"({"bindingConditions":["a"]})", R"({})", "DRADeviceBindingConditions"},
           {R"({"allowMultipleAllocations":true})", R"({})", "DRAConsumableCapacity"},
           {R"({"nodeAllocatableResources":{"cpu":{}}})", R"({})", "DRANodeAllocatableResources"},
           {R"({"attributes":{"a":{"int":1}}})", R"({})", "unknown"},
       }) {
    SCOPED_TRACE(c.sent);
    const std::string text = describe_dropped(fmt::format(R"({{"spec":{{"devices":[{}]}}}})", c.sent),
                                              fmt::format(R"({{"spec":{{"devices":[{}]}}}})", c.received));
    EXPECT_NE(text.find(c.says), std::string::npos) << text;
  }
  EXPECT_NE(
      describe_dropped(R"({"spec":{"sharedCounters":[{}]}})", R"({"spec":{}})").find("DRAPartitionable"),
      std::string::npos);
}

}  // namespace
}  // namespace dracpu::kube
