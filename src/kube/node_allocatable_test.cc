// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/node_allocatable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dracpu::kube {
namespace {

using ::testing::HasSubstr;

TEST(Allocatable, IsReadFromTheNodesStatus) {
  const Result<Quantity> got =
      parse_allocatable(R"({"status":{"allocatable":{"cpu":"4","memory":"32551096Ki"}}})", "memory");
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->to_int64(), std::int64_t{32551096} * 1024);
  struct Case {
    const char* json;
    const char* says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"[]", ""},
           {"{}", "status.allocatable.memory: expected a quantity"},
           {R"({"status":{"allocatable":{"cpu":"4"}}})", "status.allocatable.memory: expected a quantity"},
           {R"({"status":{"allocatable":3}})", "status.allocatable: expected an object"},
           {R"({"status":{"allocatable":{"memory":"much"}}})",
            "status.allocatable.memory: quantity \"much\""}}) {
    const Result<Quantity> bad = parse_allocatable(c.json, "memory");
    ASSERT_FALSE(bad.ok()) << c.json;
    EXPECT_EQ(bad.error().code, Errc::kCorrupt) << c.json;
    EXPECT_THAT(bad.error().text, HasSubstr(c.says));
  }
}

}  // namespace
}  // namespace dracpu::kube
