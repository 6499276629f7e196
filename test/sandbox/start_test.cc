// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Starting and stopping, and one owner per node.

#include <csignal>
#include <thread>

#include "fixture.h"

namespace dracpu::sandbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Start : public SandboxTest {};

TEST_F(Start, RegistersSynchronizesAndPublishes) {
  ASSERT_NO_FATAL_FAILURE(ready({.sockets = 2, .cores = 4, .threads = 2}, {.reserved_cpus = "0,8"}));
  EXPECT_EQ(node().kubelet().service_of(kDriverName), "v1.DRAPlugin");
  EXPECT_EQ(node().runtime().counts().plugins, 1U);
  const auto slices = node().slices();
  ASSERT_EQ(slices.size(), 1U);
  const auto& spec = slices[0].at("spec").as_object();
  EXPECT_EQ(spec.at("driver"), kDriverName);
  EXPECT_EQ(spec.at("nodeName").as_string(), node().name());
  EXPECT_EQ(spec.at("pool").at("generation").as_int64(), 1);
  EXPECT_EQ(spec.at("pool").at("resourceSliceCount").as_int64(), 1);
  const auto& owner = slices[0].at("metadata").at("ownerReferences").as_array().at(0).as_object();
  EXPECT_EQ(owner.at("uid"), node().api().store().get("nodes", node().name())->at("metadata").at("uid"));
  const auto& devices = spec.at("devices").as_array();
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].at("name"), "cpudevnuma000");
  EXPECT_EQ(devices[0].at("capacity").at("dra.cpu/cpu").at("value"), "6");
  EXPECT_EQ(devices[1].at("capacity").at("dra.cpu/cpu").at("value"), "8");
  EXPECT_TRUE(eventually(seconds(5), [&] {
    const auto ready = node().probe("/readyz");
    return ready.ok() && ready->first == 200;
  }));
  for (const SeenRequest& r : node().api().requests()) {
    EXPECT_TRUE(r.status < 400) << r.method << " " << r.target << " was answered " << r.status;
  }
}

TEST_F(Start, NothingIsWrittenAtRest) {
  ASSERT_NO_FATAL_FAILURE(ready());
  std::this_thread::sleep_for(seconds(1));  // the answers to the start
  const std::size_t before = node().api().requests().size();
  std::this_thread::sleep_for(seconds(4));
  EXPECT_EQ(node().api().requests().size(), before) << "requests without a reason";
}

TEST_F(Start, WithoutApiServerItRegistersAndPublishesLater) {
  ASSERT_NO_FATAL_FAILURE(bring_up({}, {.api_up = false}));
  ASSERT_OK(node().start_driver());
  ASSERT_OK(node().kubelet().wait_registered(kDriverName, seconds(15)));
  EXPECT_TRUE(node().slices().empty());
  const ClaimName unknown{"demo", "unknown", "0f0f0f0f-0000-4000-8000-000000000001"};
  const auto undone = node().kubelet().unprepare(kDriverName, {unknown});
  ASSERT_OK(undone);
  EXPECT_OK(undone->at(unknown.uid));  // unprepare asks nobody
  const auto prepared = node().kubelet().prepare(kDriverName, {unknown});
  ASSERT_OK(prepared);
  EXPECT_FALSE(prepared->at(unknown.uid).ok());
  ASSERT_OK(node().api().start());
  ASSERT_OK(node().wait_ready());
  const ClaimName c = claim("late", 2);
  EXPECT_EQ(cpus_of(pod("late", {c})).size(), 2U);
}

TEST_F(Start, WithoutRuntimeItDoesNotRegister) {
  ASSERT_NO_FATAL_FAILURE(bring_up());
  node().runtime().go_away();
  ASSERT_OK(node().start_driver());
  EXPECT_FALSE(node().kubelet().wait_registered(kDriverName, seconds(2)).ok());
  EXPECT_TRUE(node().driver_runs());
  ASSERT_OK(node().runtime().come_back());
  ASSERT_OK(node().wait_ready());
}

