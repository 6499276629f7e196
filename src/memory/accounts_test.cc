// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/accounts.h"

#include <gtest/gtest.h>

#include "memory/environment.h"
#include "memory/test_claims.h"

namespace dracpu::memory {
namespace {

using config::MemoryMode;

const ClaimUid kUid("u-1");
const Owner kApp{PodUid("pod-1"), "app"};

class AccountsTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(accounts_.check(), ""); }

  Claim prepared(const ClaimFacts& facts, const ClaimUid& uid = kUid, const FreePages* free = nullptr) {
    Result<Claim> got = accounts_.prepare(uid, facts, free);
    EXPECT_TRUE(got.ok()) << got.error().text;
    return got.ok() ? std::move(got).value() : Claim();
  }
  void expect_refused(const ClaimFacts& facts, Errc code, const std::string& text, const ClaimUid& uid = kUid,
                      const FreePages* free = nullptr) {
    const auto before = accounts_.claims();
    const Result<Claim> got = accounts_.prepare(uid, facts, free);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, code);
    EXPECT_EQ(got.error().text, text);
    EXPECT_EQ(accounts_.claims(), before) << "a refusal changes nothing";
  }
  Bytes held(Kind of, std::int32_t node) const { return accounts_.held(of, NumaNodeId(node)); }

  Accounts accounts_{MemoryMode::kSeparate, two_nodes()};
};

TEST_F(AccountsTest, AClaimHoldsWhatItsResultsName) {
  const Claim claim = prepared(claim_of({result("memory-numa001", "512Mi")}));
  ASSERT_EQ(claim.grants.size(), 1U);
  EXPECT_EQ(claim.grants[0],
            (Grant{"main", "worker", "memory-numa001", std::nullopt, Kind(), NumaNodeId(1), 512_MiB}));
  EXPECT_EQ(claim.pod, PodUid("pod-1"));
  EXPECT_EQ(held(Kind(), 1), 512_MiB);
  EXPECT_EQ(
      format_environment(kUid, amounts_of(claim)),
      (std::vector<std::string>{"DRAMEMORY_u-1_NUMANodes=1", "DRAMEMORY_u-1_memory=numanode:1,size:512Mi"}));
}

TEST_F(AccountsTest, TheSameClaimAgainIsTheSameAnswer) {
  const ClaimFacts facts = claim_of({result("memory-numa001", "512Mi")});
  const Claim first = prepared(facts);
  EXPECT_EQ(prepared(facts), first);
  EXPECT_EQ(accounts_.claims().size(), 1U);
  EXPECT_EQ(held(Kind(), 1), 512_MiB);
  ClaimFacts late = facts;
  late.reserved_for.clear();
  EXPECT_EQ(prepared(late), first) << "a retry does not depend on who it is reserved for by now";
  accounts_.set_offers({});
  EXPECT_EQ(prepared(facts), first) << "nor on the device";
}

TEST_F(AccountsTest, AnotherAllocationUnderTheSameUidIsRefused) {
  prepared(claim_of({result("memory-numa001", "512Mi")}));
  const std::string text = "claim ns/c is already prepared with a different allocation";
  for (const ClaimFacts& other :
       {claim_of({result("memory-numa001", "513Mi")}), claim_of({result("memory-numa000", "512Mi")}),
        claim_of({result("memory-numa001", "512Mi", "other")}), claim_of({result("memory-numa001", "100m")}),
        claim_of({result("memory-numa001", "512Mi"), result("memory-numa001", "512Mi")})}) {
    expect_refused(other, Errc::kConflict, text);
  }
}

