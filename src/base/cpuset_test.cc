// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/cpuset.h"

#include <gtest/gtest.h>

namespace dracpu {
namespace {

TEST(CpuSetParse, Accepts) {
  struct Case {
    const char* about;
    const char* text;
    const char* canonical;
    std::size_t count;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"an empty text is the empty set", "", "", 0},
           {"a single CPU", "7", "7", 1},
           {"ranges and singles, as the kernel prints them", "0-3,8,10-11", "0-3,8,10-11", 7},
           {"a run of two is a range", "0,1", "0-1", 2},
           {"overlap counts once", "0-3,2-5", "0-5", 6},
           {"any order", "8,0-1", "0-1,8", 3},
           {"a range of one", "4-4", "4", 1},
           {"leading zeros are decimal, not octal", "010", "10", 1},
           {"word borders", "62-65,127-128", "62-65,127-128", 6},
           {"the largest number", "65535", "65535", 1},
       }) {
    SCOPED_TRACE(c.about);
    const Result<CpuSet> got = CpuSet::parse(c.text);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(got->size(), c.count);
    EXPECT_EQ(got->to_string(), c.canonical);
  }
}

TEST(CpuSetParse, Refuses) {
  for (const char* text : {"x", "-", "1-", "3-1", ",", "1,", "1,,2", " 1", "1 ", "0-99999", "65536",
                           "4294967296", "+1", "1-2-3", "0x1", "1;2", "1-2,x"}) {
    SCOPED_TRACE(text);
    const Result<CpuSet> got = CpuSet::parse(text);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::kInvalidInput);
    EXPECT_NE(got.error().text.find("offset"), std::string::npos);
  }
}

TEST(CpuSetParseMask, AcceptsAndRefuses) {
  struct Case {
    const char* mask;
    const char* list;
  };
  for (const Case& c : std::initializer_list<Case>{{"", ""},
                                                   {"0", ""},
                                                   {"f", "0-3"},
                                                   {"00000001,00000000", "32"},
                                                   {"ff,00000000,0000000f", "0-3,64-71"},
                                                   {"80000000", "31"}}) {
    SCOPED_TRACE(c.mask);
    const Result<CpuSet> got = CpuSet::parse_mask(c.mask);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(got->to_string(), c.list);
  }
  for (const char* mask : {"g", ",", "1,", ",1", "123456789", "0x1", "1 "}) {
    SCOPED_TRACE(mask);
    EXPECT_FALSE(CpuSet::parse_mask(mask).ok());
  }
}

TEST(CpuSet, SetOperationsKeepEqualityByValue) {
  const CpuSet a{0, 1, 2, 200};
  const CpuSet b{1, 2, 3};
  EXPECT_EQ((a | b).to_string(), "0-3,200");
  EXPECT_EQ((a & b).to_string(), "1-2");
  EXPECT_EQ((a - b).to_string(), "0,200");
  EXPECT_EQ(a - CpuSet{200}, (CpuSet{0, 1, 2})) << "no trailing zero words";
  EXPECT_TRUE((CpuSet{1, 2}).is_subset_of(a));
  EXPECT_FALSE(b.is_subset_of(a));
  EXPECT_TRUE(a.intersects(b));
  EXPECT_FALSE((CpuSet{5}).intersects(a));
  EXPECT_TRUE((a & CpuSet{5}).empty());
}

TEST(CpuSet, FirstLastLowest) {
  const CpuSet a{5, 70, 3, 128};
  EXPECT_EQ(a.first()->get(), 3U);
  EXPECT_EQ(a.last()->get(), 128U);
  EXPECT_EQ(a.lowest(2).to_string(), "3,5");
  EXPECT_EQ(a.lowest(9), a);
  EXPECT_FALSE(CpuSet{}.first().has_value());
  EXPECT_FALSE(CpuSet{}.last().has_value());
  CpuSet b = a;
  b.erase(CpuId(128));
  b.erase(CpuId(4000));
  EXPECT_EQ(b.to_string(), "3,5,70");
  EXPECT_FALSE(b.contains(CpuId(128)));
}

TEST(CpuSet, GrowsBeyondWhatLiesInPlaceAndShrinksAgain) {
  CpuSet set{0, 1023};
  set.insert(CpuId(1024));
  set.insert(CpuId(5000));
  EXPECT_EQ(set.to_string(), "0,1023-1024,5000");
  const CpuSet copy = set;
  set.erase(CpuId(5000));
  set.erase(CpuId(1024));
  EXPECT_EQ(set, (CpuSet{0, 1023})) << "equal by value, wherever the words lie";
  EXPECT_LT(set, copy);
  EXPECT_EQ(set <=> CpuSet({0, 1023}), std::strong_ordering::equal);
  set |= copy;
  EXPECT_EQ(set, copy);
  set -= copy;
  EXPECT_TRUE(set.empty());
  set.insert(CpuId(70));
  EXPECT_EQ(set.to_string(), "70") << "what was there before is gone";
  set &= copy;
  EXPECT_TRUE(set.empty());
  set.clear();
  set.insert(CpuId(2000));
  EXPECT_EQ(set.to_string(), "2000");
}

}  // namespace
}  // namespace dracpu
