// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/pod_cgroups.h"

#include <gtest/gtest.h>
#include <sys/xattr.h>

#include <fstream>

#include "base/file.h"
#include "base/strings.h"
#include "memory/test_amounts.h"

namespace dracpu::agent {
namespace {

namespace fs = std::filesystem;
using namespace memory;  // amounts

// A tree of plain files in place of the kernel's.
class PodCgroupsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(pod_);
    fs::create_directories(dir_ / "outside");
    for (const fs::path& group : {pod_, dir_ / "outside"}) {
      for (const char* file : {"hugetlb.2MB.max", "hugetlb.2MB.rsvd.max"}) put(group / file, "0\n");
    }
    if (::setxattr(dir_.c_str(), "user.dracpu.test", "x", 1, 0) != 0)
      GTEST_SKIP() << "this file system keeps no attributes of users";
  }
  ~PodCgroupsTest() override { fs::remove_all(dir_); }

  static void put(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }
  std::string limits(const fs::path& group) const {
    return std::string(trim(read_file(group / "hugetlb.2MB.max").value())) + " " +
           std::string(trim(read_file(group / "hugetlb.2MB.rsvd.max").value()));
  }
  // Each time as after a restart: nothing is known but what is there.
  Status allow(const std::string& container, Bytes claimed, Bytes own,
               const std::string& parent = "/kubepods/pod1") {
    return PodCgroups::open(dir_ / "mount").value().allow(parent, "2MB", container, {claimed, own});
  }

  fs::path dir_ = fs::temp_directory_path() / ("dracpu-pod-cgroups-" + random_hex(6));
  fs::path pod_ = dir_ / "mount/kubepods/pod1";
};

TEST_F(PodCgroupsTest, ContainersAddUpAndOneThatStartsAgainDoesNot) {
  ASSERT_TRUE(allow("a", 64_MiB, {}).ok());
  EXPECT_EQ(limits(pod_), "67108864 67108864");
  for (const char* name : {"b", "a", "b"}) {
    ASSERT_TRUE(allow(name, 64_MiB, {}).ok());
    EXPECT_EQ(limits(pod_), "134217728 134217728");
  }
  ASSERT_TRUE(allow("c", 64_MiB, 64_MiB).ok()) << "the kubelet has set its own";
  EXPECT_EQ(limits(pod_), "134217728 134217728");
}

TEST_F(PodCgroupsTest, WhatHasTheRoomIsNotTouched) {
  put(pod_ / "hugetlb.2MB.max", "67108864\n");
  put(pod_ / "hugetlb.2MB.rsvd.max", "67108864\n");
  ASSERT_TRUE(allow("a", 64_MiB, 64_MiB).ok());
  EXPECT_EQ(limits(pod_), "67108864 67108864");
  EXPECT_LT(::getxattr(pod_.c_str(), "user.dracpu.hugetlb.2MB", nullptr, 0), 0);
  put(pod_ / "hugetlb.2MB.max", "max\n");
  ASSERT_TRUE(allow("b", 64_MiB, {}).ok());
  EXPECT_EQ(limits(pod_), "max 67108864");
}

TEST_F(PodCgroupsTest, KernelsWithoutReservationsAndLimitsThatWereRaisedElsewhere) {
  fs::remove(pod_ / "hugetlb.2MB.rsvd.max");
  ASSERT_TRUE(allow("a", 64_MiB, {}).ok());
  EXPECT_EQ(trim(read_file(pod_ / "hugetlb.2MB.max").value()), "67108864");
  put(pod_ / "hugetlb.2MB.max", "268435456\n");
  ASSERT_TRUE(allow("b", 64_MiB, {}).ok());
  EXPECT_EQ(trim(read_file(pod_ / "hugetlb.2MB.max").value()), "268435456") << "never lowered";
}

TEST_F(PodCgroupsTest, NothingOutsideIsWritten) {
  fs::create_directory_symlink(dir_ / "outside", dir_ / "mount/kubepods/link");
  for (const char* parent : {"/kubepods/../../outside", "kubepods/link", "/kubepods/none", "", "/"}) {
    SCOPED_TRACE(parent);
    EXPECT_FALSE(allow("a", 64_MiB, {}, parent).ok());
  }
  // A file that is a link; the first of the two is refused, so the second is not reached.
  fs::remove(pod_ / "hugetlb.2MB.rsvd.max");
  fs::create_symlink(dir_ / "outside/hugetlb.2MB.rsvd.max", pod_ / "hugetlb.2MB.rsvd.max");
  EXPECT_FALSE(allow("a", 64_MiB, {}).ok());
  EXPECT_EQ(limits(dir_ / "outside"), "0 0");
  EXPECT_EQ(trim(read_file(pod_ / "hugetlb.2MB.max").value()), "0");
}

TEST_F(PodCgroupsTest, ANoteThatNobodyHereWroteIsRefused) {
  ASSERT_EQ(::setxattr(pod_.c_str(), "user.dracpu.hugetlb.2MB", "many", 4, 0), 0);
  const Status got = allow("a", 64_MiB, {});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, Errc::kCorrupt);
  EXPECT_EQ(limits(pod_), "0 0");
}

TEST(PodCgroupsMount, ThatIsNotThereIsTold) {
  const Result<PodCgroups> got = PodCgroups::open("/nowhere/cgroup");
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, Errc::kUnsupported);
  EXPECT_NE(got.error().text.find("needs the node's cgroup tree, writable, at \"/nowhere/cgroup\""),
            std::string::npos)
      << got.error().text;
}

}  // namespace
}  // namespace dracpu::agent
