// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/reconcile.h"

#include <gtest/gtest.h>

namespace dracpu::agent {
namespace {

// "a=0-1 b=2" as claims, files or the outcome.
std::vector<std::pair<std::string, std::string>> pairs(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> out;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const std::size_t at = word.find('=');
    out.emplace_back(word.substr(0, at), word.substr(at + 1));
  }
  return out;
}

ClaimMap state_of(std::string_view text) {
  ClaimMap out;
  for (const auto& [uid, cpus] : pairs(text)) {
    ledger::Claim claim;
    claim.ns = "ns";
    claim.name = "claim-" + uid;
    claim.cpus = CpuSet::parse(cpus).value();
    claim.committed = true;
    claim.grants = {{"r", "node1", "cpudevnuma000", std::nullopt, claim.cpus.size()}};
    out[ClaimUid(uid)] = claim;
  }
  return out;
}

std::vector<cdi::Entry> files_of(std::string_view text) {
  std::vector<cdi::Entry> out;
  for (const auto& [uid, cpus] : pairs(text)) {
    const bool is_old = uid.starts_with("old:");
    const std::string name = is_old ? uid.substr(4) : uid;
    Result<CpuSet> set = make_error(Errc::kCorrupt, "cut short");
    if (cpus != "?") set = CpuSet::parse(cpus);
    out.push_back({ClaimUid(name), std::move(set), "/cdi/" + uid + ".json",
                   is_old ? cdi::Layout::kAllClaims : cdi::Layout::kPerClaim});
  }
  return out;
}

template <typename Map, typename Text>
std::string list_of(const Map& map, Text text) {
  std::string out;
  for (const auto& entry : map) out += (out.empty() ? "" : " ") + text(entry);
  return out;
}

TEST(Reconcile, Table) {
  struct Case {
    const char* about;
    const char* state;  // null: none that counts
    const char* files;
    const char* claims;
    bool stale = false;
    const char* unconfirmed = "";
    const char* disputed = "";
    std::size_t conflicts = 0;
    std::size_t warnings = 0;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"nothing at all", nullptr, "", ""},
           {"both agree", "a=0-1 b=2", "a=0-1 b=2", "a=0-1 b=2"},
           {"files are gone, after a reboot", "a=0-1 b=2", "", "a=0-1 b=2"},
           {"files alone, of an older driver", nullptr, "a=0-1 b=2", "a=0-1 b=2"},
           {"a file that cannot be read", "a=0-1", "a=?", "a=0-1", false, "", "", 0, 1},
           {"the same, without a state", nullptr, "a=? b=2", "b=2", false, "", "", 0, 1},
           {"one file says otherwise", "a=0-1 b=2", "a=4-5 b=2", "a=0-1 b=2", false, "", "a=4-5", 1, 1},
           {"an empty state is a state", "", "a=0", "a=0", true, "", "", 0, 1},
           {"another driver prepared one more", "a=0-1", "a=0-1 x=2", "a=0-1 x=2", true, "", "", 0, 1},
           {"another driver moved one", "a=0-1", "a=4-5 x=0", "a=4-5 x=0", true, "", "", 0, 2},
           {"another driver gave its CPUs away", "a=0-1 b=2", "x=0", "b=2 x=0", true, "b", "", 1, 2},
           {"another driver forgot one", "a=0-1 b=2", "b=2 x=5", "a=0-1 b=2 x=5", true, "a", "", 0, 1},
           {"two files claim one CPU", nullptr, "a=0-1 b=1-2", "a=0-1", false, "", "", 1, 1},
           {"two claims of the state have one CPU", "a=0-1 b=1-2", "", "a=0-1", false, "", "", 1, 1},
           {"both layouts, the claim's own file counts", nullptr, "old:a=7 a=0", "a=0"},
           {"whatever the order", nullptr, "a=0 old:a=7 old:b=6", "a=0 b=6"},
       }) {
    SCOPED_TRACE(c.about);
    std::optional<ClaimMap> state;
    if (c.state != nullptr) state = state_of(c.state);
    const Reconciled got = reconcile(state, files_of(c.files));
    EXPECT_EQ(
        list_of(got.claims, [](const auto& e) { return e.first.get() + "=" + e.second.cpus.to_string(); }),
        c.claims);
    EXPECT_EQ(got.stale, c.stale);
    EXPECT_EQ(list_of(got.unconfirmed, [](const auto& e) { return e.get(); }), c.unconfirmed);
    EXPECT_EQ(list_of(got.disputed, [](const auto& e) { return e.first.get() + "=" + e.second.to_string(); }),
              c.disputed);
    EXPECT_EQ(got.conflicts, c.conflicts);
    EXPECT_EQ(got.warnings.size(), c.warnings);
    EXPECT_EQ(got.from_state + got.from_cdi, got.claims.size());
    for (const auto& [uid, claim] : got.claims) EXPECT_TRUE(claim.committed);
  }
}

TEST(Reconcile, AMovedClaimKeepsItsNameAndForgetsItsGrants) {
  const Reconciled got = reconcile(state_of("a=0-1 b=2"), files_of("a=4-5 b=2 x=7"));
  const ledger::Claim& moved = got.claims.at(ClaimUid("a"));
  EXPECT_EQ(moved.name, "claim-a");
  EXPECT_TRUE(moved.grants.empty());
  EXPECT_EQ(got.claims.at(ClaimUid("b")).grants.size(), 1U);
  EXPECT_EQ(got.claims.at(ClaimUid("x")).name, "");
}

}  // namespace
}  // namespace dracpu::agent
