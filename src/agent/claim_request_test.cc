// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/claim_request.h"

#include <gtest/gtest.h>

namespace dracpu::agent {
namespace {

class ClaimRequestTest : public ::testing::Test {
 protected:
  ClaimRequestTest() {
    device::Device d;
    d.name = "cpudevnuma000";
    d.cpus = CpuSet{0, 1, 2, 3};
    devices_.push_back(d);
    d.name = "cpudevnuma001";
    d.cpus = CpuSet{4, 5, 6, 7};
    devices_.push_back(d);
    claim_.ns = "ns";
    claim_.name = "c";
    claim_.uid = ClaimUid("u1");
    claim_.allocation.emplace();
  }

  void add(const std::string& device, const std::string& amount, const std::string& request = "r",
           const std::string& key = "dra.cpu/cpu") {
    kube::AllocationResult r;
    r.request = request;
    r.driver = "dra.cpu";
    r.pool = "node1";
    r.device = device;
    if (!amount.empty()) r.consumed_capacity.emplace(key, kube::Quantity::parse(amount).value());
    claim_.allocation->results.push_back(std::move(r));
  }
  Result<std::vector<ledger::Request>> get(const std::string& uid = "u1") {
    return requests_of(claim_, ClaimUid(uid), {"dra.cpu", "node1", &devices_});
  }
  void expect_refused(Errc code, std::initializer_list<const char*> words, const std::string& uid = "u1") {
    const Result<std::vector<ledger::Request>> got = get(uid);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, code) << got.error().text;
    for (const char* w : words) EXPECT_NE(got.error().text.find(w), std::string::npos) << got.error().text;
  }

  std::vector<device::Device> devices_;
  kube::Claim claim_;
};

TEST_F(ClaimRequestTest, TakesWholeAmountsInAnyNotation) {
  struct Case {
    const char* amount;
    std::size_t cpus;
  };
  for (const Case& c :
       std::initializer_list<Case>{{"4", 4}, {"4000m", 4}, {"2Ki", 2048}, {"2e3", 2000}, {"1k", 1000}}) {
    SCOPED_TRACE(c.amount);
    claim_.allocation->results.clear();
    add("cpudevnuma000", c.amount);
    ASSERT_TRUE(get().ok());
    EXPECT_EQ(get()->front().cpus, c.cpus);
    EXPECT_EQ(get()->front().device_cpus.to_string(), "0-3");
  }
}

TEST_F(ClaimRequestTest, PlainKeyIsTakenAndTheQualifiedOneWins) {
  add("cpudevnuma000", "2", "r", "cpu");
  EXPECT_EQ(get()->front().cpus, 2U);
  claim_.allocation->results[0].consumed_capacity.emplace("dra.cpu/cpu", kube::Quantity(3));
  EXPECT_EQ(get()->front().cpus, 3U);
}

TEST_F(ClaimRequestTest, OtherDriversAreSkippedAndNothingOfOursIsSuccess) {
  add("gpu0", "1");
  claim_.allocation->results[0].driver = "gpu.example.com";
  EXPECT_TRUE(get()->empty());
  add("cpudevnuma001", "1", "main/sub");
  ASSERT_EQ(get()->size(), 1U);
  EXPECT_EQ(get()->front().request, "main/sub");
}

TEST_F(ClaimRequestTest, Refuses) {
  expect_refused(Errc::kConflict, {"ns/c", "u1", "u2"}, "u2");
  add("cpudevnuma999", "1");
  expect_refused(Errc::kInvalidInput, {"cpudevnuma999"});
  for (const char* amount : {"0", "-1"}) {
    claim_.allocation->results.clear();
    add("cpudevnuma000", amount);
    expect_refused(Errc::kInvalidInput, {"positive", "cpudevnuma000", amount});
  }
  for (const char* amount : {"1500m", "2.5"}) {
    claim_.allocation->results.clear();
    add("cpudevnuma000", amount);
    expect_refused(Errc::kInvalidInput, {"whole", "cpudevnuma000"});
  }
  claim_.allocation->results.clear();
  add("cpudevnuma000", "");
  expect_refused(Errc::kInvalidInput, {"dra.cpu/cpu", "cpudevnuma000"});
  claim_.allocation->results.clear();
  add("cpudevnuma000", "1");
  claim_.allocation->results[0].admin_access = true;
  expect_refused(Errc::kInvalidInput, {"admin", "cpudevnuma000"});
  claim_.allocation->results[0].admin_access = false;
  claim_.allocation->results[0].pool = "other";
  expect_refused(Errc::kInvalidInput, {"other", "node1"});
  claim_.allocation.reset();
  expect_refused(Errc::kUnavailable, {"ns/c", "not allocated"});
}

TEST_F(ClaimRequestTest, OpaqueConfigurationOfOursIsRefusedWhereItApplies) {
  struct Case {
    const char* about;
    const char* driver;
    std::vector<std::string> requests;
    bool refused;
  };
  add("cpudevnuma000", "1", "main/sub");
  for (const Case& c : std::vector<Case>{{"all requests", "dra.cpu", {}, true},
                                         {"the parent", "dra.cpu", {"main"}, true},
                                         {"exactly", "dra.cpu", {"main/sub"}, true},
                                         {"another subrequest", "dra.cpu", {"main/other"}, false},
                                         {"another request", "dra.cpu", {"x"}, false},
                                         {"another driver", "gpu.example.com", {}, false}}) {
    SCOPED_TRACE(c.about);
    kube::ConfigEntry entry;
    entry.opaque = true;
    entry.driver = c.driver;
    entry.requests = c.requests;
    entry.parameters = "{not even json";
    claim_.allocation->config = {entry};
    EXPECT_EQ(!get().ok(), c.refused);
  }
}

}  // namespace
}  // namespace dracpu::agent
