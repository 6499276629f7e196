// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "ledger/ledger.h"

#include <gtest/gtest.h>

#include <deque>

namespace dracpu::ledger {
namespace {

Result<CpuSet> lowest(const CpuSet& free, std::size_t n) {
  if (free.size() < n) return make_error(Errc::kNoCapacity, "asked for {} CPUs, {} are free", n, free.size());
  return free.lowest(n);
}

// Eight CPUs, node 0 has 0-3, node 1 has 4-7; CPU 0 is reserved.
class LedgerTest : public ::testing::Test {
 protected:
  LedgerTest() : ledger_(CpuSet{0, 1, 2, 3, 4, 5, 6, 7}, CpuSet{0}, CpuSet{}, lowest) {}
  ~LedgerTest() override { EXPECT_EQ(ledger_.check(), ""); }

  static Request on(int node, std::size_t cpus, std::string request = "r") {
    return {std::move(request), "n1", node == 0 ? "cpudevnuma000" : "cpudevnuma001",
            std::nullopt,       cpus, node == 0 ? CpuSet{0, 1, 2, 3} : CpuSet{4, 5, 6, 7}};
  }
  Result<Claim> prepare(const std::string& uid, const std::vector<Request>& requests) {
    Result<Claim> c = ledger_.prepare(ClaimUid(uid), "ns", "claim-" + uid, requests);
    if (c.ok()) ledger_.commit(ClaimUid(uid));
    return c;
  }
  // A container's facts; the environment lives as long as the test.
  ContainerFacts box(const std::string& id, const std::string& pod, const std::string& name,
                     std::vector<std::string> env = {}, std::string cpus = "") {
    envs_.push_back(std::move(env));
    return {ContainerId(id), {PodUid(pod), name}, "ns/" + pod, &envs_.back(), std::move(cpus)};
  }
  static std::string var(const std::string& uid, const std::string& cpus) {
    return "DRA_CPUSET_" + uid + "=" + cpus;
  }

  Ledger ledger_;
  std::deque<std::vector<std::string>> envs_;
};

TEST_F(LedgerTest, PrepareTakesFromTheDeviceAndNeverReserved) {
  EXPECT_EQ(prepare("a", {on(0, 2)})->cpus.to_string(), "1-2");
  EXPECT_EQ(prepare("b", {on(1, 4)})->cpus.to_string(), "4-7");
  EXPECT_EQ(ledger_.pool().to_string(), "3");
  const Result<Claim> c = prepare("c", {on(0, 2)});
  ASSERT_FALSE(c.ok());
  EXPECT_EQ(c.error().code, Errc::kNoCapacity);
  EXPECT_NE(c.error().text.find("cpudevnuma000"), std::string::npos);
  EXPECT_NE(c.error().text.find("(3)"), std::string::npos) << "names what is free: " << c.error().text;
}

TEST_F(LedgerTest, SeveralResultsOfOneClaimDoNotOverlap) {
  const Result<Claim> c = prepare("a", {on(0, 1, "x"), on(0, 1, "y"), on(1, 1, "z")});
  ASSERT_TRUE(c.ok());
  EXPECT_EQ(c->cpus.to_string(), "1-2,4");
  EXPECT_EQ(c->grants.size(), 3U);
}

TEST_F(LedgerTest, PrepareAgainKeepsTheCpus) {
  const Result<Claim> first = prepare("a", {on(0, 2)});
  ASSERT_TRUE(prepare("b", {on(0, 1)}).ok());
  const Result<Claim> again = prepare("a", {on(0, 2)});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(first->cpus, again->cpus);
}

TEST_F(LedgerTest, ChangedAllocationIsPickedAnewUnlessOwned) {
  ASSERT_TRUE(prepare("a", {on(0, 2)}).ok());
  EXPECT_EQ(prepare("a", {on(1, 2)})->cpus.to_string(), "4-5");
  ASSERT_TRUE(ledger_.create(box("c1", "p1", "app", {var("a", "4-5")})).ok());
  const Result<Claim> changed = prepare("a", {on(0, 1)});
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().code, Errc::kConflict);
}

TEST_F(LedgerTest, AbortGivesBackAndCommittedStays) {
  ASSERT_TRUE(ledger_.prepare(ClaimUid("a"), "ns", "a", {on(0, 2)}).ok());
  ledger_.abort(ClaimUid("a"));
  EXPECT_EQ(ledger_.pool().to_string(), "1-7");
  ASSERT_TRUE(prepare("b", {on(0, 2)}).ok());
  ledger_.abort(ClaimUid("b"));
  EXPECT_EQ(ledger_.pool().to_string(), "3-7");
}

TEST_F(LedgerTest, ClaimThatWouldEmptyThePoolIsRefusedOnlyWhileSharedContainersRun) {
  ASSERT_TRUE(ledger_.create(box("s", "p0", "app")).ok());
  const Result<Claim> all = prepare("a", {on(0, 3), on(1, 4)});
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().code, Errc::kNoCapacity);
  EXPECT_TRUE(ledger_.claims().empty()) << "nothing is held after a refusal";
  EXPECT_TRUE(ledger_.remove(ContainerId("s")));
  ASSERT_TRUE(prepare("a", {on(0, 3), on(1, 4)}).ok());
  const Result<Placement> shared = ledger_.create(box("s2", "p0", "app"));
  ASSERT_FALSE(shared.ok()) << "an empty cpuset would mean: unchanged";
  EXPECT_EQ(shared.error().code, Errc::kNoCapacity);
}

