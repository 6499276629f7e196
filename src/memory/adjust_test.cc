// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/adjust.h"

#include <gtest/gtest.h>

#include "memory/environment.h"
#include "memory/test_claims.h"

namespace dracpu::memory {
namespace {

using config::HugetlbEnforcement;
using config::MemoryLimitPolicy;
using Limits = std::map<std::string, std::uint64_t>;

const Owner kApp{PodUid("pod-1"), "app"};

class AdjustTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(accounts_.check(), ""); }

  // Prepares a claim of pod-1; its variables are added to those of the container.
  ClaimUid given(const std::string& uid, std::vector<AllocationResult> results) {
    const Result<Claim> claim = accounts_.prepare(ClaimUid(uid), claim_of(std::move(results)), nullptr);
    EXPECT_TRUE(claim.ok()) << claim.error().text;
    for (std::string& entry : format_environment(ClaimUid(uid), amounts_of(*claim)))
      env_.push_back(std::move(entry));
    return ClaimUid(uid);
  }
  ContainerFacts container(Resources resources = {}, Owner who = kApp) const {
    return {.who = std::move(who), .env = &env_, .resources = std::move(resources)};
  }
  Adjustment placed(Resources resources = {}) const {
    const Result<Placement> got = place(accounts_, container(std::move(resources)), nodes_, policy_);
    EXPECT_TRUE(got.ok()) << got.error().text;
    return got.ok() ? got->adjustment : Adjustment();
  }
  void expect_refused(const ContainerFacts& facts, Errc code, const std::string& text) const {
    const Result<Placement> got = place(accounts_, facts, nodes_, policy_);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, code);
    EXPECT_EQ(got.error().text, text);
  }

  Accounts accounts_{config::MemoryMode::kSeparate, two_nodes()};
  std::vector<std::string> env_{"PATH=/bin"};
  std::set<NumaNodeId> nodes_{NumaNodeId(0), NumaNodeId(1)};
  Policy policy_;
};

TEST_F(AdjustTest, WithoutAClaimNothingIsTouched) {
  const Result<Placement> got = place(accounts_, container({.mems = "0"}), nodes_, policy_);
  ASSERT_TRUE(got.ok());
  EXPECT_TRUE(got->claims.empty());
  EXPECT_TRUE(got->adjustment.is_empty());
}

TEST_F(AdjustTest, NodesAreThoseOfAllClaims) {
  const ClaimUid first = given("u-1", {result("memory-numa001", "512Mi")});
  EXPECT_EQ(placed(), (Adjustment{.mems = "1"}));
  const ClaimUid second = given("u-2", {result("memory-numa000", "512Mi")});
  EXPECT_EQ(placed(), (Adjustment{.mems = "0-1"}));
  EXPECT_EQ(place(accounts_, container(), nodes_, policy_)->claims, (std::vector<ClaimUid>{first, second}));
}

TEST_F(AdjustTest, HugepageLimitsOfSeveralClaimsAddUp) {
  given("u-1", {result("hugepages-2mi-numa000", "64Mi")});
  given("u-2", {result("hugepages-2mi-numa000", "32Mi")});
  EXPECT_EQ(placed().hugepage_limits, (Limits{{"2MB", (96_MiB).count}}));
}

TEST_F(AdjustTest, TwoSizesOfOneClaimHaveTwoLimits) {
  given("u-1", {result("hugepages-2mi-numa000", "64Mi"), result("hugepages-1gi-numa000", "2Gi")});
  EXPECT_EQ(placed().hugepage_limits, (Limits{{"1GB", (2_GiB).count}, {"2MB", (64_MiB).count}}));
}

TEST_F(AdjustTest, LimitsOfTheKubeletAreNeverLowered) {
  given("u-1", {result("hugepages-2mi-numa000", "64Mi")});
  for (const auto& [incoming, limit] : std::initializer_list<std::pair<Bytes, Bytes>>{
           {128_MiB, 128_MiB}, {64_MiB, 64_MiB}, {Bytes{}, 64_MiB}, {32_MiB, 64_MiB}}) {
    const Resources resources{.mems = "", .hugepage_limits = {{"2MB", incoming.count}, {"1GB", 0}}};
    EXPECT_EQ(placed(resources).hugepage_limits, (Limits{{"2MB", limit.count}}));
  }
}

TEST_F(AdjustTest, WithoutEnforcementThereAreNoLimits) {
  policy_.hugetlb = HugetlbEnforcement::kNone;
  given("u-1", {result("hugepages-2mi-numa000", "64Mi")});
  EXPECT_EQ(placed(), (Adjustment{.mems = "0"}));
}

