// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the tests of memory share: a node with two NUMA nodes, and words for pods with claims on memory.

#ifndef DRACPU_SANDBOX_MEMORY_FIXTURE_H_
#define DRACPU_SANDBOX_MEMORY_FIXTURE_H_

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "fixture.h"
#include "runtime_parts.h"

namespace dracpu::sandbox {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
inline const std::vector<std::string> kBoth{kDriverName, kMemoryDriver};
inline const std::vector<std::string> kMemoryOnly{kMemoryDriver};

class MemoryTest : public SandboxTest {
 protected:
  // Two NUMA nodes of 4 CPUs, 16 GiB and 64 pages of 2 MiB.
  static MachineShape two_nodes() { return {.sockets = 2, .cores = 2, .threads = 2, .hugepages = 64}; }

  // `section` is the configuration's; `drivers` are those that register.
  void up(const std::string& section, const std::vector<std::string>& drivers) {
    NodeOptions options;
    options.memory = section;
    ASSERT_NO_FATAL_FAILURE(ready(two_nodes(), std::move(options)));
    ASSERT_NO_FATAL_FAILURE(wait_for(drivers));
  }
  void again(const std::vector<std::string>& drivers) {
    node().kill_driver();
    ASSERT_NO_FATAL_FAILURE(start_and_wait());
    ASSERT_NO_FATAL_FAILURE(wait_for(drivers));
  }
  // The driver ends, and starts with another section.
  void change(const std::string& section) {
    ASSERT_OK(node().stop_driver());
    ASSERT_OK(node().set_memory(section));
    ASSERT_NO_FATAL_FAILURE(start_and_wait());
    ASSERT_OK(node().kubelet().wait_registered(kDriverName, std::chrono::seconds(10)));
  }
  // Each driver registers by itself.
  void wait_for(const std::vector<std::string>& drivers) {
    for (const std::string& driver : drivers)
      ASSERT_OK(node().kubelet().wait_registered(driver, std::chrono::seconds(10)));
    ASSERT_TRUE(eventually(std::chrono::seconds(10), [&] {
      const auto ready = node().probe("/readyz", Node::kControl);
      return ready.ok() && ready->first == 200;
    })) << log();
  }
  Pod started(const PodInfo& pod, const std::vector<ClaimName>& claims,
              const std::vector<std::string>& drivers) {
    Result<Pod> out = node().start_pod_of(pod, claims, drivers);
    EXPECT_OK(out);
    return out.ok() ? *out : Pod{};
  }
  std::string refusal(const PodInfo& pod, const std::vector<ClaimName>& claims,
                      const std::vector<std::string>& drivers) {
    const Result<Pod> out = node().start_pod_of(pod, claims, drivers);
    return out.ok() ? "it was served" : out.error().text;
  }
  ContainerView container(const Pod& pod) {
    const Result<ContainerView> out = node().container_of(pod);
    EXPECT_OK(out);
    return out.ok() ? *out : ContainerView{};
  }
  std::string metrics() {
    const auto got = node().probe("/metrics");
    return got.ok() ? got->second : got.error().text;
  }
  std::filesystem::path cdi() { return node().folder() / "cdi"; }
  std::filesystem::path cdi_file(const ClaimName& claim, const std::string& kind = "memory") {
    return cdi() / fmt::format("dra.k8s.io-{}_claim-{}.json", kind, claim.uid);
  }
};

// Memory has a driver of its own: separate mode.
class MemoryDriver : public MemoryTest {
 protected:
  void up(const std::string& section = "{enabled: true}") {
    ASSERT_NO_FATAL_FAILURE(MemoryTest::up(section, kBoth));
  }
  void wait_for_both() { wait_for(kBoth); }
  void again() { MemoryTest::again(kBoth); }
  ClaimName memory_claim(const std::string& name, const PodInfo& pod, const std::vector<MemoryWish>& wishes,
                         std::size_t cpus = 0, const std::string& device = "cpudevnuma000") {
    Result<ClaimName> made = node().make_memory_claim(name, pod, wishes, cpus, device);
    EXPECT_OK(made);
    return made.ok() ? *made : ClaimName{};
  }
  Pod started(const PodInfo& pod, const std::vector<ClaimName>& claims,
              const std::vector<std::string>& drivers = kMemoryOnly) {
    return MemoryTest::started(pod, claims, drivers);
  }
  std::string refusal(const PodInfo& pod, const std::vector<ClaimName>& claims,
                      const std::vector<std::string>& drivers = kMemoryOnly) {
    return MemoryTest::refusal(pod, claims, drivers);
  }
};

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_MEMORY_FIXTURE_H_