TEST_F(LedgerTest, NothingManagedLeavesTheRuntimesDefault) {
  Ledger empty(CpuSet{}, CpuSet{}, CpuSet{}, lowest);
  const Result<Placement> p = empty.create(box("s", "p", "app"));
  ASSERT_TRUE(p.ok());
  EXPECT_TRUE(p->cpus.empty());
}

TEST_F(LedgerTest, OwnerIsPinnedAndSharedOnesShrink) {
  ASSERT_EQ(ledger_.create(box("s1", "p0", "one"))->cpus.to_string(), "1-7");
  ASSERT_EQ(ledger_.create(box("s2", "p0", "two"))->cpus.to_string(), "1-7");
  ASSERT_TRUE(prepare("a", {on(0, 2)}).ok());
  const Result<Placement> p = ledger_.create(box("o", "p1", "app", {var("a", "1-2")}));
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(p->kind, Kind::kExclusive);
  EXPECT_EQ(p->cpus.to_string(), "1-2");
  EXPECT_TRUE(p->new_owner);
  ASSERT_EQ(p->updates.size(), 2U);
  for (const Update& u : p->updates) {
    EXPECT_EQ(u.cpus.to_string(), "3-7");
    EXPECT_NE(u.id.get(), "o");
  }
  // The same container again, after a crash: no updates, the same CPUs.
  EXPECT_TRUE(ledger_.remove(ContainerId("o")));
  const Result<Placement> again = ledger_.create(box("o2", "p1", "app", {var("a", "1-2")}));
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->updates.empty());
  EXPECT_FALSE(again->new_owner);
  EXPECT_EQ(again->cpus.to_string(), "1-2");
}