TEST_F(AdjustTest, AMemoryLimitIsSetOnlyWhereThereIsNone) {
  given("u-1", {result("memory-numa000", "512Mi")});
  given("u-2", {result("memory-numa000", "256Mi"), result("hugepages-2mi-numa000", "64Mi")});
  EXPECT_FALSE(placed().memory_limit.has_value());
  policy_.limit = MemoryLimitPolicy::kWhenUnset;
  EXPECT_EQ(placed().memory_limit, std::int64_t{768} << 20U);
  for (const std::int64_t unset : {0, -1}) {
    EXPECT_EQ(placed({.mems = "", .memory_limit = unset}).memory_limit, std::int64_t{768} << 20U);
  }
  EXPECT_FALSE(placed({.mems = "", .memory_limit = std::int64_t{1} << 30U}).memory_limit.has_value());
}

TEST_F(AdjustTest, HugepagesAloneSetNoMemoryLimit) {
  policy_.limit = MemoryLimitPolicy::kWhenUnset;
  given("u-1", {result("hugepages-2mi-numa000", "64Mi")});
  EXPECT_FALSE(placed().memory_limit.has_value());
}

TEST_F(AdjustTest, AVariableIsNoProof) {
  given("u-1", {result("memory-numa001", "512Mi")});
  const std::vector<std::string> good = env_;
  expect_refused(container({}, {PodUid("pod-2"), "app"}), Errc::kConflict,
                 "container \"app\": claim u-1 is not prepared for this pod");
  env_ = {"DRAMEMORY_u-9_NUMANodes=0", "DRAMEMORY_u-9_memory=numanode:0,size:1Gi"};
  expect_refused(container(), Errc::kConflict, "container \"app\": claim u-9 is not prepared for this pod");
  env_ = {good[1], "DRAMEMORY_u-1_memory=numanode:1,size:1Gi"};
  expect_refused(container(), Errc::kConflict,
                 "container \"app\": claim u-1 differs from its prepared allocation");
  env_ = {good[1], "DRAMEMORY_u-1_memory=lots"};
  expect_refused(container(), Errc::kInvalidInput,
                 "container \"app\": malformed variable DRAMEMORY_u-1_memory");
  env_ = good;
  EXPECT_EQ(placed().mems, "1") << "the claim's own container is not harmed";
}

TEST_F(AdjustTest, ASecondContainerIsRefusedAndARestartIsNot) {
  const ClaimUid uid = given("u-1", {result("memory-numa001", "512Mi")});
  accounts_.bind({uid}, kApp);
  EXPECT_EQ(placed().mems, "1");
  expect_refused(container({}, {PodUid("pod-1"), "sidecar"}), Errc::kConflict,
                 "claim u-1 already belongs to pod pod-1 container \"app\"");
}

TEST_F(AdjustTest, ANodeMustHaveItsMemory) {
  given("u-1", {result("memory-numa001", "512Mi")});
  nodes_ = {NumaNodeId(0)};
  expect_refused(container(), Errc::kUnavailable, "container \"app\": NUMA node 1 has no online memory");
}

TEST_F(AdjustTest, WhoeverPinnedBeforeMustAgree) {
  given("u-1", {result("memory-numa001", "512Mi")});
  EXPECT_EQ(placed({.mems = "1"}).mems, "1");
  for (const char* mems : {"0", "0-1", "all"}) {
    expect_refused(
        container({.mems = mems}), Errc::kConflict,
        fmt::format("container \"app\": cpuset.mems is already \"{}\", set memoryManagerPolicy None", mems));
  }
}

TEST_F(AdjustTest, SynchronizeChangesOnlyWhatDiffers) {
  struct Case {
    const char* about;
    Resources resources;
    std::optional<Adjustment> update;
  };
  given("u-1", {result("memory-numa001", "512Mi"), result("hugepages-2mi-numa001", "64Mi")});
  for (const Case& c : std::vector<Case>{
           {"all as it should be", {.mems = "1", .hugepage_limits = {{"2MB", (64_MiB).count}}}, std::nullopt},
           {"a limit above ours", {.mems = "1", .hugepage_limits = {{"2MB", (1_GiB).count}}}, std::nullopt},
           {"a runtime without limits", {.mems = "1"}, std::nullopt},
           {"other nodes",
            {.mems = "0", .hugepage_limits = {{"2MB", (64_MiB).count}}},
            Adjustment{.mems = "1"}},
           {"no nodes", {.mems = "", .hugepage_limits = {{"2MB", (64_MiB).count}}}, Adjustment{.mems = "1"}},
           {"a limit below ours",
            {.mems = "1", .hugepage_limits = {{"2MB", 0}}},
            Adjustment{.mems = "", .hugepage_limits = {{"2MB", (64_MiB).count}}}},
       }) {
    SCOPED_TRACE(c.about);
    const Synchronized got = synchronize(accounts_, {container(c.resources)}, policy_);
    EXPECT_TRUE(got.findings.empty());
    EXPECT_EQ(got.updates.size(), c.update ? 1U : 0U);
    if (c.update && got.updates.size() == 1) {
      EXPECT_EQ(got.updates[0].index, 0U);
      EXPECT_EQ(got.updates[0].adjustment, *c.update);
    }
    EXPECT_EQ(got.without_limit.size(), c.resources.hugepage_limits.empty() ? 1U : 0U);
  }
}

