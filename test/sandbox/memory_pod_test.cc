// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// memory.hugetlbEnforcement "pod": the limit of the pod's own cgroup is raised before its container starts.

#include <sys/xattr.h>

#include <fstream>

#include "base/file.h"
#include "base/strings.h"
#include "memory_fixture.h"

namespace dracpu::sandbox {
namespace {

using ::std::filesystem::path;

constexpr const char* kPodMode = "{enabled: true, hugetlbEnforcement: pod}";

class PodLimits : public MemoryTest {
 protected:
  path mount() { return folder_->path() / "host/sys/fs/cgroup"; }
  path group_of(const PodInfo& pod) { return mount() / "kubepods" / ("pod" + pod.uid); }
  // What the kubelet makes of a pod that asks for no hugepages.
  void make_group(const path& group) {
    std::filesystem::create_directories(group);
    for (const char* file : {"hugetlb.2MB.max", "hugetlb.2MB.rsvd.max"}) std::ofstream(group / file) << "0\n";
  }
  std::string limit(const path& group, const char* file = "hugetlb.2MB.max") {
    const Result<std::string> text = read_file(group / file);
    return text.ok() ? std::string(trim(*text)) : text.error().text;
  }
  ClaimName pages(const PodInfo& pod, const std::string& size) {
    const Result<ClaimName> made =
        node().make_memory_claim("of-" + pod.name, pod, {{"hugepages-2mi-numa001", size}});
    EXPECT_OK(made);
    return made.ok() ? *made : ClaimName{};
  }
};

TEST_F(PodLimits, AreRaisedOnceThroughRestartsOfContainerAndDriver) {
  ASSERT_NO_FATAL_FAILURE(up(kPodMode, kBoth));
  if (::setxattr(mount().c_str(), "user.dracpu.test", "x", 1, 0) != 0)
    GTEST_SKIP() << "this file system keeps no attributes of users";
  const PodInfo pod = Node::new_pod("app");
  make_group(group_of(pod));
  Pod running = started(pod, {pages(pod, "64Mi")}, kMemoryOnly);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(limit(group_of(pod)), "67108864");
    EXPECT_EQ(limit(group_of(pod), "hugetlb.2MB.rsvd.max"), "67108864");
    ASSERT_NO_FATAL_FAILURE(again(kBoth));
    ASSERT_OK(node().runtime().remove(running.containers.back()));
    ASSERT_OK(node().add_container(running, "main"));
  }
  EXPECT_EQ(limit(group_of(pod)), "67108864");
  const Pod plain = this->pod("plain");  // needs no cgroup that we can see
  EXPECT_EQ(container(plain).mems, "");
}

TEST_F(PodLimits, RefuseAContainerWhoseCgroupIsNotThereOrALink) {
  ASSERT_NO_FATAL_FAILURE(up(kPodMode, kBoth));
  const PodInfo absent = Node::new_pod("absent");
  const std::string none = refusal(absent, {pages(absent, "2Mi")}, kMemoryOnly);
  EXPECT_NE(none.find(fmt::format("pod {}: cannot raise hugetlb.2MB by 2Mi", absent.uid)), std::string::npos)
      << none;
  const PodInfo linked = Node::new_pod("linked");
  const path outside = folder_->path() / "outside";
  make_group(outside);
  std::filesystem::create_directories(mount() / "kubepods");
  std::filesystem::create_directory_symlink(outside, group_of(linked));
  const std::string link = refusal(linked, {pages(linked, "2Mi")}, kMemoryOnly);
  EXPECT_NE(link.find("leads over a link, or out of its folder"), std::string::npos) << link;
  EXPECT_EQ(limit(outside), "0");
  EXPECT_NE(metrics().find("dra_memory_container_rejections_total{reason=\"pod_cgroup\"} 2"),
            std::string::npos);
}

TEST_F(PodLimits, NeedTheTree) {
  NodeOptions options;
  options.memory = kPodMode;
  ASSERT_NO_FATAL_FAILURE(bring_up(two_nodes(), std::move(options)));
  if (IsSkipped()) return;
  std::filesystem::remove_all(mount());
  ASSERT_OK(node().start_driver());
  ASSERT_TRUE(eventually(std::chrono::seconds(10), [&] { return !node().driver_runs(); }));
  EXPECT_NE(log().find("needs the node's cgroup tree, writable, at"), std::string::npos) << log();
}

}  // namespace
}  // namespace dracpu::sandbox
