// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/environment.h"

#include <gtest/gtest.h>

#include "memory/test_amounts.h"

namespace dracpu::memory {
namespace {

using Env = std::vector<std::string>;

struct Form {
  const char* about;
  Amounts amounts;
  Env env;
};
const std::vector<Form>& forms() {
  static const std::vector<Form> all{
      {"base memory",
       amounts_on({{Kind(), 1, 512_MiB}}),
       {"DRAMEMORY_u-1_NUMANodes=1", "DRAMEMORY_u-1_memory=numanode:1,size:512Mi"}},
      {"two sizes of hugepages on one node",
       amounts_on({{kind(2_MiB), 0, 64_MiB}, {kind(1_GiB), 0, 2_GiB}}),
       {"DRAMEMORY_u-1_NUMANodes=0", "DRAMEMORY_u-1_hugepages_2Mi=numanode:0,size:64Mi",
        "DRAMEMORY_u-1_hugepages_1Gi=numanode:0,size:2Gi"}},
      {"one resource on two nodes",
       amounts_on({{kind(2_MiB), 10, 64_MiB}, {kind(2_MiB), 2, 32_MiB}}),
       {"DRAMEMORY_u-1_NUMANodes=2,10",
        "DRAMEMORY_u-1_hugepages_2Mi=numanode:2,size:32Mi;numanode:10,size:64Mi"}},
  };
  return all;
}

TEST(Environment, IsReadAsItWasWritten) {
  for (const Form& f : forms()) {
    SCOPED_TRACE(f.about);
    EXPECT_EQ(format_environment(ClaimUid("u-1"), f.amounts), f.env);
    const auto read = read_environment("app", f.env);
    ASSERT_TRUE(read.ok()) << read.error().text;
    ASSERT_EQ(read->size(), 1U);
    const Statement& statement = read->at(ClaimUid("u-1"));
    EXPECT_TRUE(says(statement, f.amounts));
    EXPECT_EQ(complete(statement), f.amounts);
  }
}

TEST(Environment, OtherVariablesArePassedOver) {
  const auto read = read_environment("app", {"PATH=/bin", "DRAMEMORY=x", "DRA_CPUSET_u=0-1", "NO_VALUE"});
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->empty());
}

TEST(Environment, OfSeveralClaimsAndRepeatedEntries) {
  Env env = forms()[0].env;
  env.push_back(env[0]);
  env.push_back("DRAMEMORY_u-2_NUMANodes=0");
  const auto read = read_environment("app", env);
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->size(), 2U);
  EXPECT_FALSE(complete(read->at(ClaimUid("u-2"))).has_value()) << "nodes without amounts";
}

TEST(Environment, RefusesAndNamesTheVariable) {
  struct Case {
    const char* about;
    Env env;
    const char* name;
  };
  for (const Case& c : std::vector<Case>{
           {"neither claim nor suffix", {"DRAMEMORY_=1"}, "DRAMEMORY_"},
           {"no suffix", {"DRAMEMORY_u=1"}, "DRAMEMORY_u"},
           {"no claim", {"DRAMEMORY__memory=numanode:0,size:1Mi"}, "DRAMEMORY__memory"},
           {"no value", {"DRAMEMORY_u_memory"}, "DRAMEMORY_u_memory"},
           {"an empty value", {"DRAMEMORY_u_memory="}, "DRAMEMORY_u_memory"},
           {"an unknown suffix", {"DRAMEMORY_u_swap=numanode:0,size:1Mi"}, "DRAMEMORY_u_swap"},
           {"the resource's other spelling",
            {"DRAMEMORY_u_hugepages-2Mi=numanode:0,size:2Mi"},
            "DRAMEMORY_u_hugepages-2Mi"},
           {"no nodes", {"DRAMEMORY_u_NUMANodes="}, "DRAMEMORY_u_NUMANodes"},
           {"nodes as a range", {"DRAMEMORY_u_NUMANodes=0-1"}, "DRAMEMORY_u_NUMANodes"},
           {"nodes that do not ascend", {"DRAMEMORY_u_NUMANodes=1,0"}, "DRAMEMORY_u_NUMANodes"},
           {"a node twice", {"DRAMEMORY_u_NUMANodes=1,1"}, "DRAMEMORY_u_NUMANodes"},
           {"a negative node", {"DRAMEMORY_u_NUMANodes=-1"}, "DRAMEMORY_u_NUMANodes"},
           {"a node with a leading zero", {"DRAMEMORY_u_NUMANodes=01"}, "DRAMEMORY_u_NUMANodes"},
           {"a node beyond counting", {"DRAMEMORY_u_NUMANodes=99999999999"}, "DRAMEMORY_u_NUMANodes"},
           {"no size", {"DRAMEMORY_u_memory=numanode:0"}, "DRAMEMORY_u_memory"},
           {"the wrong order", {"DRAMEMORY_u_memory=size:1Mi,numanode:0"}, "DRAMEMORY_u_memory"},
           {"spaces", {"DRAMEMORY_u_memory=numanode:0, size:1Mi"}, "DRAMEMORY_u_memory"},
           {"a size of zero", {"DRAMEMORY_u_memory=numanode:0,size:0"}, "DRAMEMORY_u_memory"},
           {"a negative size", {"DRAMEMORY_u_memory=numanode:0,size:-1Mi"}, "DRAMEMORY_u_memory"},
           {"a fraction", {"DRAMEMORY_u_memory=numanode:0,size:1500m"}, "DRAMEMORY_u_memory"},
           {"another spelling of the size",
            {"DRAMEMORY_u_memory=numanode:0,size:1024Ki"},
            "DRAMEMORY_u_memory"},
           {"a trailing separator", {"DRAMEMORY_u_memory=numanode:0,size:1Mi;"}, "DRAMEMORY_u_memory"},
           {"two values", {"DRAMEMORY_u_NUMANodes=0", "DRAMEMORY_u_NUMANodes=1"}, "DRAMEMORY_u_NUMANodes"},
           {"two amounts",
            {"DRAMEMORY_u_memory=numanode:0,size:1Mi", "DRAMEMORY_u_memory=numanode:0,size:2Mi"},
            "DRAMEMORY_u_memory"},
       }) {
    SCOPED_TRACE(c.about);
    const auto got = read_environment("app", c.env);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::kInvalidInput);
    EXPECT_EQ(got.error().text, fmt::format("container \"app\": malformed variable {}", c.name));
  }
}

TEST(Environment, SaysAllOrItIsAnother) {
  const Amounts held = forms()[1].amounts;
  const Env whole = forms()[1].env;
  for (std::size_t left_out = 0; left_out < whole.size(); ++left_out) {
    Env part = whole;
    part.erase(part.begin() + static_cast<std::ptrdiff_t>(left_out));
    const auto read = read_environment("app", part);
    ASSERT_TRUE(read.ok());
    EXPECT_FALSE(says(read->at(ClaimUid("u-1")), held)) << "without " << whole[left_out];
  }
  Env changed = whole;
  changed[1] = "DRAMEMORY_u-1_hugepages_2Mi=numanode:0,size:66Mi";
  EXPECT_FALSE(says(read_environment("app", changed)->at(ClaimUid("u-1")), held));
}

}  // namespace
}  // namespace dracpu::memory
