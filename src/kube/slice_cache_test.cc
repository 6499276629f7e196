// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/slice_cache.h"

#include <gtest/gtest.h>

#include "kube/backoff.h"

namespace dracpu::kube {
namespace {

using Change = SliceCache::Change;
using std::chrono::milliseconds;
using std::chrono::seconds;

ServerSlice slice(const std::string& name, const std::string& version, const std::string& uid = "") {
  ServerSlice s;
  s.name = name;
  s.uid = uid.empty() ? "uid-" + name : uid;
  s.resource_version = version;
  s.driver = "d";
  s.node = "n";
  return s;
}

WatchEvent event(WatchEvent::Type type, ServerSlice s) {
  WatchEvent e;
  e.type = type;
  e.resource_version = s.resource_version;
  e.slice = std::move(s);
  return e;
}

constexpr WatchEvent::Type kAdded = WatchEvent::Type::kAdded;
constexpr WatchEvent::Type kModified = WatchEvent::Type::kModified;
constexpr WatchEvent::Type kDeleted = WatchEvent::Type::kDeleted;

TEST(SliceCache, OwnWritesAreNoNews) {
  SliceCache cache("d", "n");
  cache.written(slice("a", "10"));
  EXPECT_EQ(cache.apply(event(kAdded, slice("a", "10"))), Change::kNone);
  EXPECT_EQ(cache.apply(event(kModified, slice("a", "9"))), Change::kNone);
  EXPECT_EQ(cache.apply(event(kModified, slice("a", "11"))), Change::kChanged);
  cache.written(slice("a", "10"));  // the answer came after the watch
  EXPECT_EQ(cache.all().at(0).resource_version, "11");
  cache.deleted(slice("a", "11"));
  EXPECT_EQ(cache.size(), 0U);
  EXPECT_EQ(cache.apply(event(kModified, slice("a", "11"))), Change::kNone);
  EXPECT_EQ(cache.apply(event(kDeleted, slice("a", "12"))), Change::kNone);
  EXPECT_EQ(cache.size(), 0U);
}

TEST(SliceCache, AnAnswerThatComesAfterTheEndMakesNoGhost) {
  SliceCache cache("d", "n");
  cache.apply(event(kAdded, slice("a", "10")));
  EXPECT_EQ(cache.apply(event(kDeleted, slice("a", "11"))), Change::kVanished);
  cache.written(slice("a", "10"));
  EXPECT_EQ(cache.size(), 0U);
  EXPECT_EQ(cache.apply(event(kDeleted, slice("a", "12", "other"))), Change::kNone);
}

TEST(SliceCache, ForeignSlicesAreNeverOurs) {
  SliceCache cache("d", "n");
  ServerSlice other = slice("a", "1");
  other.driver = "gpu";
  ServerSlice elsewhere = slice("b", "1");
  elsewhere.node = "m";
  cache.replace({{other, elsewhere, slice("c", "1")}, "5", ""});
  EXPECT_EQ(cache.size(), 1U);
  EXPECT_EQ(cache.apply(event(kAdded, other)), Change::kNone);
}

TEST(SliceCache, AListMissesOnlyWhatIsOlder) {
  SliceCache cache("d", "n");
  cache.written(slice("new", "20"));
  cache.written(slice("gone", "3"));
  EXPECT_EQ(cache.replace({{slice("a", "4")}, "15", ""}), Change::kVanished);
  ASSERT_EQ(cache.size(), 2U);
  EXPECT_EQ(cache.all()[1].name, "new");
  cache.deleted(slice("a", "4"));
  EXPECT_EQ(cache.replace({{slice("a", "4"), slice("new", "20")}, "21", ""}), Change::kChanged);
  EXPECT_EQ(cache.size(), 1U) << "we deleted it, the list is older";
}

TEST(SliceCache, OpaqueVersionsCompareByEquality) {
  SliceCache cache("d", "n");
  cache.written(slice("a", "x1"));
  EXPECT_EQ(cache.apply(event(kAdded, slice("a", "x1"))), Change::kNone);
  EXPECT_EQ(cache.apply(event(kModified, slice("a", "x2"))), Change::kChanged);
  EXPECT_EQ(cache.replace({{}, "x3", ""}), Change::kVanished);
  EXPECT_EQ(cache.size(), 0U);
}

TEST(Backoff, DoublesUpToTheCap) {
  Backoff b(milliseconds(200), milliseconds(1000));
  for (const int base : {200, 400, 800, 1000, 1000}) {
    const auto got = b.next();
    EXPECT_GE(got, milliseconds(base * 8 / 10));
    EXPECT_LE(got, milliseconds(base * 12 / 10));
  }
  b.reset();
  EXPECT_LE(b.next(), milliseconds(240));
}

TEST(WriteBudget, FiveThenOneInFiveSeconds) {
  WriteBudget budget(5, seconds(5));
  const auto t0 = WriteBudget::Clock::now();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(budget.wait(t0).count(), 0);
    budget.pay(1, t0);
  }
  EXPECT_EQ(budget.wait(t0), seconds(5));
  EXPECT_EQ(budget.wait(t0 + seconds(2)), seconds(3));
  EXPECT_EQ(budget.wait(t0 + seconds(5)).count(), 0);
  budget.pay(1, t0 + seconds(5));
  EXPECT_EQ(budget.wait(t0 + seconds(5)), seconds(5));
  EXPECT_EQ(budget.wait(t0 + seconds(1000)).count(), 0);
  budget.pay(8, t0 + seconds(1000));  // done whole, three owed
  EXPECT_EQ(budget.wait(t0 + seconds(1000)), seconds(20));
  budget.fill();
  EXPECT_EQ(budget.wait(t0 + seconds(1000)).count(), 0);
}

}  // namespace
}  // namespace dracpu::kube