TEST_F(AccountsTest, SeveralResultsOfOneClaimAreAllKept) {
  const Claim claim =
      prepared(claim_of({result("hugepages-2mi-numa000", "64Mi"), result("hugepages-1gi-numa000", "2Gi"),
                         result("memory-numa000", "64Mi"), result("memory-numa000", "64Mi", "more"),
                         result("memory-numa001", "1Gi")}));
  EXPECT_EQ(claim.grants.size(), 5U);
  EXPECT_EQ(
      amounts_of(claim),
      amounts_on(
          {{kind(2_MiB), 0, 64_MiB}, {kind(1_GiB), 0, 2_GiB}, {Kind(), 0, 128_MiB}, {Kind(), 1, 1_GiB}}));
  EXPECT_EQ(held(Kind(), 0), 128_MiB);
}

TEST_F(AccountsTest, ResultsOfOneDeviceMustFitTogether) {
  expect_refused(claim_of({result("hugepages-1gi-numa000", "3Gi"), result("hugepages-1gi-numa000", "2Gi")}),
                 Errc::kNoCapacity,
                 "claim ns/c: device \"hugepages-1gi-numa000\": 5Gi requested, 4Gi of 4Gi left");
  expect_refused(
      claim_of({result("memory-numa000", "7Ei"), result("memory-numa000", "7Ei"),
                result("memory-numa000", "7Ei")}),
      Errc::kNoCapacity,
      "claim ns/c: device \"memory-numa000\": 18446744073709551615 requested, 57132Mi of 57132Mi left");
}

TEST_F(AccountsTest, RefusesWhatCanNeverBeServed) {
  AllocationResult without = result("memory-numa000", "1Mi");
  without.consumed = {{"dra.memory/size", Quantity(4096)}};
  AllocationResult admin = result("memory-numa000", "1Mi");
  admin.admin_access = true;
  struct Case {
    const char* about;
    ClaimFacts facts;
    const char* text;
  };
  const auto reserved = [](std::vector<Consumer> consumers) {
    ClaimFacts facts = claim_of({result("memory-numa000", "1Mi")});
    facts.reserved_for = std::move(consumers);
    return facts;
  };
  for (const Case& c : std::vector<Case>{
           {"no consumer", reserved({}),
            "claim ns/c is reserved for 0 consumers, memory claims serve exactly one pod"},
           {"two pods", reserved({{"pods", PodUid("a")}, {"pods", PodUid("b")}}),
            "claim ns/c is reserved for 2 consumers, memory claims serve exactly one pod"},
           {"no pod", reserved({{"podgroups", PodUid("a")}}),
            "claim ns/c is reserved for a podgroups, memory claims serve exactly one pod"},
           {"the consumer comes before the results",
            {.ns = "ns", .name = "c", .reserved_for = {}, .results = {result("memory-x7k2qp", "1Mi")}},
            "claim ns/c is reserved for 0 consumers, memory claims serve exactly one pod"},
           {"an unknown device", claim_of({result("memory-x7k2qp", "512Mi")}),
            "claim ns/c: device \"memory-x7k2qp\" is not a memory device of this node"},
           {"no size", claim_of({without}),
            "claim ns/c: device \"memory-numa000\" has no consumed capacity \"size\", check feature gate "
            "DRAConsumableCapacity"},
           {"a fraction", claim_of({result("memory-numa000", "100m")}),
            "claim ns/c: device \"memory-numa000\": consumed capacity 100m is not a positive whole number of "
            "bytes"},
           {"zero", claim_of({result("memory-numa000", "0")}),
            "claim ns/c: device \"memory-numa000\": consumed capacity 0 is not a positive whole number of "
            "bytes"},
           {"less than nothing", claim_of({result("memory-numa000", "-4Ki")}),
            "claim ns/c: device \"memory-numa000\": consumed capacity -4Ki is not a positive whole number of "
            "bytes"},
           {"half pages", claim_of({result("hugepages-2mi-numa000", "3Mi")}),
            "claim ns/c: device \"hugepages-2mi-numa000\": 3Mi is not a multiple of the page size 2Mi"},
           {"decimal amounts are not page aligned", claim_of({result("memory-numa000", "1e9")}),
            "claim ns/c: device \"memory-numa000\": 1e9 is not a multiple of the page size 4Ki"},
           {"the same with a suffix", claim_of({result("memory-numa000", "1G")}),
            "claim ns/c: device \"memory-numa000\": 1G is not a multiple of the page size 4Ki"},
           {"admin access", claim_of({admin}),
            "claim ns/c: admin access is not supported for memory devices"},
       }) {
    SCOPED_TRACE(c.about);
    expect_refused(c.facts, Errc::kInvalidInput, c.text);
  }
  ClaimFacts unallocated = claim_of({});
  unallocated.is_allocated = false;
  expect_refused(unallocated, Errc::kUnavailable, "claim ns/c has no allocation");
}

