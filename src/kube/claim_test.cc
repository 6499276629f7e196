// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/claim.h"

#include <gtest/gtest.h>

namespace dracpu::kube {
namespace {

TEST(ParseClaim, ReadsWhatADriverNeeds) {
  const Result<Claim> got = parse_claim(R"({
   "apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","future":{"x":[1]},
   "metadata":{"name":"c","namespace":"n","uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z",
     "annotations":{"resource.kubernetes.io/pod-claim-name":"cpus","other":"1"}},
   "spec":{"devices":{"requests":[
      {"name":"main","exactly":{"deviceClassName":"dra.cpu","allocationMode":"ExactCount","count":2,"adminAccess":true}},
      {"name":"alt","firstAvailable":[{"name":"big","count":8,"deviceClassName":"dra.cpu"},{"name":"all","allocationMode":"All"}]}],
     "constraints":[{"requests":["main"],"matchAttribute":"resource.kubernetes.io/pcieRoot"},{"distinctAttribute":"d/x"}],
     "config":[{"opaque":{"driver":"ignored"}}]}},
   "status":{"allocation":{"devices":{
      "results":[{"request":"main","driver":"dra.cpu","pool":"w","device":"cpudevnuma000","shareID":"s",
                  "consumedCapacity":{"dra.cpu/cpu":"2Ki","a":"2e3","b":"1500m","c":7}},
                 {"request":"alt/big","driver":"gpu","pool":"w","device":"g","adminAccess":true,"shareID":null}],
      "config":[{"source":"FromClass","requests":["main"],"opaque":{"driver":"dra.cpu","parameters":{"kind":"K","n":1}}},
                {"source":"FromClaim","requests":null,"opaque":{"driver":"gpu","parameters":null}},
                {"source":"FromClaim","future":{}}]}},
     "reservedFor":[{"resource":"pods","name":"p","uid":"pu"},
                    {"apiGroup":"scheduling.k8s.io","resource":"podgroups","name":"g","uid":"gu"}]}})");
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->ns, "n");
  EXPECT_EQ(got->name, "c");
  EXPECT_EQ(got->uid, ClaimUid("u"));
  EXPECT_EQ(got->pod_claim_name, "cpus");
  EXPECT_TRUE(got->deleting);
  ASSERT_EQ(got->requests.size(), 2U);
  EXPECT_EQ(got->requests[0].exactly->count, 2);
  EXPECT_TRUE(got->requests[0].exactly->admin_access);
  ASSERT_EQ(got->requests[1].first_available.size(), 2U);
  EXPECT_EQ(got->requests[1].first_available[0].name, "big");
  EXPECT_EQ(got->requests[1].first_available[0].count, 8);
  EXPECT_EQ(got->requests[1].first_available[1].mode, "All");
  EXPECT_FALSE(got->requests[1].exactly);
  ASSERT_EQ(got->constraints.size(), 2U);
  EXPECT_EQ(got->constraints[0].match_attribute, "resource.kubernetes.io/pcieRoot");
  ASSERT_TRUE(got->allocation);
  ASSERT_EQ(got->allocation->results.size(), 2U);
  const AllocationResult& r = got->allocation->results[0];
  EXPECT_EQ(r.share_id, "s");
  EXPECT_EQ(r.consumed_capacity.at("dra.cpu/cpu").to_int64(), 2048);
  EXPECT_EQ(r.consumed_capacity.at("a").to_int64(), 2000);
  EXPECT_EQ(r.consumed_capacity.at("b").to_int64(), std::nullopt);
  EXPECT_EQ(r.consumed_capacity.at("c").to_int64(), 7);
  EXPECT_FALSE(got->allocation->results[1].share_id);
  EXPECT_TRUE(got->allocation->results[1].admin_access);
  ASSERT_EQ(got->allocation->config.size(), 3U);
  EXPECT_EQ(got->allocation->config[0].source, ConfigEntry::Source::kClass);
  EXPECT_EQ(got->allocation->config[0].parameters, R"({"kind":"K","n":1})");
  EXPECT_EQ(got->allocation->config[1].parameters, "");
  EXPECT_TRUE(got->allocation->config[1].requests.empty());
  EXPECT_FALSE(got->allocation->config[2].opaque);
  ASSERT_EQ(got->reserved_for.size(), 2U);
  EXPECT_EQ(got->reserved_for[1].api_group, "scheduling.k8s.io");
}

TEST(ParseClaim, AbsentAndNullFieldsKeepTheirDefault) {
  for (const char* text :
       {R"({"metadata":{"name":"c","uid":"u"}})",
        R"({"metadata":{"name":"c","uid":"u","annotations":null},"spec":null,"status":null})",
        R"({"metadata":{"name":"c","uid":"u"},"status":{"allocation":null,"reservedFor":null}})"}) {
    SCOPED_TRACE(text);
    const Result<Claim> got = parse_claim(text);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_FALSE(got->allocation);
    EXPECT_FALSE(got->deleting);
    EXPECT_TRUE(got->reserved_for.empty());
  }
}

TEST(ParseClaim, WrongTypesNameTheirPath) {
  struct Case {
    const char* rest;  // beside metadata
    const char* says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {R"("spec":[])", "spec: expected an object"},
           {R"("spec":{"devices":{"requests":{}}})", "spec.devices.requests: expected a list"},
           {R"("spec":{"devices":{"requests":[{"name":1}]}})",
            "spec.devices.requests[0].name: expected a string"},
           {R"("spec":{"devices":{"requests":[{},{"exactly":{"count":"2"}}]}})",
            "spec.devices.requests[1].exactly.count: expected an integer"},
           {R"("status":{"allocation":{"devices":{"results":[{"device":{}}]}}})",
            "status.allocation.devices.results[0].device: expected a string"},
           {R"("status":{"allocation":{"devices":{"results":[{"adminAccess":1}]}}})",
            "adminAccess: expected true or false"},
           {R"("status":{"allocation":{"devices":{"results":[{"consumedCapacity":{"x":"1q"}}]}}})",
            "status.allocation.devices.results[0].consumedCapacity.x: expected a quantity"},
           {R"("status":{"allocation":{"devices":{"results":[{"consumedCapacity":{"x":1.5}}]}}})",
            "consumedCapacity.x"},
           {R"("status":{"allocation":{"devices":{"results":[7]}}})", "results[0]: expected an object"},
           {R"("status":{"allocation":{"devices":{"config":[{"source":"FromMoon"}]}}})", "config[0].source"},
           {R"("status":{"allocation":{"devices":{"config":[{"source":"FromClaim","requests":[1]}]}}})",
            "config[0].requests[0]: expected a string"},
           {R"("status":{"reservedFor":"x"})", "status.reservedFor: expected a list"},
       }) {
    SCOPED_TRACE(c.rest);
    const Result<Claim> got =
        parse_claim(fmt::format(R"({{"metadata":{{"name":"c","uid":"u"}},{}}})", c.rest));
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::kCorrupt);
    EXPECT_NE(got.error().text.find(c.says), std::string::npos) << got.error().text;
  }
  for (const char* text :
       {"", "x", "[]", "{", R"({"metadata":{"name":"c"}})", R"({"metadata":{"uid":"c"}})", "{}"}) {
    SCOPED_TRACE(text);
    ASSERT_FALSE(parse_claim(text).ok());
    EXPECT_EQ(parse_claim(text).error().code, Errc::kCorrupt);
  }
}

TEST(BaseRequest, IsThePartBeforeTheSlash) {
  EXPECT_EQ(base_request("main/sub"), "main");
  EXPECT_EQ(base_request("main"), "main");
}

}  // namespace
}  // namespace dracpu::kube
