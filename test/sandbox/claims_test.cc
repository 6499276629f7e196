// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Claims and containers: who gets which CPUs, and who is refused.

#include <fmt/format.h>

#include <thread>

#include "fixture.h"

namespace dracpu::sandbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Claims : public SandboxTest {};

TEST_F(Claims, AreDisjointAndLeaveThePool) {
  ASSERT_NO_FATAL_FAILURE(ready());  // 8 CPUs
  const Pod shared = pod("web");
  EXPECT_EQ(cpus_of(shared), all_cpus());
  const ClaimName a = claim("a", 2);
  const ClaimName b = claim("b", 3);
  const CpuSet cpus_a = cpus_of(pod("a", {a}));
  const CpuSet cpus_b = cpus_of(pod("b", {b}));
  EXPECT_EQ(cpus_a, cpus_of(a));
  EXPECT_EQ(cpus_b, cpus_of(b));
  EXPECT_EQ(cpus_a.size(), 2U);
  EXPECT_EQ(cpus_b.size(), 3U);
  EXPECT_FALSE(cpus_a.intersects(cpus_b));
  EXPECT_EQ(cpus_of(shared), all_cpus() - cpus_a - cpus_b) << "a new owner moves what is shared";
  EXPECT_EQ(cpus_of(pod("later")), all_cpus() - cpus_a - cpus_b);
}

TEST_F(Claims, PrepareTwiceIsOnce) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  const Pod p = pod("c", {c});
  const CpuSet before = cpus_of(c);
  for (int i = 0; i < 3; ++i) {
    const auto again = node().kubelet().prepare(kDriverName, {c});
    ASSERT_OK(again);
    ASSERT_OK(again->at(c.uid));
    EXPECT_EQ(again->at(c.uid)->cdi_devices, p.devices);
    EXPECT_EQ(cpus_of(c), before);
  }
}

TEST_F(Claims, WithoutTheApiServerAPreparedClaimGetsItsLostFileToo) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  ASSERT_OK(node().kubelet().prepare(kDriverName, {c}));
  const CpuSet before = cpus_of(c);
  node().api().stop();
  std::filesystem::remove(node().folder() / "cdi" / fmt::format("dra.k8s.io-cpu_claim-{}.json", c.uid));
  const auto again = node().kubelet().prepare(kDriverName, {c});
  ASSERT_OK(again);
  ASSERT_OK(again->at(c.uid));
  EXPECT_EQ(cpus_of(c), before);
}

TEST_F(Claims, AFaultyOneDoesNotStopTheOther) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName good = claim("good", 2);
  const ClaimName missing{"demo", "missing", "0f0f0f0f-0000-4000-8000-000000000002"};
  ClaimName replaced = claim("replaced", 1);
  replaced.uid = "0f0f0f0f-0000-4000-8000-000000000003";
  const auto answer = node().kubelet().prepare(kDriverName, {missing, good, replaced});
  ASSERT_OK(answer);
  EXPECT_OK(answer->at(good.uid));
  EXPECT_FALSE(answer->at(missing.uid).ok());
  EXPECT_FALSE(answer->at(replaced.uid).ok());
}

TEST_F(Claims, UnprepareGivesBackAndMayBeRepeated) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 7);
  const Pod p = pod("c", {c});
  ASSERT_OK(node().end_pod(p));
  EXPECT_FALSE(node().claim_cpus(c).ok()) << "the CDI file must be gone";
  ASSERT_OK(node().end_pod(p));
  ASSERT_OK(node().delete_claim(c));
  const ClaimName next = claim("next", 7);
  EXPECT_EQ(cpus_of(pod("next", {next})).size(), 7U);
}