TEST_F(AccountsTest, AmountsAreReadAsKubernetesWritesThem) {
  EXPECT_EQ(amounts_of(prepared(claim_of({result("memory-numa000", "0.5Gi")}))),
            amounts_on({{Kind(), 0, Bytes{536870912}}}));
}

TEST_F(AccountsTest, WhatIsHeldIsNotGivenTwice) {
  prepared(claim_of({result("memory-numa000", "55Gi")}));
  expect_refused(claim_of({result("memory-numa000", "1Gi")}), Errc::kNoCapacity,
                 "claim ns/c: device \"memory-numa000\": 1Gi requested, 812Mi of 57132Mi left",
                 ClaimUid("u-2"));
  prepared(claim_of({result("memory-numa000", "812Mi")}), ClaimUid("u-2"));
  EXPECT_EQ(held(Kind(), 0), 57132_MiB);
  EXPECT_TRUE(accounts_.release(kUid));
  EXPECT_EQ(held(Kind(), 0), 812_MiB);
}

TEST_F(AccountsTest, HugepagesMustBeFreeInTheKernel) {
  const ClaimFacts facts = claim_of({result("hugepages-2mi-numa000", "64Mi")});
  const FreePages few{{{kind(2_MiB), NumaNodeId(0)}, 10}};
  expect_refused(facts, Errc::kNoCapacity, "claim ns/c: NUMA node 0 has 10 free pages of 2Mi, 32 needed",
                 kUid, &few);
  const FreePages unknown;
  expect_refused(facts, Errc::kNoCapacity, "claim ns/c: NUMA node 0 has 0 free pages of 2Mi, 32 needed", kUid,
                 &unknown);
  prepared(facts, ClaimUid("unverified"));
  topology::MemoryAmounts node = worked_node();
  node.hugepages[0].free = 32;
  const FreePages enough = free_pages_of(machine_of({{0, node}}));
  prepared(facts, kUid, &enough);
  prepared(claim_of({result("memory-numa000", "1Gi")}), ClaimUid("base"), &unknown);
}

TEST_F(AccountsTest, NothingOfOursIsAnEmptyAnswer) {
  const Claim claim = prepared(claim_of({}));
  EXPECT_TRUE(claim.grants.empty());
  EXPECT_TRUE(accounts_.claims().empty());
}

TEST_F(AccountsTest, AbortGivesBackUntilCommitted) {
  prepared(claim_of({result("memory-numa000", "1Gi")}));
  accounts_.abort(kUid);
  EXPECT_TRUE(accounts_.claims().empty());
  EXPECT_EQ(held(Kind(), 0), Bytes{});
  prepared(claim_of({result("memory-numa000", "1Gi")}));
  accounts_.commit(kUid);
  accounts_.abort(kUid);
  EXPECT_EQ(held(Kind(), 0), 1_GiB);
}

TEST_F(AccountsTest, ReleaseOfAnUnknownClaimIsNoError) { EXPECT_FALSE(accounts_.release(kUid)); }

