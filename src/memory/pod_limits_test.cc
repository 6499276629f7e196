// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/pod_limits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "memory/test_amounts.h"

namespace dracpu::memory {
namespace {

TEST(PodLimit, AddsWhatClaimsNeedBeyondTheSpec) {
  struct Case {
    const char* about;
    std::optional<Bytes> baseline;
    std::vector<ContainerShare> containers;
    std::optional<Bytes> limit;
  };
  for (const Case& c : std::vector<Case>{
           {"the first container of two", Bytes{}, {{64_MiB, {}}}, 64_MiB},
           {"both, also when the first starts again", Bytes{}, {{64_MiB, {}}, {64_MiB, {}}}, 128_MiB},
           {"the spec states the claim, too", 64_MiB, {{64_MiB, 64_MiB}}, 64_MiB},
           {"the spec states more", 128_MiB, {{64_MiB, 128_MiB}}, 128_MiB},
           {"the spec states a part", 32_MiB, {{64_MiB, 32_MiB}}, 64_MiB},
           {"one container's room is not the other's", 128_MiB, {{64_MiB, 128_MiB}, {64_MiB, {}}}, 192_MiB},
           {"no limit", std::nullopt, {{64_MiB, {}}}, std::nullopt},
       }) {
    SCOPED_TRACE(c.about);
    PodNote note{.baseline = c.baseline};
    for (const ContainerShare& share : c.containers)
      note.containers.emplace(fmt::format("c{}", note.containers.size()), share);
    EXPECT_EQ(pod_limit(note), c.limit);
    EXPECT_EQ(parse_note(format_note(note)).value(), note);
  }
}

TEST(PodNote, IsReadAsItWasWrittenAndNothingElse) {
  const PodNote note{.baseline = 2_MiB, .containers = {{"main", {64_MiB, {}}}, {"side", {2_MiB, 2_MiB}}}};
  EXPECT_EQ(format_note(note), "2097152 main=67108864/0 side=2097152/2097152");
  EXPECT_EQ(format_note({}), "max");
  for (const char* text : {"", "x", "-1", "0 main", "0 main=1", "0 =1/2", "0 main=1/", "0  main=1/2",
                           "0 a=1/2/3", "0 main/1=2"}) {
    const Result<PodNote> got = parse_note(text);
    ASSERT_FALSE(got.ok()) << text;
    EXPECT_EQ(got.error().code, Errc::kCorrupt);
  }
  EXPECT_EQ(parse_limit("max\n").value(), std::nullopt);
  EXPECT_EQ(parse_limit("4096\n").value(), Bytes{4096});
  EXPECT_FALSE(parse_limit("none\n").ok());
}

TEST(PodPath, StaysBelowTheMount) {
  EXPECT_EQ(path_below_mount("/kubepods.slice/kubepods-pod1.slice").value(),
            "kubepods.slice/kubepods-pod1.slice");
  EXPECT_EQ(path_below_mount("//kubepods/./pod1/").value(), "kubepods/pod1");
  EXPECT_EQ(path_below_mount("kubepods/..pod1").value(), "kubepods/..pod1");
  for (const char* parent : {"", "/", "..", "/kubepods/../../etc", "/kubepods/..", "."}) {
    const Result<std::string> got = path_below_mount(parent);
    ASSERT_FALSE(got.ok()) << parent;
    EXPECT_EQ(got.error().code, Errc::kInvalidInput);
  }
}

}  // namespace
}  // namespace dracpu::memory