TEST_F(Claims, AreNotShared) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  Pod owner = pod("owner", {c});
  const auto thief = node().start_pod("thief", {c});
  ASSERT_FALSE(thief.ok());
  EXPECT_NE(thief.error().text.find(c.uid), std::string::npos) << thief.error().text;
  const auto sidecar = node().add_container(owner, "sidecar");
  ASSERT_FALSE(sidecar.ok());
  // The owner itself may come back.
  ASSERT_OK(node().runtime().remove(owner.containers.back()));
  ASSERT_OK(node().add_container(owner, "main"));
  EXPECT_EQ(cpus_of(owner), cpus_of(c));
}

TEST_F(Claims, AnEnvironmentIsNoProof) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  const Pod owner = pod("owner", {c});
  const std::string cpus = cpus_of(c).to_string();
  const CpuSet before = cpus_of(owner);
  const std::vector<std::string> forged{
      fmt::format("DRA_CPUSET_{}={}", c.uid, cpus),           // a claim that has an owner
      fmt::format("DRA_CPUSET_{}=0-7", c.uid),                // other CPUs
      "DRA_CPUSET_0f0f0f0f-0000-4000-8000-000000000004=6-7",  // nobody's claim
      fmt::format("DRA_CPUSET_{}=x", c.uid),                  // malformed
      fmt::format("DRA_CPUSET_{}", c.uid),                    // no value
  };
  for (const std::string& variable : forged) {
    SCOPED_TRACE(variable);
    const auto p = node().start_pod("forger", {}, {variable});
    EXPECT_FALSE(p.ok());
  }
  EXPECT_EQ(cpus_of(owner), before);
  EXPECT_OK(node().start_pod("harmless", {}, {"DRA_CPUSETS=1", "PATH=/bin"}));
  EXPECT_EQ(node().runtime().counts().failed_updates, 0U);
}

TEST_F(Claims, ThePoolIsNeverEmpty) {
  ASSERT_NO_FATAL_FAILURE(ready({.cores = 2}));  // 4 CPUs
  const Pod shared = pod("web");
  const ClaimName three = claim("three", 3);
  const Pod holder = pod("three", {three});
  const ClaimName last = claim("last", 1);
  const auto refused = node().start_pod("last", {last});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(cpus_of(shared).size(), 1U);
  ASSERT_OK(node().end_pod(holder));
  ASSERT_OK(node().delete_claim(three));
  EXPECT_EQ(cpus_of(pod("last", {last})).size(), 1U);
}

