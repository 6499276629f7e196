// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the tests of memory share: the driver with memory on, on a machine of two NUMA nodes.

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

class MemoryDriver : public SandboxTest {
 protected:
  // Two NUMA nodes of 4 CPUs, 16 GiB and 64 pages of 2 MiB.
  static MachineShape two_nodes() { return {.sockets = 2, .cores = 2, .threads = 2, .hugepages = 64}; }

  void up(const std::string& section = "{enabled: true}") {
    NodeOptions options;
    options.memory = section;
    ASSERT_NO_FATAL_FAILURE(ready(two_nodes(), std::move(options)));
    ASSERT_NO_FATAL_FAILURE(wait_for_both());
  }
  void again() {
    node().kill_driver();
    ASSERT_NO_FATAL_FAILURE(start_and_wait());
    ASSERT_NO_FATAL_FAILURE(wait_for_both());
  }
  // Each driver registers by itself.
  void wait_for_both() {
    for (const char* driver : {kDriverName, kMemoryDriver})
      ASSERT_OK(node().kubelet().wait_registered(driver, std::chrono::seconds(10)));
    ASSERT_TRUE(eventually(std::chrono::seconds(10), [&] {
      const auto ready = node().probe("/readyz", Node::kControl);
      return ready.ok() && ready->first == 200;
    })) << log();
  }
  ClaimName memory_claim(const std::string& name, const PodInfo& pod, const std::vector<MemoryWish>& wishes,
                         std::size_t cpus = 0, const std::string& device = "cpudevnuma000") {
    Result<ClaimName> made = node().make_memory_claim(name, pod, wishes, cpus, device);
    EXPECT_OK(made);
    return made.ok() ? *made : ClaimName{};
  }
  Pod started(const PodInfo& pod, const std::vector<ClaimName>& claims,
              const std::vector<std::string>& drivers = kMemoryOnly) {
    Result<Pod> out = node().start_pod_of(pod, claims, drivers);
    EXPECT_OK(out);
    return out.ok() ? *out : Pod{};
  }
  std::string refusal(const PodInfo& pod, const std::vector<ClaimName>& claims,
                      const std::vector<std::string>& drivers = kMemoryOnly) {
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
  std::filesystem::path cdi_file(const ClaimName& claim) {
    return cdi() / fmt::format("dra.k8s.io-memory_claim-{}.json", claim.uid);
  }
};

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_MEMORY_FIXTURE_H_
