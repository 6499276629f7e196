// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/types.h"

#include <gtest/gtest.h>

#include "memory/test_amounts.h"

namespace dracpu::memory {
namespace {

TEST(Kinds, HaveOneSpellingEverywhere) {
  struct Case {
    Kind kind;
    const char* resource;
    const char* variable;
    const char* device;
    const char* device_class;
    const char* runtime;
  };
  for (const Case& c : std::initializer_list<Case>{
           {Kind(), "memory", "memory", "memory-numa001", "dra.memory", nullptr},
           {kind(64_KiB), "hugepages-64Ki", "hugepages_64Ki", "hugepages-64ki-numa001", "dra.hugepages-64k",
            "64KB"},
           {kind(2_MiB), "hugepages-2Mi", "hugepages_2Mi", "hugepages-2mi-numa001", "dra.hugepages-2m",
            "2MB"},
           {kind(32_MiB), "hugepages-32Mi", "hugepages_32Mi", "hugepages-32mi-numa001", "dra.hugepages-32m",
            "32MB"},
           {kind(1_GiB), "hugepages-1Gi", "hugepages_1Gi", "hugepages-1gi-numa001", "dra.hugepages-1g",
            "1GB"},
           {kind(16_GiB), "hugepages-16Gi", "hugepages_16Gi", "hugepages-16gi-numa001", "dra.hugepages-16g",
            "16GB"},
       }) {
    SCOPED_TRACE(c.resource);
    EXPECT_EQ(resource_name(c.kind), c.resource);
    EXPECT_EQ(kind_of_resource(c.resource), c.kind);
    EXPECT_EQ(variable_name(c.kind), c.variable);
    EXPECT_EQ(kind_of_variable(c.variable), c.kind);
    EXPECT_EQ(device_name(c.kind, NumaNodeId(1)), c.device);
    EXPECT_EQ(class_name(c.kind), c.device_class);
    EXPECT_EQ(kind_of_class(c.device_class), c.kind);
    if (c.runtime != nullptr) {
      EXPECT_EQ(runtime_page_size(c.kind.page()), c.runtime);
    }
  }
  EXPECT_EQ(device_name(Kind(), NumaNodeId(1234)), "memory-numa1234");
  EXPECT_EQ(combined_key(kind(2_MiB)), "dra.memory/hugepages_2Mi");
  EXPECT_TRUE(is_combined_key("dra.memory/hugepages_2Mi") && is_combined_key("dra.memory/later"));
  EXPECT_FALSE(is_combined_key("size") || is_combined_key("dra.memory") || is_combined_key("dra.cpu/cpu"));
}

TEST(Kinds, OtherSpellingsAreNone) {
  for (const char* name :
       {"", "Memory", "memory ", "ram", "hugepages", "hugepages-", "hugepages-2M", "hugepages-2mi",
        "hugepages-2048Ki", "hugepages-3Mi", "hugepages-0", "hugepages--2Mi", "hugepages_2Mi",
        "hugepages-2e6", "hugepages-+2Mi", "hugepages-2.0Mi", "hugepages-99999999Ei"}) {
    EXPECT_FALSE(kind_of_resource(name).has_value()) << name;
  }
  EXPECT_FALSE(kind_of_variable("hugepages-2Mi").has_value());
  for (const char* name : {"", "dra.cpu", "memory", "dra.hugepages-", "dra.hugepages-2M", "dra.hugepages-2mi",
                           "dra.hugepages-3m", "dra.hugepages-2"}) {
    EXPECT_FALSE(kind_of_class(name).has_value()) << name;
  }
}

TEST(Kinds, ComeInPublishedOrder) {
  EXPECT_LT(Kind(), kind(64_KiB));
  EXPECT_LT(kind(2_MiB), kind(1_GiB));
}

TEST(BytesOf, SumsStopAtTheirEnds) {
  constexpr Bytes kMost{UINT64_MAX};
  EXPECT_EQ(kMost + Bytes{1}, kMost);
  EXPECT_EQ(Bytes{1} - Bytes{2}, Bytes{});
  EXPECT_EQ(text_of(1_GiB + 512_MiB), "1536Mi");
  EXPECT_EQ(text_of(Bytes{1000000000}), "1000000000");
  EXPECT_EQ(text_of(kMost), "18446744073709551615");
  EXPECT_TRUE(is_multiple(4_MiB, 2_MiB));
  EXPECT_FALSE(is_multiple(3_MiB, 2_MiB));
  EXPECT_FALSE(is_multiple(3_MiB, Bytes{}));
}

TEST(NodeLists, AreThoseOfTheKernel) {
  const std::set<NumaNodeId> nodes{NumaNodeId(0), NumaNodeId(1), NumaNodeId(4)};
  EXPECT_EQ(list_of(nodes), "0-1,4");
  EXPECT_EQ(nodes_in_list("4,0,1"), nodes);
  EXPECT_EQ(nodes_in_list(""), std::set<NumaNodeId>());
  EXPECT_FALSE(nodes_in_list("x").has_value());
}

TEST(AmountsOf, AddUpPerKind) {
  const Amounts amounts =
      amounts_on({{kind(2_MiB), 0, 64_MiB}, {kind(2_MiB), 1, 32_MiB}, {Kind(), 3, 1_GiB}});
  EXPECT_EQ(total_of(amounts, kind(2_MiB)), 96_MiB);
  EXPECT_EQ(total_of(amounts, kind(1_GiB)), Bytes{});
  EXPECT_EQ(list_of(nodes_of(amounts)), "0-1,3");
}

}  // namespace
}  // namespace dracpu::memory
