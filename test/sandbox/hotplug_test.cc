// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// CPUs that go offline and come back under a running driver.

#include <fstream>

#include "fixture.h"

namespace dracpu::sandbox {
namespace {

using std::chrono::seconds;

class Hotplug : public SandboxTest {
 protected:
  void set_online(const std::string& list) {
    std::ofstream(folder_->path() / "host/sys/devices/system/cpu/online") << list << "\n";
  }
  std::int64_t published() {
    std::int64_t sum = 0;
    for (const auto& slice : node().slices()) {
      for (const auto& device : slice.at("spec").at("devices").as_array()) {
        sum += device.at("attributes").at("dra.cpu/numCPUs").at("int").to_number<std::int64_t>();
      }
    }
    return sum;
  }
};

TEST_F(Hotplug, SlicesAndThePoolFollowAndClaimsKeepTheirCpus) {
  ASSERT_NO_FATAL_FAILURE(ready());
  ASSERT_EQ(published(), 8);
  const ClaimName c = claim("c", 2);
  const Pod owner = pod("owner", {c});
  const Pod other = pod("shared");
  const CpuSet mine = cpus_of(c);
  ASSERT_EQ(mine.to_string(), "0,4");

  set_online("0-3,5,7");
  EXPECT_TRUE(eventually(seconds(5), [&] { return published() == 6; })) << log();
  EXPECT_TRUE(eventually(
      seconds(10),
      [&] { return cpus_of(other).to_string() == "1-3,5,7" && cpus_of(owner).to_string() == "0"; }))
      << cpus_of(other).to_string() << " and " << cpus_of(owner).to_string() << "\n"
      << log();
  EXPECT_NE(node().driver_log().find("Claim lacks CPUs that are offline"), std::string::npos);
  const CpuSet four = cpus_of(pod("four", {claim("four", 4)}));
  EXPECT_EQ(four.size(), 4U);
  EXPECT_TRUE(four.is_subset_of(CpuSet({1, 2, 3, 5, 7})))
      << four.to_string() << ": never one that is offline";

  set_online("0-7");
  EXPECT_TRUE(eventually(seconds(5), [&] { return published() == 8; })) << log();
  EXPECT_TRUE(eventually(seconds(10), [&] { return cpus_of(owner) == mine; })) << log();
  EXPECT_TRUE(eventually(seconds(10), [&] { return cpus_of(other) == all_cpus() - mine - four; })) << log();
}

TEST_F(Hotplug, ARestartMeanwhileForgetsNothing) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  const Pod owner = pod("owner", {c});
  const CpuSet mine = cpus_of(c);
  node().kill_driver();
  set_online("0-3,5-7");
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  EXPECT_TRUE(eventually(seconds(5), [&] { return published() == 7 && cpus_of(owner).to_string() == "0"; }))
      << log();
  set_online("0-7");
  EXPECT_TRUE(eventually(seconds(10), [&] { return published() == 8 && cpus_of(owner) == mine; })) << log();
}

}  // namespace
}  // namespace dracpu::sandbox