TEST_F(AccountsTest, AClaimHasOneOwner) {
  prepared(claim_of({result("memory-numa000", "1Gi")}));
  EXPECT_EQ(accounts_.bind({kUid}, kApp), std::vector<ClaimUid>{kUid});
  EXPECT_TRUE(accounts_.check_owner(kUid, kApp).ok()) << "a restart";
  EXPECT_TRUE(accounts_.bind({kUid}, kApp).empty());
  EXPECT_EQ(accounts_.claims_of(kApp), std::vector<ClaimUid>{kUid});
  const Status second = accounts_.check_owner(kUid, {PodUid("pod-1"), "sidecar"});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Errc::kConflict);
  EXPECT_EQ(second.error().text, "claim u-1 already belongs to pod pod-1 container \"app\"");
  accounts_.unbind({kUid});
  EXPECT_TRUE(accounts_.check_owner(kUid, {PodUid("pod-1"), "sidecar"}).ok());
}

TEST_F(AccountsTest, AdoptedAmountsCountAndTakeTheirOwnersPod) {
  ASSERT_TRUE(accounts_.adopt(kUid, adopted_claim(amounts_on({{kind(2_MiB), 1, 64_MiB}}))).ok());
  EXPECT_EQ(held(kind(2_MiB), 1), 64_MiB);
  EXPECT_TRUE(pod_of(accounts_.claims().at(kUid)).get().empty());
  accounts_.bind({kUid}, kApp);
  EXPECT_EQ(pod_of(accounts_.claims().at(kUid)), PodUid("pod-1"));
  EXPECT_EQ(accounts_.adopt(kUid, adopted_claim(amounts_on({{Kind(), 0, 1_MiB}}))).error().code,
            Errc::kConflict);
}

TEST_F(AccountsTest, AnAdoptedClaimTakesOverItsResults) {
  ASSERT_TRUE(accounts_.adopt(kUid, adopted_claim(amounts_on({{kind(2_MiB), 1, 64_MiB}}))).ok());
  accounts_.bind({kUid}, kApp);
  expect_refused(claim_of({result("hugepages-2mi-x7k2qp", "64Mi")}), Errc::kInvalidInput,
                 "claim ns/c: device \"hugepages-2mi-x7k2qp\" is not a memory device of this node");
  expect_refused(claim_of({result("hugepages-2mi-numa001", "32Mi")}), Errc::kConflict,
                 "claim ns/c is already prepared with a different allocation");
  expect_refused(claim_of({result("hugepages-2mi-numa001", "64Mi")}, "pod-2"), Errc::kConflict,
                 "claim ns/c is already prepared with a different allocation");
  const Claim claim = prepared(claim_of({result("hugepages-2mi-numa001", "64Mi")}));
  EXPECT_EQ(claim.grants[0].device, "hugepages-2mi-numa001");
  EXPECT_EQ(claim.owner, kApp);
  EXPECT_TRUE(claim.committed);
  EXPECT_EQ(held(kind(2_MiB), 1), 64_MiB);
}

TEST_F(AccountsTest, WhatCannotBeCountedIsNotAdopted) {
  const Amounts most = amounts_on({{Kind(), 0, kMostBytes}});
  EXPECT_TRUE(accounts_.adopt(kUid, adopted_claim(most)).ok());
  EXPECT_EQ(accounts_.adopt(ClaimUid("u-2"), adopted_claim(most)).error().code, Errc::kCorrupt);
  EXPECT_EQ(accounts_.adopt(ClaimUid("u-3"), Claim()).error().code, Errc::kCorrupt);
  EXPECT_TRUE(accounts_.release(kUid));
  EXPECT_EQ(held(Kind(), 0), Bytes{});
}

