// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Whatever restarts, claims keep their CPUs.

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "base/file.h"
#include "fixture.h"

namespace dracpu::sandbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Restart : public SandboxTest {};

// True if every thread of the process is stopped: SIGSTOP reaches them one after the other.
bool is_frozen(pid_t pid) {
  std::error_code ec;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), ec)) {
    const Result<std::string> stat = read_file(task.path() / "stat");
    if (!stat.ok() || stat->substr(stat->rfind(')') + 1, 2) != " T") return false;
  }
  return !ec;
}

TEST_F(Restart, OfTheDriverKeepsEverything) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const Pod shared = pod("web");
  const ClaimName a = claim("a", 2);
  const Pod pod_a = pod("a", {a});
  const ClaimName waiting = claim("waiting", 2);  // prepared, its container not there yet
  ASSERT_OK(node().kubelet().prepare(kDriverName, {waiting}));
  const CpuSet cpus_a = cpus_of(pod_a);
  const CpuSet cpus_waiting = cpus_of(waiting);
  for (int i = 0; i < 3; ++i) {
    node().kill_driver();
    ASSERT_NO_FATAL_FAILURE(start_and_wait());
    EXPECT_EQ(cpus_of(a), cpus_a);
    EXPECT_EQ(cpus_of(waiting), cpus_waiting);
    EXPECT_EQ(cpus_of(pod_a), cpus_a);
    EXPECT_EQ(cpus_of(shared), all_cpus() - cpus_a - cpus_waiting);
  }
  const ClaimName next = claim("next", 2);
  const CpuSet cpus_next = cpus_of(pod("next", {next}));
  EXPECT_FALSE(cpus_next.intersects(cpus_a | cpus_waiting));
  EXPECT_EQ(cpus_of(pod("waiting", {waiting})), cpus_waiting);
  EXPECT_EQ(cpus_of(shared), all_cpus() - cpus_a - cpus_waiting - cpus_next);
}

TEST_F(Restart, OfTheDriverKeepsTheOwner) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  Pod owner = pod("owner", {c});
  node().kill_driver();
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  EXPECT_FALSE(node().start_pod("thief", {c}).ok());
  ASSERT_OK(node().runtime().remove(owner.containers.back()));
  ASSERT_OK(node().add_container(owner));
  EXPECT_EQ(cpus_of(owner), cpus_of(c));
}

TEST_F(Restart, ALostCdiFileIsWrittenAgain) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  const Pod p = pod("c", {c});
  const CpuSet before = cpus_of(c);
  node().kill_driver();
  std::filesystem::remove(node().folder() / "cdi" / fmt::format("dra.k8s.io-cpu_claim-{}.json", c.uid));
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  EXPECT_EQ(cpus_of(c), before);
}

TEST_F(Restart, ALostStateFileIsBuiltAgain) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  const Pod p = pod("c", {c});
  const CpuSet before = cpus_of(p);
  node().kill_driver();
  std::filesystem::remove_all(node().folder() / "kubelet/plugins/dracpu");
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  EXPECT_EQ(cpus_of(c), before);
  const ClaimName next = claim("next", 4);
  EXPECT_FALSE(cpus_of(pod("next", {next})).intersects(before));
}

// RULINGS 8: the other driver ended "gone", prepared "theirs" on its CPUs and went away again.
TEST_F(Restart, AfterAnotherDriverItsClaimsCount) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName kept = claim("kept", 2);
  const Pod p = pod("kept", {kept});
  const ClaimName gone = claim("gone", 2);
  ASSERT_OK(node().kubelet().prepare(kDriverName, {gone}));
  const CpuSet cpus = cpus_of(gone);
  node().kill_driver();
  const auto file_of = [&](const std::string& uid) {
    return node().folder() / "cdi" / fmt::format("dra.k8s.io-cpu_claim-{}.json", uid);
  };
  ASSERT_OK(node().delete_claim(gone));
  std::filesystem::remove(file_of(gone.uid));
  const std::string theirs = "0f0f0f0f-0000-4000-8000-000000000002";
  ASSERT_OK(write_text(
      file_of(theirs),
      fmt::format(R"({{"cdiVersion":"0.8.0","kind":"dra.k8s.io/cpu","devices":[{{"name":"claim-{0}",)"
                  R"("containerEdits":{{"env":["DRA_CPUSET_{0}={1}"]}}}}]}})",
                  theirs, cpus.to_string())));
  const Result<Pod> other =
      node().start_pod("theirs", {}, {fmt::format("DRA_CPUSET_{}={}", theirs, cpus.to_string())});
  ASSERT_OK(other);
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  EXPECT_EQ(cpus_of(p), cpus_of(kept));
  EXPECT_EQ(cpus_of(*other), cpus) << "their container runs where it ran";
  EXPECT_FALSE(cpus_of(pod("shared")).intersects(cpus | cpus_of(kept)));
}

