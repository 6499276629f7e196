// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "ledger/claim_env.h"

#include <gtest/gtest.h>

namespace dracpu::ledger {
namespace {

TEST(ReadClaimEnv, Accepts) {
  struct Case {
    const char* about;
    std::vector<std::string> env;
    std::size_t claims;
  };
  for (const Case& c : std::vector<Case>{
           {"nothing", {}, 0},
           {"foreign variables", {"PATH=/bin", "DRA=1"}, 0},
           {"a name that only begins alike is ignored", {"DRA_CPUSETFOO=x", "DRA_CPUSET=abc"}, 0},
           {"one claim", {"DRA_CPUSET_a1=0-1"}, 1},
           {"two claims", {"DRA_CPUSET_a1=0-1", "DRA_CPUSET_b2=2"}, 2},
           {"twice the same", {"DRA_CPUSET_a1=0-1", "DRA_CPUSET_a1=0,1"}, 1},
       }) {
    SCOPED_TRACE(c.about);
    const Result<ClaimCpus> got = read_claim_env(c.env);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(got->size(), c.claims);
  }
  EXPECT_EQ(read_claim_env({"DRA_CPUSET_a1=2,0-1"})->at(ClaimUid("a1")).to_string(), "0-2");
}

TEST(ReadClaimEnv, RefusesAndNamesTheVariable) {
  for (const std::vector<std::string>& env : std::vector<std::vector<std::string>>{
           {"DRA_CPUSET_FOO=abc"},
           {"DRA_CPUSET_FOO"},
           {"DRA_CPUSET_FOO="},
           {"DRA_CPUSET_FOO=0-1 "},
           {"DRA_CPUSET_FOO=3-1"},
           {"PATH=/bin", "DRA_CPUSET_FOO=0", "DRA_CPUSET_FOO=1"},
           {"DRA_CPUSET_FOO=0-9999999"},
       }) {
    SCOPED_TRACE(env.back());
    const Result<ClaimCpus> got = read_claim_env(env);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::kInvalidInput);
    EXPECT_NE(got.error().text.find("DRA_CPUSET_FOO"), std::string::npos) << got.error().text;
  }
  EXPECT_FALSE(read_claim_env({"DRA_CPUSET_=0"}).ok()) << "no claim uid";
  EXPECT_FALSE(read_claim_env({"DRA_CPUSET"}).ok()) << "no value";
}

}  // namespace
}  // namespace dracpu::ledger