TEST_F(LedgerTest, RefusedContainersChangeNothing) {
  ASSERT_TRUE(prepare("a", {on(0, 2)}).ok());
  ASSERT_TRUE(prepare("b", {on(1, 1)}).ok());
  ASSERT_TRUE(ledger_.create(box("o", "p1", "app", {var("a", "1-2")})).ok());
  struct Case {
    const char* about;
    ContainerFacts facts;
    Errc code;
    const char* names;
  };
  for (const Case& c : std::vector<Case>{
           {"another pod", box("x", "p2", "app", {var("a", "1-2")}), Errc::kConflict, "p1"},
           {"another container of the pod", box("x", "p1", "side", {var("a", "1-2")}), Errc::kConflict,
            "app"},
           {"another cpuset than the claim's", box("x", "p2", "app", {var("b", "5-6")}), Errc::kConflict,
            "5-6"},
           {"a claim that is not prepared", box("x", "p2", "app", {var("zz", "3")}), Errc::kConflict, "zz"},
           {"one good claim and one of somebody else",
            box("x", "p2", "app", {var("b", "4"), var("a", "1-2")}), Errc::kConflict, "p1"},
           {"malformed", box("x", "p2", "app", {"DRA_CPUSET_b=4,"}), Errc::kInvalidInput, "DRA_CPUSET_b"},
       }) {
    SCOPED_TRACE(c.about);
    const Result<Placement> p = ledger_.create(c.facts);
    ASSERT_FALSE(p.ok());
    EXPECT_EQ(p.error().code, c.code);
    EXPECT_NE(p.error().text.find(c.names), std::string::npos) << p.error().text;
    EXPECT_FALSE(ledger_.claims().at(ClaimUid("b")).owner.has_value());
    EXPECT_FALSE(ledger_.placement_of(ContainerId("x")).has_value());
  }
  ASSERT_TRUE(ledger_.create(box("y", "p2", "app", {var("b", "4")})).ok()) << "the real owner afterwards";
}

TEST_F(LedgerTest, ContainerWithTwoClaimsGetsBoth) {
  ASSERT_TRUE(prepare("a", {on(0, 2)}).ok());
  ASSERT_TRUE(prepare("b", {on(1, 1)}).ok());
  const Result<Placement> p = ledger_.create(box("o", "p1", "app", {var("a", "1-2"), var("b", "4")}));
  ASSERT_TRUE(p.ok());
  EXPECT_EQ(p->cpus.to_string(), "1-2,4");
  EXPECT_EQ(ledger_.placement_of(ContainerId("o"))->to_string(), "1-2,4");
}

TEST_F(LedgerTest, ReleaseGrowsThePoolAndMarksSharedOnesStale) {
  ledger_.create(box("s", "p0", "app")).value();
  ASSERT_TRUE(prepare("a", {on(0, 2)}).ok());
  ledger_.create(box("o", "p1", "app", {var("a", "1-2")})).value();
  EXPECT_EQ(ledger_.stale_count(), 0U);
  ledger_.remove(ContainerId("o"));
  EXPECT_TRUE(ledger_.release(ClaimUid("a")));
  EXPECT_FALSE(ledger_.release(ClaimUid("a")));
  ASSERT_EQ(ledger_.stale_count(), 1U);
  const std::vector<Update> grow = ledger_.stale(10);
  ASSERT_EQ(grow.size(), 1U);
  EXPECT_EQ(grow[0].cpus.to_string(), "1-7");
  ledger_.note_told(grow);
  EXPECT_EQ(ledger_.stale_count(), 0U);
  ledger_.forget_told({ContainerId("s"), ContainerId("unknown")});
  EXPECT_EQ(ledger_.stale_count(), 1U) << "an update that may be lost is sent again";
  EXPECT_TRUE(ledger_.stale(0).empty());
}

TEST_F(LedgerTest, ReleasedClaimIsNotItsOldContainersAgain) {
  // The end of the container is reported after the claim was unprepared and prepared again for another pod.
  ASSERT_TRUE(prepare("a", {on(0, 2)}).ok());
  ASSERT_TRUE(prepare("b", {on(1, 1)}).ok());
  ledger_.create(box("old", "p1", "app", {var("a", "1-2"), var("b", "4")})).value();
  EXPECT_TRUE(ledger_.release(ClaimUid("a")));
  ASSERT_TRUE(prepare("c", {on(0, 1)}).ok());
  EXPECT_EQ(prepare("a", {on(0, 2)})->cpus.to_string(), "2-3");
  EXPECT_EQ(ledger_.check(), "");
  EXPECT_EQ(ledger_.stale_count(), 0U) << "it is left as it is";
  EXPECT_TRUE(ledger_.stale(10).empty());
  EXPECT_EQ(ledger_.placement_of(ContainerId("old"))->to_string(), "4") << "what is still its own";
  EXPECT_EQ(ledger_.claims_without_container(), (std::vector<ClaimUid>{ClaimUid("a"), ClaimUid("c")}));
  ASSERT_TRUE(ledger_.create(box("new", "p2", "app", {var("a", "2-3")})).ok());
  EXPECT_EQ(ledger_.check(), "");
  EXPECT_TRUE(ledger_.remove(ContainerId("old")));
  EXPECT_EQ(ledger_.placement_of(ContainerId("new"))->to_string(), "2-3");
}