// A claim that an older driver prepared and unprepared has no name to look it up; ours knew it meanwhile.
TEST_F(Restart, WhatAnotherDriverPreparedAndEndedIsFreeAgain) {
  const auto file_of = [&](const std::string& uid) {
    return node().folder() / "cdi" / fmt::format("dra.k8s.io-cpu_claim-{}.json", uid);
  };
  const auto leave = [&](const std::string& uid, const std::string& cpus) {
    std::filesystem::create_directories(node().folder() / "cdi");
    return write_text(file_of(uid),
                      fmt::format(R"({{"cdiVersion":"0.8.0","kind":"dra.k8s.io/cpu","devices":[{{"name":)"
                                  R"("claim-{0}","containerEdits":{{"env":["DRA_CPUSET_{0}={1}"]}}}}]}})",
                                  uid, cpus));
  };
  const std::string ended = "0f0f0f0f-0000-4000-8000-000000000003";
  const std::string running = "0f0f0f0f-0000-4000-8000-000000000004";
  ASSERT_NO_FATAL_FAILURE(ready());
  node().kill_driver();
  ASSERT_OK(leave(ended, "0-1"));
  ASSERT_OK(leave(running, "2-3"));
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  const Result<Pod> theirs = node().start_pod("theirs", {}, {fmt::format("DRA_CPUSET_{}=2-3", running)});
  ASSERT_OK(theirs);
  node().kill_driver();
  std::filesystem::remove(file_of(ended));
  std::filesystem::remove(file_of(running));
  ASSERT_OK(leave("0f0f0f0f-0000-4000-8000-000000000005", "4"));
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  ASSERT_TRUE(eventually(std::chrono::seconds(10), [&] {
    return cpus_of(*theirs) == CpuSet::parse("2-3").value() && !std::filesystem::exists(file_of(ended)) &&
           std::filesystem::exists(file_of(running)) &&
           node().driver_log(1000).find("Lost claim released") != std::string::npos;  // the file goes first
  }));
  EXPECT_TRUE(cpus_of(pod("shared")).intersects(CpuSet::parse("0-1").value()));
  EXPECT_FALSE(cpus_of(pod("shared-too")).intersects(CpuSet::parse("2-3").value()));
}

TEST_F(Restart, UnderAConfigurationThatReservesClaimedCpusTheyAreKept) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  const Pod p = pod("c", {c});
  const CpuSet before = cpus_of(p);
  node().kill_driver();
  ASSERT_OK(node().reserve(before.lowest(1).to_string()));
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  EXPECT_EQ(cpus_of(p), before);
  EXPECT_TRUE(eventually(seconds(5), [&] {
    const auto told = node().probe("/readyz");
    return told.ok() && told->first == 503 && told->second.find(c.uid) != std::string::npos;
  })) << log();
  const ClaimName next = claim("next", 1);
  EXPECT_FALSE(node().start_pod("next", {next}).ok());
  ASSERT_OK(node().end_pod(p));
  EXPECT_OK(node().start_pod("next", {next}));
  EXPECT_TRUE(eventually(seconds(5), [&] {
    const auto told = node().probe("/readyz");
    return told.ok() && told->first == 200;
  })) << log();
}

TEST_F(Restart, ContainersMadeMeanwhileAreMovedIntoThePool) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  const Pod p = pod("c", {c});
  node().kill_driver();
  const Pod stray = pod("stray");  // nobody answers: the runtime creates it on every CPU
  const auto view = node().runtime().container(stray.containers.back());
  ASSERT_OK(view);
  EXPECT_EQ(view->cpus, "");
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  EXPECT_EQ(cpus_of(stray), all_cpus() - cpus_of(c));
}

TEST_F(Restart, OfTheRuntimeIsSeenAndMendedAgain) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  const Pod p = pod("c", {c});
  for (std::size_t round = 1; round <= 3; ++round) {
    node().runtime().go_away();
    const Pod stray = pod(fmt::format("stray{}", round));
    ASSERT_OK(node().runtime().come_back());
    ASSERT_TRUE(eventually(seconds(15), [&] {
      return node().runtime().counts().synchronizations == round + 1;
    })) << log();
    EXPECT_EQ(cpus_of(stray), all_cpus() - cpus_of(c));
    EXPECT_EQ(cpus_of(p), cpus_of(c));
  }
  EXPECT_TRUE(node().driver_runs());
  const ClaimName next = claim("next", 2);
  EXPECT_TRUE(eventually(seconds(10), [&] { return node().start_pod("next", {next}).ok(); })) << log();
}

