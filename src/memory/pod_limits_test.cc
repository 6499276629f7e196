// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/pod_limits.h"

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
    EXPECT_EQ(pod_limit(c.baseline, c.containers), c.limit);
  }
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