TEST_F(AdjustTest, SynchronizeBindsOwnersAndSuppliesThePod) {
  const ClaimUid uid("old");
  ASSERT_TRUE(accounts_.adopt(uid, adopted_claim(amounts_on({{Kind(), 1, 512_MiB}}))).ok());
  for (std::string& entry : format_environment(uid, amounts_on({{Kind(), 1, 512_MiB}})))
    env_.push_back(entry);
  const Synchronized got = synchronize(accounts_, {container({.mems = "1"})}, policy_);
  EXPECT_EQ(got.bound, std::vector<ClaimUid>{uid});
  EXPECT_EQ(accounts_.claims().at(uid).owner, kApp);
  EXPECT_TRUE(synchronize(accounts_, {container({.mems = "1"})}, policy_).bound.empty());
  expect_refused(container({}, {PodUid("pod-2"), "app"}), Errc::kConflict,
                 "container \"app\": claim old is not prepared for this pod");
}

TEST_F(AdjustTest, SynchronizePrefersTheContainerThatIsPinned) {
  const ClaimUid uid = given("u-1", {result("memory-numa001", "512Mi")});
  const std::vector<std::string> plain{"PATH=/bin"};
  const Owner other{PodUid("pod-1"), "other"};
  const Synchronized got = synchronize(accounts_,
                                       {container({.mems = "0-1"}, other),
                                        {.who = kApp, .env = &plain, .resources = {}},
                                        container({.mems = "1"})},
                                       policy_);
  EXPECT_EQ(accounts_.claims().at(uid).owner, kApp);
  ASSERT_EQ(got.findings.size(), 1U);
  EXPECT_EQ(got.findings[0].index, 0U);
  EXPECT_EQ(got.findings[0].what.text, "claim u-1 already belongs to pod pod-1 container \"app\"");
  EXPECT_TRUE(got.updates.empty()) << "a container that does not own the claim is left alone";
}

TEST_F(AdjustTest, SynchronizeGoesOnAfterAMalformedContainer) {
  given("u-1", {result("memory-numa001", "512Mi")});
  const std::vector<std::string> broken{"DRAMEMORY_x=1"};
  const Synchronized got = synchronize(
      accounts_, {{.who = {PodUid("p"), "c"}, .env = &broken, .resources = {}}, container({.mems = "0"})},
      policy_);
  EXPECT_EQ(got.findings.size(), 1U);
  EXPECT_EQ(got.updates.size(), 1U);
}

TEST_F(AdjustTest, UpdatesAreCorrectedToTheClaims) {
  const ClaimUid uid = given("u-1", {result("hugepages-2mi-numa001", "64Mi")});
  accounts_.bind({uid}, kApp);
  struct Case {
    const char* about;
    Resources asked;
    Adjustment answer;
  };
  for (const Case& c : std::vector<Case>{
           {"nothing of ours", {.mems = "", .memory_limit = 1}, {}},
           {"the same nodes", {.mems = "1"}, {}},
           {"other nodes", {.mems = "0-1"}, {.mems = "1"}},
           {"a lower limit",
            {.mems = "", .hugepage_limits = {{"2MB", 0}}},
            {.mems = "", .hugepage_limits = {{"2MB", (64_MiB).count}}}},
           {"a higher limit", {.mems = "", .hugepage_limits = {{"2MB", (1_GiB).count}}}, {}},
           {"another size", {.mems = "", .hugepage_limits = {{"1GB", 0}}}, {}},
       }) {
    SCOPED_TRACE(c.about);
    EXPECT_EQ(correct(accounts_, kApp, c.asked, policy_), c.answer);
  }
  EXPECT_TRUE(correct(accounts_, {PodUid("pod-2"), "app"}, {.mems = "0"}, policy_).is_empty());
}

}  // namespace
}  // namespace dracpu::memory