TEST_F(Claims, AHundredAtOnce) {
  ASSERT_NO_FATAL_FAILURE(ready({.sockets = 2, .cores = 32, .threads = 2}));  // 128 CPUs
  constexpr std::size_t kClaims = 100;
  std::vector<ClaimName> claims;
  for (std::size_t i = 0; i < kClaims; ++i) claims.push_back(claim(fmt::format("c{}", i), 1));
  std::vector<std::string> failures(kClaims);
  std::vector<std::thread> threads;
  const auto begun = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < kClaims; ++i) {
    threads.emplace_back([&, i] {
      const auto answer = node().kubelet().prepare(kDriverName, {claims[i]});
      if (!answer.ok()) {
        failures[i] = answer.error().text;
      } else if (const auto& one = answer->at(claims[i].uid); !one.ok()) {
        failures[i] = one.error().text;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  RecordProperty("seconds", fmt::format("{:.3f}", took.count()));
  EXPECT_LT(took.count(), 20.0) << "the kubelet waits 45 s";
  CpuSet taken;
  for (std::size_t i = 0; i < kClaims; ++i) {
    ASSERT_EQ(failures[i], "");
    const CpuSet one = cpus_of(claims[i]);
    EXPECT_EQ(one.size(), 1U);
    EXPECT_FALSE(one.intersects(taken));
    taken |= one;
  }
  EXPECT_EQ(taken.size(), kClaims);
}

TEST_F(Claims, AContainerInBackOffKeepsItsCpus) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  Pod p = pod("c", {c});
  const CpuSet before = cpus_of(p);
  ASSERT_OK(node().runtime().remove(p.containers.back()));  // crashed, waits for its next try
  const ClaimName other = claim("other", 3);
  EXPECT_FALSE(cpus_of(pod("other", {other})).intersects(before));
  EXPECT_FALSE(cpus_of(pod("web")).intersects(before));
  ASSERT_OK(node().add_container(p));
  EXPECT_EQ(cpus_of(p), before);
}

// The page follows claims, containers and refusals.
TEST_F(Claims, AreOnTheStatusPage) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const auto page = [&](const std::string& query) {
    const auto answer = node().probe("/" + query, Node::kStatusPage);
    return answer.ok() && answer->first == 200 ? answer->second : std::string();
  };
  EXPECT_NE(page("").find("No claim holds CPUs of this node."), std::string::npos);
  const ClaimName c = claim("trainer", 2);
  ASSERT_OK(node().kubelet().prepare(kDriverName, {c}));
  const CpuSet cpus = cpus_of(c);
  const std::string ask = fmt::format("?cpu={}", cpus.first()->get());
  EXPECT_NE(page(ask).find("claim demo/trainer, which no container has used yet."), std::string::npos)
      << page(ask);
  const Pod p = pod("job", {c});
  const std::string shown = page(ask);
  EXPECT_NE(shown.find("container &quot;"), std::string::npos) << shown;
  EXPECT_NE(shown.find("of pod demo/job"), std::string::npos) << shown;
  EXPECT_NE(shown.find("<td class=\"cpus\">" + cpus.to_string() + "</td>"), std::string::npos) << shown;
  const ClaimName missing{"demo", "missing", "0f0f0f0f-0000-4000-8000-000000000002"};
  ASSERT_OK(node().kubelet().prepare(kDriverName, {missing}));
  EXPECT_NE(page("").find("<td class=\"text\">claim demo/missing</td>"), std::string::npos);
  node().kill_driver();
  EXPECT_EQ(page(""), "");
  ASSERT_NO_FATAL_FAILURE(start_and_wait());
  EXPECT_NE(page(ask).find("of pod demo/job"), std::string::npos) << "after a restart too";
}

TEST_F(Claims, TheKubeletsOwnCpusetDoesNotWin) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  const Pod p = pod("c", {c});
  const Pod shared = pod("web");
  const CpuSet pool = cpus_of(shared);
  ASSERT_OK(node().runtime().update(p.containers.back(), "0-7"));
  ASSERT_OK(node().runtime().update(shared.containers.back(), "0-7"));
  ASSERT_OK(node().runtime().update(shared.containers.back(), ""));
  EXPECT_EQ(cpus_of(p), cpus_of(c));
  EXPECT_EQ(cpus_of(shared), pool);
}

TEST_F(Claims, TheGrownPoolIsPushedWhereThatIsSafe) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const Pod shared = pod("web");
  const ClaimName c = claim("c", 4);
  const Pod p = pod("c", {c});
  EXPECT_EQ(cpus_of(shared).size(), 4U);
  ASSERT_OK(node().end_pod(p));
  EXPECT_TRUE(eventually(seconds(5), [&] { return cpus_of(shared) == all_cpus(); }));
  EXPECT_GT(node().runtime().counts().unsolicited, 0U);
}

TEST_F(Claims, TheGrownPoolWaitsForAHookOnOldRuntimes) {
  NodeOptions old;
  old.runtime.nri_version = "";
  old.runtime.version = "v2.1.4";
  ASSERT_NO_FATAL_FAILURE(ready({}, std::move(old)));
  const Pod shared = pod("web");
  const ClaimName c = claim("c", 4);
  const Pod p = pod("c", {c});
  ASSERT_OK(node().end_pod(p));
  std::this_thread::sleep_for(seconds(3));
  EXPECT_EQ(cpus_of(shared).size(), 4U);
  EXPECT_EQ(node().runtime().counts().unsolicited, 0U);
  const Pod next = pod("next");
  EXPECT_EQ(cpus_of(next), all_cpus());
  ASSERT_OK(node().end_pod(next));
  EXPECT_EQ(cpus_of(shared), all_cpus());
}

}  // namespace
}  // namespace dracpu::sandbox
