// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/preflight.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace dracpu::memory {
namespace {

using config::DeviceMode;
using config::GroupBy;
using config::HugetlbEnforcement;
using config::MemoryMode;

TEST(CgroupMount, IsFoundWhereMemoryCanBeServed) {
  const auto unified = [](std::string_view options) {
    return fmt::format("35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 {}\n",
                       options);
  };
  const std::string other = "22 27 0:21 / /proc rw,nosuid shared:14 - proc proc rw\n";
  const std::string none = "memory support requires the cgroup v2 unified hierarchy";
  const std::string accounted =
      "memory support cannot be used with the cgroup2 option memory_hugetlb_accounting";
  struct Case {
    const char* about;
    std::string text;
    std::string point;  // empty: refused
    std::string refusal;
  };
  for (const Case& c : std::vector<Case>{
           {"one unified hierarchy", other + unified("rw,nsdelegate"), "/sys/fs/cgroup", ""},
           {"two views of it", unified("rw") + "99 35 0:30 /kubepods /host/cgroup rw - cgroup2 cgroup2 rw\n",
            "/sys/fs/cgroup", ""},
           {"no optional fields", "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup",
            ""},
           {"several optional fields",
            "35 24 0:30 / /sys/fs/cgroup rw shared:9 master:2 propagate_from:1 - cgroup2 cgroup2 rw",
            "/sys/fs/cgroup", ""},
           {"a mount point with a space", R"(35 24 0:30 / /sys/my\040cgroup rw - cgroup2 cgroup2 rw)",
            "/sys/my cgroup", ""},
           {"a named hierarchy of version 1 has no controller",
            unified("rw") + "40 24 0:33 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n",
            "/sys/fs/cgroup", ""},
           {"the accounting option of another mount",
            unified("rw") +
                "41 24 0:34 / /mnt rw,memory_hugetlb_accounting - tmpfs memory_hugetlb_accounting rw\n",
            "/sys/fs/cgroup", ""},
           {"the word among the options of the mount, not of the file system",
            "35 24 0:30 / /sys/fs/cgroup rw,memory_hugetlb_accounting - cgroup2 cgroup2 rw\n",
            "/sys/fs/cgroup", ""},
           {"nothing", "", "", none},
           {"no cgroup at all", other, "", none},
           {"version 1", "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "", none},
           {"both, with a needed controller in version 1",
            unified("rw") + "30 24 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n", "", none},
           {"a line that ends early", "35 24 0:30 / /sys/fs/cgroup rw - cgroup2\n", "", none},
           {"the accounting option", other + unified("rw,nsdelegate,memory_hugetlb_accounting"), "",
            accounted},
       }) {
    SCOPED_TRACE(c.about);
    const Result<std::string> got = find_cgroup_mount(c.text);
    EXPECT_EQ(got.ok(), !c.point.empty());
    if (got.ok()) {
      EXPECT_EQ(*got, c.point);
    } else {
      EXPECT_EQ(got.error().code, Errc::kUnsupported);
      EXPECT_EQ(got.error().text, c.refusal);
    }
  }
}

TEST(Hugetlb, ControllerIsNeededForLimits) {
  EXPECT_TRUE(check_hugetlb(HugetlbEnforcement::kContainer, "cpuset cpu io memory hugetlb pids\n").ok());
  EXPECT_TRUE(check_hugetlb(HugetlbEnforcement::kNone, "cpuset cpu\n").ok());
  const Status container = check_hugetlb(HugetlbEnforcement::kContainer, "cpuset cpu hugetlbx\n");
  ASSERT_FALSE(container.ok());
  EXPECT_EQ(container.error().text,
            "memory.hugetlbEnforcement \"container\" requires the hugetlb cgroup controller");
  const Status pod = check_hugetlb(HugetlbEnforcement::kPod, "");
  ASSERT_FALSE(pod.ok());
  EXPECT_EQ(pod.error().text, "memory.hugetlbEnforcement \"pod\" requires the hugetlb cgroup controller");
}

TEST(Settings, CombinedNeedsDevicesOfNumaNodes) {
  EXPECT_TRUE(check_mode(MemoryMode::kCombined, DeviceMode::kGrouped, GroupBy::kNumaNode).ok());
  EXPECT_TRUE(check_mode(MemoryMode::kSeparate, DeviceMode::kIndividual, GroupBy::kSocket).ok());
  for (const Status& got : {check_mode(MemoryMode::kCombined, DeviceMode::kGrouped, GroupBy::kSocket),
                            check_mode(MemoryMode::kCombined, DeviceMode::kGrouped, GroupBy::kMachine),
                            check_mode(MemoryMode::kCombined, DeviceMode::kIndividual, GroupBy::kNumaNode)}) {
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().text,
              "memory.mode \"combined\" requires cpu.devices \"grouped\" and cpu.groupBy \"numanode\"");
  }
}

TEST(Settings, RescanIsOffOrNotTooOften) {
  for (const std::int64_t seconds : {0, 10, 60, 3600}) EXPECT_TRUE(check_rescan_seconds(seconds).ok());
  for (const std::int64_t seconds : {-1, 1, 5, 9, 3601}) {
    const Status got = check_rescan_seconds(seconds);
    ASSERT_FALSE(got.ok()) << seconds;
    EXPECT_EQ(got.error().text, "memory.rescanSeconds must be 0 or between 10 and 3600");
  }
}

}  // namespace
}  // namespace dracpu::memory