TEST_F(Start, StopsCleanlyAndLeavesTheSlices) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const auto status = node().stop_driver();
  ASSERT_OK(status);
  EXPECT_EQ(*status, 0);
  EXPECT_EQ(node().slices().size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(node().folder() / "kubelet/plugins_registry/dra.cpu-reg.sock"));
  EXPECT_FALSE(std::filesystem::exists(node().folder() / "kubelet/plugins/dra.cpu/dra.sock"));
  EXPECT_TRUE(eventually(seconds(2), [&] { return node().kubelet().counts().registered_now == 0; }));
}

TEST_F(Start, OfTwoDriversOneActsAndTheOtherTakesOver) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("kept", 2);
  const Pod p = pod("kept", {c});
  const CpuSet before = cpus_of(p);
  Result<Child> second = node().start_second_driver();
  ASSERT_OK(second);
  std::this_thread::sleep_for(seconds(2));
  EXPECT_TRUE(second->running()) << "a standby waits";
  EXPECT_TRUE(node().driver_runs());
  EXPECT_EQ(node().kubelet().counts().registrations, 1U);
  EXPECT_EQ(node().runtime().counts().synchronizations, 1U);
  node().kill_driver();
  EXPECT_TRUE(eventually(seconds(10), [&] {
    return node().kubelet().counts().registrations == 2 && node().runtime().counts().plugins == 1;
  })) << "the standby did not take over";
  EXPECT_EQ(cpus_of(p), before);
  const ClaimName other = claim("other", 2);
  EXPECT_FALSE(cpus_of(pod("other", {other})).intersects(before));
  second->signal(SIGTERM);
  EXPECT_EQ(second->wait(seconds(10)), std::optional<int>(0));
}

TEST_F(Start, AStandbyAnswersItsOwnProbes) {
  for (const bool may_be_ready : {false, true}) {
    SCOPED_TRACE(may_be_ready);
    ASSERT_NO_FATAL_FAILURE(ready({}, {.standby_ready = may_be_ready}));
    Result<Child> second = node().start_second_driver();
    ASSERT_OK(second);
    const auto status_of = [&](const std::string& path, const std::string& socket) {
      const auto got = node().probe(path, socket);
      return got.ok() ? got->first : 0;
    };
    EXPECT_TRUE(eventually(seconds(5), [&] { return status_of("/livez", Node::kSecondControl) == 200; }));
    EXPECT_TRUE(eventually(seconds(5), [&] {
      return status_of("/readyz", Node::kSecondControl) == (may_be_ready ? 200 : 503);
    }));
    EXPECT_EQ(status_of("/healthz", Node::kSecondControl), 503);
    EXPECT_EQ(status_of("/readyz", Node::kControl), 200);
    node().kill_driver();
    EXPECT_TRUE(eventually(seconds(5), [&] {
      return status_of("/healthz", Node::kSecondControl) == 200 &&
             status_of("/readyz", Node::kSecondControl) == 200;
    })) << "it works now, and says so";
    EXPECT_TRUE(eventually(seconds(5), [&] { return status_of("/readyz", "http.sock") == 200; }));
  }
}

TEST_F(Start, TwoDriversAtTheSameMoment) {
  ASSERT_NO_FATAL_FAILURE(bring_up());
  ASSERT_OK(node().start_driver());
  Result<Child> second = node().start_second_driver();
  ASSERT_OK(second);
  EXPECT_TRUE(eventually(seconds(15), [&] { return node().kubelet().counts().registrations == 1; }));
  std::this_thread::sleep_for(seconds(2));
  EXPECT_EQ(node().kubelet().counts().registrations, 1U);
  EXPECT_EQ(node().runtime().counts().synchronizations, 1U);
  EXPECT_TRUE(second->running());
  EXPECT_TRUE(node().driver_runs());
}

}  // namespace
}  // namespace dracpu::sandbox