TEST_F(AccountsTest, ASpanThatShrinksBelowItsClaimsIsNotHealthy) {
  prepared(claim_of({result("hugepages-2mi-numa000", "1Gi")}));
  accounts_.set_offers({offer(Kind(), 0, 57132_MiB), offer(kind(2_MiB), 0, 512_MiB)});
  std::vector<Standing> standings = accounts_.standings();
  ASSERT_EQ(standings.size(), 2U);
  EXPECT_TRUE(standings[0].is_healthy());
  EXPECT_FALSE(standings[1].is_healthy());
  EXPECT_EQ(standings[1].left(), Bytes{});
  expect_refused(claim_of({result("hugepages-2mi-numa000", "2Mi")}), Errc::kNoCapacity,
                 "claim ns/c: device \"hugepages-2mi-numa000\": 2Mi requested, 0 of 512Mi left",
                 ClaimUid("u-2"));
  accounts_.set_offers({});
  standings = accounts_.standings();
  ASSERT_EQ(standings.size(), 1U);
  EXPECT_EQ(standings[0].device, "");
  EXPECT_EQ(standings[0].held, 1_GiB);
  EXPECT_FALSE(standings[0].is_healthy());
  EXPECT_TRUE(accounts_.release(kUid));
  EXPECT_TRUE(accounts_.standings().empty());
}

// Accounts that were filled from a file are those that were written to it.
TEST_F(AccountsTest, AreRebuiltFromTheirClaims) {
  prepared(claim_of({result("memory-numa000", "1Gi")}));
  prepared(claim_of({result("hugepages-2mi-numa001", "64Mi")}, "pod-2"), ClaimUid("u-2"));
  accounts_.commit(kUid);
  accounts_.commit(ClaimUid("u-2"));
  accounts_.bind({kUid}, kApp);
  Accounts again(MemoryMode::kSeparate, two_nodes());
  for (const auto& [uid, claim] : accounts_.claims()) ASSERT_TRUE(again.adopt(uid, claim).ok());
  EXPECT_EQ(again.claims(), accounts_.claims());
  EXPECT_EQ(again.held(Kind(), NumaNodeId(0)), 1_GiB);
  EXPECT_EQ(again.check(), "");
  EXPECT_EQ(again.prepare(kUid, claim_of({result("memory-numa000", "1Gi")}), nullptr).value(),
            accounts_.claims().at(kUid));
}

class CombinedAccountsTest : public AccountsTest {
 protected:
  CombinedAccountsTest() {
    const auto on = [](Kind of, Bytes page, Bytes capacity) {
      return Offer{"cpudevnuma000", combined_key(of), of, NumaNodeId(0), page, capacity};
    };
    accounts_ =
        Accounts(MemoryMode::kCombined, {on(Kind(), 4_KiB, 57132_MiB), on(kind(2_MiB), 2_MiB, 2_GiB)});
  }
  static ClaimFacts claim(std::map<std::string, Quantity> consumed, std::string device = "cpudevnuma000") {
    return claim_of({{.request = "slot",
                      .pool = "worker",
                      .device = std::move(device),
                      .consumed = std::move(consumed)}});
  }
  static Quantity amount(std::string_view text) { return Quantity::parse(text).value(); }
};

TEST_F(CombinedAccountsTest, CpusAloneHoldNothing) {
  ClaimFacts shared = claim({{"dra.cpu/cpu", amount("8")}, {"dra.memory/memory", amount("0")}});
  shared.reserved_for = {{"pods", PodUid("a")}, {"pods", PodUid("b")}};
  EXPECT_TRUE(prepared(shared).grants.empty());
  EXPECT_TRUE(prepared(claim({{"dra.cpu/cpu", amount("8")}}, "cpudevnuma007")).grants.empty());
  EXPECT_TRUE(accounts_.claims().empty());
}

TEST_F(CombinedAccountsTest, MemoryComesWithTheCpusOfOneResult) {
  const ClaimFacts facts = claim({{"dra.cpu/cpu", amount("8")},
                                  {"dra.memory/memory", amount("16Gi")},
                                  {"dra.memory/hugepages_2Mi", amount("1Gi")}});
  const Claim got = prepared(facts);
  EXPECT_EQ(amounts_of(got), amounts_on({{Kind(), 0, 16_GiB}, {kind(2_MiB), 0, 1_GiB}}));
  EXPECT_EQ(prepared(facts), got);
  expect_refused(claim({{"dra.cpu/cpu", amount("8")}, {"dra.memory/memory", amount("16Gi")}}),
                 Errc::kConflict, "claim ns/c is already prepared with a different allocation");
}

