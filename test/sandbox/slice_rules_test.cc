// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "slice_rules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <string>

#include "base/strings.h"

namespace dracpu::sandbox {
namespace {

namespace json = boost::json;

constexpr const char* kGood = R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice",
  "spec":{"driver":"dra.cpu","nodeName":"n","pool":{"name":"n","generation":1,"resourceSliceCount":1},
  "devices":[{"name":"cpudevnuma000","allowMultipleAllocations":true,
  "attributes":{"resource.kubernetes.io/numaNode":{"int":0},"dra.cpu/cpuIDs":{"string":"0-3"}},
  "capacity":{"dra.cpu/cpu":{"value":"4","requestPolicy":{"default":"1","validRange":{"min":"1","step":"1"}}}}}]}})";

// The good slice with one value set; "~" in a part of the pointer stands for "/".
json::object slice_with(std::string_view pointer, std::string_view value) {
  json::value whole = json::parse(kGood);
  json::value* at = &whole;
  for (const std::string_view part : split(pointer.substr(1), '/')) {
    std::string key(part);
    std::replace(key.begin(), key.end(), '~', '/');
    at = at->is_array() ? &at->get_array()[std::stoul(key)] : &at->get_object()[key];
    if (at->is_null()) at->emplace_object();
  }
  *at = json::parse(value);
  return whole.get_object();
}

TEST(SliceRules, AcceptsWhatTheDriverPublishes) {
  const json::value v = json::parse(kGood);
  EXPECT_TRUE(check_slice({}, v.get_object()).empty());
}

TEST(SliceRules, Refuses) {
  struct Case {
    const char* about;
    const char* pointer;
    const char* value;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"two node selections", "/spec/allNodes", "true"},
           {"empty node name", "/spec/nodeName", "\"\""},
           {"no slices in the pool", "/spec/pool/resourceSliceCount", "0"},
           {"negative generation", "/spec/pool/generation", "-1"},
           {"driver name with a slash", "/spec/driver", "\"dra/cpu\""},
           {"device name with a dot", "/spec/devices/0/name", "\"cpu.0\""},
           {"attribute without value", "/spec/devices/0/attributes/dra.cpu~cpuIDs", "{}"},
           {"attribute with two values", "/spec/devices/0/attributes/dra.cpu~cpuIDs",
            R"({"int":1,"bool":true})"},
           {"text over 64 bytes", "/spec/devices/0/attributes/dra.cpu~cpuIDs/string",
            "\"0123456789012345678901234567890123456789012345678901234567890123456789\""},
           {"attribute name with a dash", "/spec/devices/0/attributes/dra.cpu~a-b", R"({"int":1})"},
           {"policy without sharing", "/spec/devices/0/allowMultipleAllocations", "false"},
           {"step that does not fit the value", "/spec/devices/0/capacity/dra.cpu~cpu/value", "\"1\""},
           {"capacity that is no amount", "/spec/devices/0/capacity/dra.cpu~cpu/value", "\"four\""},
           {"mapping without multiplier", "/spec/devices/0/nodeAllocatableResources",
            R"({"cpu":{"mapping":{"capacityKey":"dra.cpu/cpu"}}})"},
       }) {
    SCOPED_TRACE(c.about);
    EXPECT_FALSE(check_slice({}, slice_with(c.pointer, c.value)).empty());
  }
}

TEST(SliceRules, TooManyDevicesIsTheOnlyErrorReported) {
  json::object slice = slice_with("/spec/driver", "\"bad/driver\"");
  json::array& devices = slice["spec"].get_object()["devices"].get_array();
  const json::value device = devices[0];
  while (devices.size() < 129) devices.push_back(device);
  const std::vector<Cause> causes = check_slice({}, slice);
  ASSERT_EQ(causes.size(), 1U);
  EXPECT_EQ(causes[0].field, "spec.devices");
}

TEST(SliceRules, AClosedGateLeavesAListAttributeWithoutValue) {
  json::object slice =
      slice_with("/spec/devices/0/attributes/dra.cpu~roots", R"({"strings":["pci0000:00"]})");
  json::object open = slice;
  EXPECT_TRUE(drop_closed_fields({.list_attributes = true}, open).empty());
  EXPECT_TRUE(check_slice({}, open).empty());
  EXPECT_EQ(drop_closed_fields({}, slice), std::vector<std::string>{"strings"});
  EXPECT_FALSE(check_slice({}, slice).empty());
}

TEST(SliceRules, AmountsAsTheServerStoresThem) {
  for (const auto& [given, stored] : std::initializer_list<std::pair<const char*, const char*>>{
           {"1000", "1k"}, {"62", "62"}, {"1024Ki", "1Mi"}, {"1024", "1024"}, {"64000", "64k"}, {"0", "0"}}) {
    EXPECT_EQ(canonical_amount(given), stored);
  }
  EXPECT_EQ(parse_amount("2Ki"), 2048);
  EXPECT_EQ(parse_amount("2e3"), 2000);
  EXPECT_EQ(parse_amount("x"), std::nullopt);
}

}  // namespace
}  // namespace dracpu::sandbox
