// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/device_lookup.h"

#include <gtest/gtest.h>

namespace dracpu::kube {
namespace {

constexpr const char* kList = R"({"items":[
  {"spec":{"driver":"nic","pool":{"name":"n1"},"devices":[
    {"name":"a","attributes":{"resource.kubernetes.io/pcieRoot":{"string":"pci0000:00"},"x":{"int":1}}},
    {"name":"b","attributes":{"resource.kubernetes.io/pcieRoot":{"strings":["pci0000:80","pci0000:a0"]}}},
    {"name":"c"}]}},
  {"spec":{"driver":"nic","pool":{"name":"n2"},"devices":[
    {"name":"a","attributes":{"resource.kubernetes.io/pcieRoot":{"string":"pci0000:ff"}}}]}}]})";
constexpr const char* kRoot = "resource.kubernetes.io/pcieRoot";

TEST(DeviceLookup, FindsTheDeviceOfThePool) {
  EXPECT_EQ(find_attribute(kList, {"nic", "n1", "a"}, kRoot).value(), std::vector<std::string>{"pci0000:00"});
  EXPECT_EQ(find_attribute(kList, {"nic", "n2", "a"}, kRoot).value(), std::vector<std::string>{"pci0000:ff"});
  EXPECT_EQ(find_attribute(kList, {"nic", "n1", "b"}, kRoot).value(),
            (std::vector<std::string>{"pci0000:80", "pci0000:a0"}));
}

TEST(DeviceLookup, SaysWhatIsMissing) {
  struct Case {
    DeviceName device;
    const char* attribute;
    Errc code;
    const char* says;
  };
  for (const Case& c :
       std::initializer_list<Case>{{{"nic", "n1", "c"}, kRoot, Errc::kNotFound, "no attribute"},
                                   {{"nic", "n1", "a"}, "x", Errc::kNotFound, "no attribute"},
                                   {{"nic", "n3", "a"}, kRoot, Errc::kNotFound, "not published"},
                                   {{"gpu", "n1", "a"}, kRoot, Errc::kNotFound, "not published"}}) {
    const Result<std::vector<std::string>> got = find_attribute(kList, c.device, c.attribute);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, c.code);
    EXPECT_NE(got.error().text.find(c.says), std::string::npos) << got.error().text;
  }
  EXPECT_EQ(find_attribute("[]", {"nic", "n1", "a"}, kRoot).error().code, Errc::kCorrupt);
  EXPECT_EQ(find_attribute(R"({"items":3})", {"nic", "n1", "a"}, kRoot).error().code, Errc::kCorrupt);
}

}  // namespace
}  // namespace dracpu::kube