// RULINGS 7: what was granted stays as it is, and nothing new comes before it has ended.
TEST_F(CombinedAccountsTest, ClaimsOfTheOtherModeKeepTheirsAndHoldUpNewOnes) {
  const ClaimFacts with_cpus = claim({{"dra.cpu/cpu", amount("8")}, {"dra.memory/memory", amount("1Gi")}});
  const ClaimFacts alone = claim_of({result("memory-numa000", "1Gi")});
  const Claim of_cpus = prepared(with_cpus);
  Accounts separate(MemoryMode::kSeparate, two_nodes());
  const Claim of_memory = separate.prepare(ClaimUid("u-2"), alone, nullptr).value();
  EXPECT_EQ(mode_of(of_cpus), MemoryMode::kCombined);
  EXPECT_EQ(mode_of(of_memory), MemoryMode::kSeparate);
  EXPECT_EQ(mode_of(adopted_claim(amounts_on({{Kind(), 0, 1_GiB}}))), std::nullopt);
  EXPECT_TRUE(accounts_.check_mode().ok());

  ASSERT_TRUE(accounts_.adopt(ClaimUid("u-2"), of_memory).ok());
  EXPECT_EQ(accounts_.claims_of_other_mode(), std::vector<ClaimUid>{ClaimUid("u-2")});
  EXPECT_EQ(accounts_.prepare(ClaimUid("u-2"), alone, nullptr).value(), of_memory);
  EXPECT_EQ(prepared(with_cpus), of_cpus);
  const Result<Claim> fresh = accounts_.prepare(ClaimUid("u-3"), with_cpus, nullptr);
  ASSERT_FALSE(fresh.ok());
  EXPECT_EQ(fresh.error().code, Errc::kConflict);
  EXPECT_EQ(fresh.error().text,
            "memory.mode is \"combined\" and 1 claims hold memory of mode \"separate\", first ns/c (u-2); "
            "nothing new is prepared until they end or memory.mode is set back");
  EXPECT_TRUE(accounts_.release(ClaimUid("u-2")));
  EXPECT_TRUE(accounts_.prepare(ClaimUid("u-3"), with_cpus, nullptr).ok());

  ASSERT_TRUE(separate.adopt(kUid, of_cpus).ok());
  EXPECT_EQ(separate.prepare(kUid, with_cpus, nullptr).value(), of_cpus);
  EXPECT_FALSE(separate.prepare(ClaimUid("u-3"), alone, nullptr).ok());
}

TEST_F(CombinedAccountsTest, RefusalsNameTheCapacity) {
  expect_refused(
      claim({{"dra.memory/hugepages_2Mi", amount("3Mi")}}), Errc::kInvalidInput,
      "claim ns/c: device \"cpudevnuma000\", dra.memory/hugepages_2Mi: 3Mi is not a multiple of the page "
      "size 2Mi");
  expect_refused(
      claim({{"dra.memory/memory", amount("1500m")}}), Errc::kInvalidInput,
      "claim ns/c: device \"cpudevnuma000\", dra.memory/memory: consumed capacity 1500m is not a positive "
      "whole number of bytes");
  expect_refused(
      claim({{"dra.memory/hugepages_2Mi", amount("4Gi")}}), Errc::kNoCapacity,
      "claim ns/c: device \"cpudevnuma000\", dra.memory/hugepages_2Mi: 4Gi requested, 2Gi of 2Gi left");
  expect_refused(claim({{"dra.memory/hugepages_1Gi", amount("1Gi")}}), Errc::kInvalidInput,
                 "claim ns/c: device \"cpudevnuma000\" is not a memory device of this node");
}

}  // namespace
}  // namespace dracpu::memory
