// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/claims_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dracpu::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ReadClaims, BadInputNamesDocumentAndPath) {
  struct Case {
    const char* text;
    const char* says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"", "no ResourceClaim"},
           {"kind: Pod\n", "no ResourceClaim"},
           {"a: [\n", "line"},
           {"- 1\n", "document 1"},
           {"metadata: {}\n", "kind is missing"},
           {"kind: ResourceClaim\n", "metadata.name"},
           {"kind: ResourceClaim\nmetadata: {name: 3}\n", "metadata.name"},
           {"kind: List\nitems: 3\n", "items is no list"},
           {"kind: List\nitems:\n- kind: ResourceClaim\n  metadata: {}\n", "items[0]"},
           {"kind: ResourceClaim\nmetadata: {name: a}\n---\nkind: ResourceClaim\nmetadata: {name: b}\nspec: "
            "3\n",
            "document 2"},
           {"kind: ResourceClaim\nmetadata: {name: a, namespace: d, uid: u}\n---\nkind: "
            "ResourceClaim\nmetadata: {name: "
            "b, uid: u}\n",
            "claims \"d/a\" and \"b\" have the same metadata.uid \"u\""},
           {"apiVersion: resource.k8s.io/v1beta1\nkind: ResourceClaim\nmetadata: {name: a}\n",
            "apiVersion \"resource.k8s.io/v1beta1\" is not read here; use resource.k8s.io/v1"},
           {"apiVersion: 1\nkind: ResourceClaim\nmetadata: {name: a}\n", "apiVersion 1 is not read here"},
           {"kind: ResourceClaim\nmetadata: {name: a}\nspec: {devices: {requests: [{name: r, exactly: "
            "{capacity: "
            "{requests: {cpu: true}}}}]}}\n",
            "spec.devices.requests[0].exactly.capacity.requests.cpu: expected a quantity such as \"4\", "
            "found true"},
           {"kind: ResourceClaimTemplate\nmetadata: {name: a}\n", "spec.spec"}}) {
    const Result<ClaimsFile> got = read_claims(c.text);
    ASSERT_FALSE(got.ok()) << c.text;
    EXPECT_EQ(got.error().code, Errc::kInvalidInput);
    EXPECT_THAT(got.error().text, HasSubstr(c.says));
  }
}

std::vector<std::string> names_of(const ClaimsFile& file) {
  std::vector<std::string> out;
  for (const kube::Claim& c : file.claims) out.push_back(full_name(c));
  return out;
}

constexpr const char* kTemplate =
    "kind: ResourceClaimTemplate\nmetadata: {name: t, namespace: d}\nspec: {spec: {devices: {requests: "
    "[{name: "
    "r, exactly: {deviceClassName: dra.cpu}}]}}}\n---\n";

std::string pod(const std::string& name, const std::string& entry, const std::string& more = "") {
  return "kind: Pod\nmetadata: {name: " + name + ", namespace: d}\nspec: {resourceClaims: [" + entry +
         "]}\n" + more + "---\n";
}

TEST(ReadClaims, APodGetsAClaimOfEachTemplate) {
  const std::string entry = "{name: slot, resourceClaimTemplateName: t}";
  const ClaimsFile file = read_claims(pod("a", entry) + kTemplate + pod("b", entry)).value();
  EXPECT_THAT(names_of(file), ElementsAre("d/a-slot", "d/b-slot"));
  EXPECT_EQ(file.claims[1].reserved_for.at(0).name, "b");
  EXPECT_NE(file.claims[0].reserved_for.at(0).uid, file.claims[1].reserved_for.at(0).uid);
  EXPECT_TRUE(file.notes.empty());
  EXPECT_THAT(names_of(read_claims(kTemplate).value()), ElementsAre("d/t")) << "no pod names it";
}

TEST(ReadClaims, APodUsesTheClaimsThatItNames) {
  const std::string claim = "kind: ResourceClaim\nmetadata: {name: c, namespace: d}\n---\n";
  const std::string entry = "{name: slot, resourceClaimName: c}";
  const ClaimsFile file = read_claims(pod("a", entry) + claim + pod("b", entry) + pod("a", entry)).value();
  ASSERT_THAT(names_of(file), ElementsAre("d/c"));
  EXPECT_EQ(file.claims[0].reserved_for.size(), 2U);
}

TEST(ReadClaims, WhatAPodNamesAndIsNotThereIsTold) {
  const ClaimsFile file =
      read_claims(std::string(kTemplate) + pod("a", "{name: x, resourceClaimTemplateName: u}") +
                  pod("b", "{name: y, resourceClaimName: v}") +
                  pod("c", "{name: z, resourceClaimTemplateName: w}",
                      "status: {resourceClaimStatuses: [{name: z, resourceClaimName: c-z-1}]}\n"))
          .value();
  EXPECT_THAT(names_of(file), ElementsAre("d/t"));
  EXPECT_THAT(file.notes,
              ElementsAre("pod \"a\" names ResourceClaimTemplate \"d/u\", which is not in the file",
                          "pod \"b\" names ResourceClaim \"d/v\", which is not in the file"))
      << "what was made from a template has a name of its own";
}

// The API server stores the most that it counts; here the claim is refused, by name, and the others are not.
TEST(ReadClaims, AnAmountThatCannotBeCountedRefusesItsClaimAlone) {
  for (const char* amount : {"9223372036854775808", "\"1e30\"", "16Ei", "\"-10E\""}) {
    const ClaimsFile file =
        read_claims(fmt::format("kind: ResourceClaim\nmetadata: {{name: big}}\nspec: {{devices: "
                                "{{requests: [{{name: r, exactly: {{deviceClassName: dra.cpu, "
                                "capacity: {{requests: {{dra.cpu/cpu: {}}}}}}}}}]}}}}\n---\n{}",
                                amount, kTemplate))
            .value();
    EXPECT_THAT(names_of(file), ElementsAre("big", "d/t"));
    ASSERT_EQ(file.refused.size(), 1U) << amount;
    EXPECT_EQ(file.refused.begin()->first, file.claims[0].uid);
    EXPECT_THAT(file.refused.begin()->second.text, HasSubstr("request \"r\": dra.cpu/cpu is \""));
  }
  const ClaimsFile allocated =
      read_claims(
          "kind: ResourceClaim\nmetadata: {name: big}\nstatus: {allocation: {devices: {results: [{request: "
          "r, "
          "driver: dra.cpu, pool: p, device: d, consumedCapacity: {dra.cpu/cpu: 16Ei}}]}}}\n")
          .value();
  ASSERT_EQ(allocated.refused.size(), 1U);
  EXPECT_EQ(allocated.refused.begin()->second.text,
            "device \"d\": dra.cpu/cpu is \"16Ei\", the API counts to 9223372036854775807");
}

}  // namespace
}  // namespace dracpu::cli
