// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Random steps, with the invariants checked after each: nothing is given twice, nothing is lost.

#include <gtest/gtest.h>

#include "data/random.h"
#include "memory/accounts.h"
#include "memory/test_claims.h"

namespace dracpu::memory {
namespace {

ClaimFacts random_claim(test::Random& random) {
  std::vector<AllocationResult> results;
  for (std::size_t n = 1 + random.pick(3); n > 0; --n) {
    const std::vector<Offer> offers = two_nodes();
    const Offer& from = offers[random.pick(offers.size())];
    const Bytes amount{from.page.count * (1 + random.pick(from.capacity.count / from.page.count / 2))};
    results.push_back(result(from.device, text_of(amount)));
  }
  return claim_of(std::move(results), fmt::format("pod-{}", random.pick(3)));
}

void step(Accounts& accounts, test::Random& random) {
  const ClaimUid uid(fmt::format("u-{}", random.pick(8)));
  switch (random.pick(8)) {
    case 0:
    case 1:
    case 2: {
      const bool was_known = accounts.claims().contains(uid);
      const Result<Claim> got = accounts.prepare(uid, random_claim(random), nullptr);
      if (!got.ok()) {
        EXPECT_EQ(accounts.claims().contains(uid), was_known);
      }
      break;
    }
    case 3:
      accounts.commit(uid);
      break;
    case 4:
      accounts.abort(uid);
      break;
    case 5:
      accounts.release(uid);
      EXPECT_FALSE(accounts.claims().contains(uid));
      break;
    case 6: {
      const auto found = accounts.claims().find(uid);
      if (found == accounts.claims().end()) break;
      const Owner owner{pod_of(found->second), fmt::format("c-{}", random.pick(2))};
      if (!accounts.check_owner(uid, owner).ok()) break;
      const std::vector<ClaimUid> bound = accounts.bind({uid}, owner);
      if (random.one_in(3)) accounts.unbind(bound);
      break;
    }
    default: {
      std::vector<Offer> offers = two_nodes();
      std::erase_if(offers, [&](const Offer&) { return random.one_in(6); });
      accounts.set_offers(std::move(offers));
    }
  }
}

TEST(AccountsWalk, InvariantsHoldAfterEveryStep) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    test::Random random(seed);
    Accounts accounts(config::MemoryMode::kSeparate, two_nodes());
    for (int n = 0; n < 400; ++n) {
      step(accounts, random);
      ASSERT_EQ(accounts.check(), "") << "seed " << seed << ", step " << n;
      for (const Standing& s : accounts.standings()) {
        ASSERT_TRUE(s.device.empty() || s.is_healthy())
            << "seed " << seed << ", step " << n << ": " << s.device;
      }
    }
    const std::map<ClaimUid, Claim> all = accounts.claims();
    for (const auto& [uid, claim] : all) accounts.release(uid);
    for (const Standing& s : accounts.standings()) EXPECT_EQ(s.held, Bytes{});
  }
}

}  // namespace
}  // namespace dracpu::memory
