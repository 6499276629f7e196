// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/machine_watch.h"

#include <gtest/gtest.h>

#include <fstream>

#include "data/corpus.h"
#include "data/tree.h"

namespace dracpu::agent {
namespace {

class MachineWatchTest : public ::testing::Test {
 protected:
  MachineWatchTest() {
    test::write_tree(
        test::make_tree({.sockets = 1, .nodes_per_socket = 2, .cores_per_node = 2, .threads = 2}),
        dir_.path());
    config::Config config;
    config.node.name = "n1";
    config.node.host_root = dir_.path();
    Result<Node> node = build_node(config);
    EXPECT_TRUE(node.ok());
    node_ = *std::move(node);
    Result<std::shared_ptr<const Machine>> machine = read_machine(node_);
    EXPECT_TRUE(machine.ok()) << machine.error().text;
    machine_ = *std::move(machine);
  }
  void online(const std::string& list) {
    std::ofstream(dir_.path() / "sys/devices/system/cpu/online") << list << "\n";
  }

  test::TempDir dir_;
  Node node_;
  std::shared_ptr<const Machine> machine_;
};

TEST_F(MachineWatchTest, SeesCpusGoAndComeBack) {
  MachineWatch watch(node_, machine_);
  EXPECT_FALSE(*watch.look());
  EXPECT_EQ(watch.machine(), machine_) << "nothing is read again for nothing";
  online("0-4,6-7");
  ASSERT_TRUE(*watch.look());
  EXPECT_EQ(watch.machine()->managed.to_string(), "0-4,6-7");
  EXPECT_EQ(watch.machine()->topology.offline.to_string(), "5");
  EXPECT_FALSE(*watch.look());
  online("0-7");
  ASSERT_TRUE(*watch.look());
  EXPECT_EQ(watch.machine()->topology, machine_->topology);
}

TEST_F(MachineWatchTest, AnUnreadableListLeavesTheMachineAsItWas) {
  MachineWatch watch(node_, machine_);
  online("0-");
  EXPECT_FALSE(watch.look().ok());
  EXPECT_EQ(watch.machine(), machine_);
  online("0-7");
  EXPECT_FALSE(*watch.look());
}

TEST_F(MachineWatchTest, DevicesOfClaimsThatLackCpusAreUnhealthy) {
  ledger::Ledger ledger(machine_->managed, {}, {},
                        [](const CpuSet& free, std::size_t n) -> Result<CpuSet> { return free.lowest(n); });
  ASSERT_EQ(machine_->devices.size(), 2U);
  const device::Device& second = machine_->devices[1];
  ASSERT_TRUE(
      ledger.prepare(ClaimUid("u"), "ns", "c", {{"r", "n1", second.name, std::nullopt, 2, second.cpus}})
          .ok());
  const CpuSet held = ledger.claims().at(ClaimUid("u")).cpus;
  EXPECT_TRUE(lost_cpus(ledger).empty());

  CpuSet gone;
  gone.insert(*held.first());
  ledger.set_machine(machine_->managed - gone, gone, nullptr);
  const std::vector<LostCpus> lost = lost_cpus(ledger);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].offline, gone);
  EXPECT_EQ(lost[0].left, held - gone);
  std::vector<kubelet::DeviceHealth> health = device_health(node_, *machine_, lost);
  ASSERT_EQ(health.size(), 2U);
  EXPECT_EQ(health[0].health, kubelet::Health::kHealthy);
  EXPECT_EQ(health[1].device, second.name);
  EXPECT_EQ(health[1].health, kubelet::Health::kUnhealthy);
  EXPECT_NE(health[1].message.find("ns/c"), std::string::npos);

  Machine without = *machine_;
  without.devices.pop_back();
  health = device_health(node_, without, lost);
  ASSERT_EQ(health.size(), 2U) << "a device that is gone with its last CPU still has its claim";
  EXPECT_EQ(health[1].device, second.name);
  EXPECT_EQ(health[1].health, kubelet::Health::kUnhealthy);

  std::vector<LostCpus> many(500, lost[0]);
  EXPECT_LE(device_health(node_, *machine_, many)[1].message.size(), 1024U);
}

}  // namespace
}  // namespace dracpu::agent