TEST_F(LedgerTest, AnOwnersRestartMovesWhoMayStillBeOnItsCpus) {
  // The claims held every CPU when the shared container was found, so it could not be moved then.
  ASSERT_TRUE(prepare("a", {on(0, 3)}).ok());
  ASSERT_TRUE(prepare("b", {on(1, 4)}).ok());
  ledger_.create(box("o", "p1", "app", {var("a", "1-3")})).value();
  EXPECT_TRUE(ledger_.synchronize({box("s", "p0", "app", {}, "0-7")}).updates.empty());
  EXPECT_TRUE(ledger_.release(ClaimUid("b")));
  const Result<Placement> again = ledger_.create(box("o2", "p1", "app", {var("a", "1-3")}));
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(again->new_owner);
  ASSERT_EQ(again->updates.size(), 1U);
  EXPECT_EQ(again->updates[0].cpus.to_string(), "4-7");
}

TEST_F(LedgerTest, AdoptedClaimTakesItsRequestsAtTheNextPrepare) {
  Claim old;
  old.cpus = CpuSet{2, 3};
  ASSERT_TRUE(ledger_.adopt(ClaimUid("a"), old).ok());
  Claim clash;
  clash.cpus = CpuSet{3, 4};
  const Status s = ledger_.adopt(ClaimUid("b"), clash);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Errc::kConflict);
  EXPECT_NE(s.error().text.find("claim a"), std::string::npos);
  const Result<Claim> again = prepare("a", {on(0, 2)});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->cpus.to_string(), "2-3");
  EXPECT_EQ(again->grants.size(), 1U);
}

TEST_F(LedgerTest, SynchronizeRebuildsContainersAndKeepsClaims) {
  ASSERT_TRUE(prepare("a", {on(0, 2)}).ok());
  ASSERT_TRUE(prepare("b", {on(1, 1)}).ok());
  const Synchronized s = ledger_.synchronize({
      box("s1", "p0", "one", {}, "0-7"),
      box("s2", "p0", "two", {}, "3,5-7"),
      box("o", "p1", "app", {var("a", "1-2")}, "1-2"),
      box("forged", "p2", "app", {var("zz", "6")}, "6"),
      box("bad", "p3", "app", {"DRA_CPUSET_x="}, ""),
      box("odd", "p4", "app", {var("b", "7")}, "7"),
  });
  EXPECT_EQ(s.exclusive, 1U);
  EXPECT_EQ(s.shared, 5U);
  EXPECT_EQ(s.findings.size(), 3U);
  std::map<std::string, std::string> updates;
  for (const Update& u : s.updates) updates[u.id.get()] = u.cpus.to_string();
  EXPECT_EQ(updates, (std::map<std::string, std::string>{
                         {"s1", "3,5-7"}, {"forged", "3,5-7"}, {"bad", "3,5-7"}, {"odd", "3,5-7"}}))
      << "s2 and the owner have the right set already";
  EXPECT_EQ(ledger_.claims_without_container(), std::vector<ClaimUid>{ClaimUid("b")});
  EXPECT_TRUE(ledger_.synchronize({}).updates.empty());
  EXPECT_EQ(ledger_.claims().size(), 2U) << "a claim outlives its container";
  EXPECT_EQ(ledger_.claims().at(ClaimUid("a")).owner->container, "app");
}

