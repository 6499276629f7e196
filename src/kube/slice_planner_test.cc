// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/slice_planner.h"

#include <gtest/gtest.h>

namespace dracpu::kube {
namespace {

struct Known {
  const char* name;
  const char* content;
  std::int64_t generation;
  std::int64_t count;
  const char* pool = "w";
  const char* owner = "nu";
};

ServerSlice server_slice(const Known& k) {
  ServerSlice s;
  s.name = k.name;
  s.uid = std::string("uid-") + k.name;
  s.resource_version = "1";
  s.driver = "dra.cpu";
  s.node = "w";
  s.pool = k.pool;
  s.generation = k.generation;
  s.count = k.count;
  s.content = k.content;
  s.node_owner = k.owner;
  return s;
}

std::string text_of(const SlicePlan& plan) {
  std::string out = "g" + std::to_string(plan.generation);
  for (const SliceAction& a : plan.actions) {
    if (a.kind == SliceAction::Kind::kDelete) out += " delete:" + a.known.name;
    if (a.kind == SliceAction::Kind::kUpdate) out += " put:" + a.known.name + "=" + std::to_string(a.index);
    if (a.kind == SliceAction::Kind::kCreate) out += " post:" + std::to_string(a.index);
  }
  return out;
}

TEST(PlanSlices, FollowsTheHelperRules) {
  struct Case {
    const char* about;
    std::vector<std::string> desired;
    std::vector<Known> known;
    const char* want;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"55 first publish", {"a"}, {}, "g1 post:0"},
           {"first publish of two", {"a", "b"}, {}, "g1 post:0 post:1"},
           {"57 unchanged", {"a"}, {{"00000-x", "a", 4, 1}}, "g4"},
           {"59 one of three changed",
            {"a", "B", "c"},
            {{"00000-x", "a", 2, 3}, {"00001-x", "b", 2, 3}, {"00002-x", "c", 2, 3}},
            "g2 put:00001-x=1"},
           {"60 two of three changed",
            {"A", "B", "c"},
            {{"00000-x", "a", 2, 3}, {"00001-x", "b", 2, 3}, {"00002-x", "c", 2, 3}},
            "g3 put:00000-x=0 put:00001-x=1 put:00002-x=2"},
           {"61 one added", {"a", "b"}, {{"00000-x", "a", 1, 1}}, "g2 put:00000-x=0 post:1"},
           {"62 two to one",
            {"a"},
            {{"00000-x", "a", 5, 2}, {"00001-x", "b", 5, 2}},
            "g5 delete:00001-x put:00000-x=0"},
           {"three to two",
            {"a", "b"},
            {{"00000-x", "a", 5, 3}, {"00001-x", "b", 5, 3}, {"00002-x", "c", 5, 3}},
            "g6 delete:00002-x put:00000-x=0 put:00001-x=1"},
           {"64 old-style name", {"a"}, {{"w-dra.cpu-abcde", "a", 3, 1}}, "g4 delete:w-dra.cpu-abcde post:0"},
           {"64 no dash", {"a"}, {{"slice", "a", 3, 1}}, "g4 delete:slice post:0"},
           {"64 prefix of another length", {"a"}, {{"000000-x", "a", 3, 1}}, "g4 delete:000000-x post:0"},
           {"64 prefix that is no hex number", {"a"}, {{"0000g-x", "a", 3, 1}}, "g4 delete:0000g-x post:0"},
           {"64 signed prefix", {"a"}, {{"-0001-x", "a", 3, 1}}, "g4 delete:-0001-x post:0"},
           {"65 duplicate, the right one stays",
            {"a"},
            {{"00000-x", "old", 1, 1}, {"00000-y", "a", 1, 1}},
            "g1 delete:00000-x"},
           {"65 duplicate, both right",
            {"a"},
            {{"00000-x", "a", 1, 1}, {"00000-y", "a", 1, 1}},
            "g1 delete:00000-y"},
           {"66 deleted by somebody", {"a", "b"}, {{"00000-x", "a", 1, 2}}, "g2 put:00000-x=0 post:1"},
           {"67 all deleted", {"a", "b"}, {}, "g1 post:0 post:1"},
           {"68 nothing desired", {}, {{"00000-x", "a", 1, 1}}, "g1 delete:00000-x"},
           {"68 another pool",
            {"a"},
            {{"00000-x", "a", 1, 1}, {"00000-y", "b", 9, 1, "old"}},
            "g1 delete:00000-y"},
           {"a higher generation of somebody",
            {"a", "b"},
            {{"00000-x", "a", 1, 2}, {"00001-x", "b", 7, 2}},
            "g8 delete:00000-x put:00001-x=1 post:0"},
           {"a wrong count", {"a"}, {{"00000-x", "a", 1, 2}}, "g1 put:00000-x=0"},
           {"node re-created", {"a"}, {{"00000-x", "a", 1, 1, "w", "old-uid"}}, "g1 put:00000-x=0"},
           {"no owner", {"a"}, {{"00000-x", "a", 1, 1, "w", ""}}, "g1 put:00000-x=0"},
           {"owners of two do not raise",
            {"a", "b"},
            {{"00000-x", "a", 1, 2, "w", "o"}, {"00001-x", "b", 1, 2, "w", "o"}},
            "g1 put:00000-x=0 put:00001-x=1"},
           {"an index in hex",
            {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a"},
            {{"0000a-x", "a", 1, 11}},
            "g2 put:0000a-x=10 post:0 post:1 post:2 post:3 post:4 post:5 post:6 post:7 post:8 post:9"},
       }) {
    SCOPED_TRACE(c.about);
    std::vector<DesiredSlice> desired;
    for (const std::string& content : c.desired) desired.push_back({content, ""});
    std::vector<ServerSlice> known;
    for (const Known& k : c.known) known.push_back(server_slice(k));
    EXPECT_EQ(text_of(plan_slices("w", "nu", desired, known)), c.want);
  }
}

TEST(PlanSlices, WhatTheServerMadeOfItIsFine) {
  const std::vector<ServerSlice> known{server_slice({"00000-x", "stripped", 1, 1})};
  EXPECT_TRUE(plan_slices("w", "nu", {{"full", "stripped"}}, known).actions.empty());
  EXPECT_EQ(plan_slices("w", "nu", {{"full", "other"}}, known).actions.size(), 1U);
}

TEST(PlanSlices, OwnersAreLeftAloneWhileTheNodeIsUnknown) {
  EXPECT_TRUE(
      plan_slices("w", "", {{"a", ""}}, {server_slice({"00000-x", "a", 1, 1, "w", "any"})}).actions.empty());
}

// Applying a plan always leads to a state that needs no further plan.
TEST(PlanSlices, APlanCarriedOutIsTheEnd) {
  const std::vector<std::string> names{"00000-x", "00001-x", "00001-y", "00002-x", "w-old"};
  for (unsigned mask = 0; mask < 1U << names.size(); ++mask) {
    for (std::size_t want = 0; want <= 3; ++want) {
      for (unsigned lag = 0; lag <= names.size(); ++lag) {
        std::vector<ServerSlice> known;
        for (std::size_t i = 0; i < names.size(); ++i) {
          if ((mask >> i & 1U) == 0) continue;
          known.push_back(server_slice({names[i].c_str(), i == 1 ? "odd" : "c", i == lag ? 1 : 2, 2}));
        }
        const std::vector<DesiredSlice> desired(want, DesiredSlice{"c", ""});
        const SlicePlan plan = plan_slices("w", "nu", desired, known);
        for (const SliceAction& a : plan.actions) {
          if (a.kind != SliceAction::Kind::kCreate) {
            std::erase_if(known, [&](const ServerSlice& s) { return s.name == a.known.name; });
          }
          if (a.kind == SliceAction::Kind::kDelete) continue;
          ServerSlice s = server_slice({"x", "c", plan.generation, static_cast<std::int64_t>(want)});
          s.name = a.kind == SliceAction::Kind::kUpdate ? a.known.name : index_prefix(a.index, want) + "-new";
          known.push_back(s);
        }
        EXPECT_EQ(known.size(), want);
        EXPECT_EQ(text_of(plan_slices("w", "nu", desired, known)),
                  "g" + std::to_string(want == 0 ? 0 : plan.generation));
      }
    }
  }
}

}  // namespace
}  // namespace dracpu::kube