TEST_F(Restart, ALongListComesInManyMessages) {
  NodeOptions options;
  options.runtime.chunk_objects = 3;
  ASSERT_NO_FATAL_FAILURE(ready({}, std::move(options)));
  const ClaimName c = claim("c", 2);
  const Pod p = pod("c", {c});
  std::vector<Pod> shared;
  for (int i = 0; i < 20; ++i) shared.push_back(pod(fmt::format("web{}", i)));
  const std::size_t messages = node().runtime().counts().sync_messages;
  node().kill_driver();
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  EXPECT_GT(node().runtime().counts().sync_messages, messages + 5);
  EXPECT_EQ(cpus_of(p), cpus_of(c));
  for (const Pod& s : shared) EXPECT_EQ(cpus_of(s), all_cpus() - cpus_of(c));
}

TEST_F(Restart, OfTheKubeletIsARegistrationAndNewSlices) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  const Pod p = pod("c", {c});
  node().kubelet().stop();
  // A kubelet that starts deletes every slice of its node (spec kubelet-dra-wire 6.9).
  for (const auto& slice : node().slices()) {
    node().api().store().handle(
        Caller::kSandbox, "DELETE",
        "/apis/resource.k8s.io/v1/resourceslices/" + std::string(slice.at("metadata").at("name").as_string()),
        "");
  }
  node().kubelet().restart();
  ASSERT_OK(node().kubelet().wait_registered(kDriverName, seconds(5)));
  EXPECT_TRUE(eventually(seconds(5), [&] { return node().slices().size() == 1; })) << log();
  const auto again = node().kubelet().prepare(kDriverName, {c});  // the "prepared" mark is not kept
  ASSERT_OK(again);
  EXPECT_OK(again->at(c.uid));
  EXPECT_EQ(cpus_of(c), cpus_of(p));
}

TEST_F(Restart, AFrozenDriverIsDroppedAndMendsWhatItMissed) {
  NodeOptions options;
  options.runtime.request_timeout = milliseconds(500);
  ASSERT_NO_FATAL_FAILURE(ready({}, std::move(options)));
  const ClaimName c = claim("c", 2);
  const Pod p = pod("c", {c});
  ASSERT_EQ(::kill(node().driver_pid(), SIGSTOP), 0);
  ASSERT_TRUE(eventually(seconds(5), [&] { return is_frozen(node().driver_pid()); }));
  const Pod stray = pod("stray");
  EXPECT_EQ(node().runtime().container(stray.containers.back())->cpus, "") << "made without the driver";
  EXPECT_EQ(node().runtime().counts().late_answers, 1U);
  ASSERT_EQ(::kill(node().driver_pid(), SIGCONT), 0);
  EXPECT_TRUE(eventually(seconds(15), [&] { return cpus_of(stray) == all_cpus() - cpus_of(c); })) << log();
  EXPECT_EQ(cpus_of(p), cpus_of(c));
}

TEST_F(Restart, KilledAmidPreparesItForgetsNothingThatWasAnswered) {
  ASSERT_NO_FATAL_FAILURE(ready({.sockets = 2, .cores = 32, .threads = 2}));  // 128 CPUs
  constexpr std::size_t kClaims = 60;
  std::vector<ClaimName> claims;
  for (std::size_t i = 0; i < kClaims; ++i) claims.push_back(claim(fmt::format("c{}", i), 2));
  std::atomic<std::size_t> answered = 0;
  std::vector<CpuSet> promised(kClaims);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kClaims; ++i) {
    threads.emplace_back([&, i] {
      std::this_thread::sleep_for(milliseconds(4 * i));
      const auto answer = node().kubelet().prepare(kDriverName, {claims[i]});
      if (!answer.ok() || !answer->at(claims[i].uid).ok()) return;
      const Result<CpuSet> cpus = node().claim_cpus(claims[i]);
      if (cpus.ok()) promised[i] = *cpus;
      ++answered;
    });
  }
  (void)eventually(seconds(20), [&] { return answered >= kClaims / 3; });
  node().kill_driver();
  for (std::thread& t : threads) t.join();
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  const auto again = node().kubelet().prepare(kDriverName, claims);
  ASSERT_OK(again);
  CpuSet taken;
  for (std::size_t i = 0; i < kClaims; ++i) {
    ASSERT_OK(again->at(claims[i].uid));
    const CpuSet now = cpus_of(claims[i]);
    EXPECT_EQ(now.size(), 2U);
    EXPECT_FALSE(now.intersects(taken)) << now.to_string();
    taken |= now;
    if (!promised[i].empty()) {
      EXPECT_EQ(now, promised[i]) << "claim " << i;
    }
  }
}

}  // namespace
}  // namespace dracpu::sandbox