TEST_F(LedgerTest, SynchronizeWithTwoOwnersKeepsTheKnownOne) {
  ASSERT_TRUE(prepare("a", {on(0, 2)}).ok());
  ledger_.create(box("o", "p1", "app", {var("a", "1-2")})).value();
  const Synchronized s = ledger_.synchronize({
      box("thief", "p2", "app", {var("a", "1-2")}, "1-2"),
      box("o", "p1", "app", {var("a", "1-2")}, "1-2"),
  });
  EXPECT_EQ(s.exclusive, 1U);
  ASSERT_EQ(s.findings.size(), 1U);
  EXPECT_EQ(s.findings[0].id.get(), "thief");
  ASSERT_EQ(s.updates.size(), 1U);
  EXPECT_EQ(s.updates[0].id.get(), "thief");
  EXPECT_EQ(s.updates[0].cpus.to_string(), "3-7");
}

// The owner was not saved before a crash: the runtime's list has both, the copy first.
TEST_F(LedgerTest, SynchronizeWithoutAnOwnerBelievesTheContainerThatIsThere) {
  ASSERT_TRUE(prepare("a", {on(0, 2)}).ok());
  for (const std::string elsewhere : {"0-7", "", "3-7", "junk"}) {
    Ledger copy = ledger_;
    const Synchronized s = copy.synchronize({
        box("thief", "p2", "app", {var("a", "1-2")}, elsewhere),
        box("o", "p1", "app", {var("a", "1-2")}, "1-2"),
    });
    ASSERT_EQ(s.findings.size(), 1U) << elsewhere;
    EXPECT_EQ(s.findings[0].id.get(), "thief") << elsewhere;
    EXPECT_EQ(copy.claims().at(ClaimUid("a")).owner->pod.get(), "p1") << elsewhere;
  }
}

// Seen: a runtime that was killed lists the container without its pod, which it could not look at in time.
TEST_F(LedgerTest, AContainerWhosePodIsNotNamedIsWhoItWas) {
  ASSERT_TRUE(prepare("a", {on(0, 2)}).ok());
  ledger_.create(box("o", "p1", "app", {var("a", "1-2")})).value();
  ledger_.create(box("s", "p2", "web")).value();
  for (int round = 0; round < 2; ++round) {
    const Synchronized s =
        ledger_.synchronize({box("o", "", "app", {var("a", "1-2")}, "1-2"), box("s", "", "web", {}, "3-7"),
                             box("unknown", "", "app", {var("a", "1-2")}, "1-2")});
    EXPECT_EQ(s.exclusive, 1U);
    ASSERT_EQ(s.findings.size(), 1U);
    EXPECT_EQ(s.findings[0].id.get(), "unknown") << "a nameless stranger proves nothing";
    EXPECT_EQ(ledger_.claims().at(ClaimUid("a")).owner->pod.get(), "p1");
    EXPECT_EQ(ledger_.placement_of(ContainerId("o"))->to_string(), "1-2");
  }
}

TEST_F(LedgerTest, SynchronizeNeverSendsAnEmptySet) {
  ASSERT_TRUE(prepare("a", {on(0, 3), on(1, 4)}).ok());
  const Synchronized s = ledger_.synchronize(
      {box("s", "p0", "one", {}, "0-7"), box("o", "p1", "app", {var("a", "1-7")}, "1-7")});
  EXPECT_TRUE(s.updates.empty());
  EXPECT_EQ(s.shared, 1U);
  ASSERT_EQ(s.findings.size(), 1U) << "a person must know that it stays on the claim's CPUs";
  EXPECT_EQ(s.findings[0].what.code, Errc::kNoCapacity);
  EXPECT_EQ(ledger_.stale_count(), ledger_.stale(10).size()) << "nothing to tell, so nothing is late";
}

TEST_F(LedgerTest, AnExternalChoiceIsServedLowestFirstAndKept) {
  Request a = on(0, 2, "r");
  Request b = on(1, 2, "r");
  a.chosen = b.chosen = CpuSet{1, 3, 4, 7};
  const Result<Claim> got = prepare("a", {a, b});
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->cpus.to_string(), "1,3-4,7");
  EXPECT_EQ(prepare("a", {a, b})->cpus.to_string(), "1,3-4,7");

  Request c = on(1, 2, "s");
  c.chosen = CpuSet{4, 5};
  const Result<Claim> taken = prepare("c", {c});
  ASSERT_FALSE(taken.ok());
  EXPECT_EQ(taken.error().code, Errc::kNoCapacity);
  EXPECT_NE(taken.error().text.find("cannot be satisfied"), std::string::npos) << taken.error().text;
  Request elsewhere = on(0, 2, "s");
  elsewhere.chosen = CpuSet{5, 6};
  EXPECT_FALSE(prepare("c", {elsewhere}).ok()) << "the choice lies in another device";

  a.chosen = b.chosen = CpuSet{1, 2, 5, 6};
  EXPECT_EQ(prepare("a", {a, b})->cpus.to_string(), "1-2,5-6") << "chosen anew before anybody runs on it";

  Request first = on(1, 1, "first");
  Request second = on(1, 1, "second");
  first.chosen = second.chosen = CpuSet{7};
  const Result<Claim> twice = prepare("d", {first, second});
  ASSERT_FALSE(twice.ok());
  EXPECT_NE(twice.error().text.find("other requests of this claim take 7"), std::string::npos)
      << twice.error().text;
}

TEST_F(LedgerTest, NearCpusComeFirstAndTheRestFills) {
  Request r = on(1, 3);
  r.near = CpuSet{6, 7};
  EXPECT_EQ(prepare("a", {r})->cpus.to_string(), "4,6-7");
  r.near = CpuSet{5};
  r.cpus = 1;
  EXPECT_EQ(prepare("b", {r})->cpus.to_string(), "5");
}

TEST_F(LedgerTest, OfflineCpusLeaveThePoolNotTheClaim) {
  ledger_.create(box("s", "p0", "app")).value();
  ASSERT_TRUE(prepare("a", {on(0, 2)}).ok());
  const std::string variable = var("a", "1-2");
  ledger_.create(box("o", "p1", "app", {variable})).value();
  ledger_.set_machine(CpuSet{0, 1, 3, 4, 5}, CpuSet{2, 6, 7}, lowest);
  EXPECT_EQ(ledger_.pool().to_string(), "3-5");
  EXPECT_EQ(ledger_.claims().at(ClaimUid("a")).cpus.to_string(), "1-2");
  const std::vector<Update> updates = ledger_.stale(10);
  ASSERT_EQ(updates.size(), 2U);
  EXPECT_EQ(updates[0].id.get(), "o") << "claims first";
  EXPECT_EQ(updates[0].cpus.to_string(), "1");
  EXPECT_EQ(updates[1].cpus.to_string(), "3-5");
  ledger_.note_told(updates);
  EXPECT_EQ(ledger_.stale_count(), 0U);
  EXPECT_EQ(ledger_.placement_of(ContainerId("o"))->to_string(), "1");

  // The container starts again meanwhile: the variable still names both CPUs.
  ledger_.remove(ContainerId("o"));
  EXPECT_EQ(ledger_.create(box("o2", "p1", "app", {variable}))->cpus.to_string(), "1");
  ledger_.set_machine(CpuSet{0, 3, 4, 5}, CpuSet{1, 2, 6, 7}, lowest);
  EXPECT_EQ(ledger_.stale_count(), 0U) << "nothing can be told to it";
  ledger_.remove(ContainerId("o2"));
  const Result<Placement> none = ledger_.create(box("o3", "p1", "app", {variable}));
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Errc::kNoCapacity);
  const Synchronized sync = ledger_.synchronize({box("o2", "p1", "app", {variable}, "2")});
  ASSERT_EQ(sync.findings.size(), 1U);
  EXPECT_TRUE(sync.updates.empty()) << "never an empty set";

  // Back: told again, also where the kernel took the CPU out of the container's set for good (cgroup v1).
  ledger_.set_machine(CpuSet{0, 1, 2, 3, 4, 5, 6, 7}, {}, lowest);
  const std::vector<Update> healed = ledger_.stale(10);
  ASSERT_EQ(healed.size(), 1U);
  EXPECT_EQ(healed[0].cpus.to_string(), "1-2");
  EXPECT_EQ(prepare("b", {on(0, 1)})->cpus.to_string(), "3") << "the claim's CPUs were never given away";
}

}  // namespace
}  // namespace dracpu::ledger
