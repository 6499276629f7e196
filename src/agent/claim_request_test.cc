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
    return requests_of(
        claim_, ClaimUid(uid),
        {"dra.cpu", "node1", mode_, &devices_, CpuSet{0, 1, 2, 3, 4, 5, 6, 7}, CpuSet{0}, has_memory_});
  }
  void expect_refused(Errc code, std::initializer_list<const char*> words, const std::string& uid = "u1") {
    const Result<std::vector<ledger::Request>> got = get(uid);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, code) << got.error().text;
    for (const char* w : words) EXPECT_NE(got.error().text.find(w), std::string::npos) << got.error().text;
  }

  // An opaque configuration of ours in the claim, for these requests.
  void configure(const std::string& parameters, std::vector<std::string> requests = {}) {
    kube::ConfigEntry entry;
    entry.opaque = true;
    entry.driver = "dra.cpu";
    entry.requests = std::move(requests);
    entry.parameters = parameters;
    claim_.allocation->config.push_back(std::move(entry));
  }
  static std::string chosen(const std::string& cpus) {
    return R"({"apiVersion":"v1alpha1","cpuConfig":{"cpuset":")" + cpus + R"("}})";
  }
  void external() {
    mode_.allocator = config::Allocator::kExternal;
    claim_.allocation->results.clear();
    claim_.allocation->config.clear();
  }

  config::Config::Cpu mode_;
  bool has_memory_ = false;
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

TEST_F(ClaimRequestTest, AnExternalAllocatorsChoiceIsTakenPerRequest) {
  external();
  add("cpudevnuma000", "2");
  add("cpudevnuma001", "2");
  add("cpudevnuma001", "1", "other/sub");
  configure(chosen("1,3-5"), {"r"});
  configure(chosen("6"), {"other"});
  const auto got = get();
  ASSERT_TRUE(got.ok()) << got.error().text;
  ASSERT_EQ(got->size(), 3U);
  EXPECT_EQ((*got)[0].chosen->to_string(), "1,3-5");
  EXPECT_EQ((*got)[1].chosen->to_string(), "1,3-5");
  EXPECT_EQ((*got)[2].chosen->to_string(), "6") << "the parent's name applies to its subrequests";
}

TEST_F(ClaimRequestTest, AnExternalAllocatorsChoiceHasToFit) {
  struct Case {
    const char* amount;
    std::vector<std::string> configs;
    std::vector<const char*> says;
  };
  const std::vector<Case> cases = {
      {"2", {}, {"\"r\" has 0 opaque configurations", "exactly 1"}},
      {"2", {chosen("4-5"), chosen("4-5")}, {"has 2 opaque configurations"}},
      {"2", {chosen("4")}, {"allocated 2 CPUs", "names 1 (4)"}},
      {"2", {chosen("7-8")}, {"CPUs 8", "not managed"}},
      {"2", {chosen("0-1")}, {"CPUs 0", "reserved"}},
      {"2500m", {chosen("4-5")}, {"whole number"}},
      {"2", {""}, {"no cpuset found"}},
      {"2", {"{}"}, {"no cpuset found"}},
      {"2", {"not json"}, {"not JSON"}},
      {"2", {"[1]"}, {"no JSON object"}},
      {"2", {R"({"cpuConfig":{"cpuset":"4-5"}})"}, {"apiVersion is \"\""}},
      {"2", {R"({"apiVersion":"v2","cpuConfig":{"cpuset":"4-5"}})"}, {"apiVersion is \"v2\""}},
      {"2", {R"({"apiVersion":1,"cpuConfig":{"cpuset":"4-5"}})"}, {"apiVersion is 1"}},
      {"2", {R"({"apiVersion":"v1alpha1"})"}, {"cpuConfig.cpuset is missing"}},
      {"2", {R"({"apiVersion":"v1alpha1","cpuConfig":{"cpuset":""}})"}, {"cpuConfig.cpuset is missing"}},
      {"2", {chosen("4-")}, {"cpuConfig.cpuset \"4-\""}},
      {"2", {R"({"kind":"CPUClaimPolicy","apiVersion":"x"})"}, {"kind \"CPUClaimPolicy\" is not known"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.configs.empty() ? "no configuration" : c.configs[0]);
    external();
    add("cpudevnuma001", c.amount);
    for (const std::string& text : c.configs) configure(text);
    const auto got = get();
    ASSERT_FALSE(got.ok());
    for (const char* w : c.says) EXPECT_NE(got.error().text.find(w), std::string::npos) << got.error().text;
  }
  external();
  add("cpudevnuma001", "2");
  configure(chosen("4-5"));
  claim_.allocation->config[0].source = kube::ConfigEntry::Source::kClass;
  expect_refused(Errc::kInvalidInput, {"comes from the DeviceClass"});
  claim_.allocation->config[0].source = kube::ConfigEntry::Source::kClaim;
  claim_.allocation->config[0].driver = "other";
  expect_refused(Errc::kInvalidInput, {"has 0 opaque configurations"});
}

TEST_F(ClaimRequestTest, MachineGroupingWantsOneDevicePerRequest) {
  mode_.group_by = config::GroupBy::kMachine;
  external();
  device::Device machine;
  machine.name = "cpudevmachine";
  machine.cpus = CpuSet{1, 2, 3, 4, 5, 6, 7};
  devices_ = {machine};
  add("cpudevmachine", "2");
  configure(chosen("1-2"));
  kube::ClaimRequest request;
  request.name = "r";
  request.exactly =
      kube::DeviceRequest{.name = "", .device_class = "dra.cpu", .mode = "ExactCount", .count = 1};
  claim_.requests = {request};
  EXPECT_TRUE(get().ok());
  claim_.requests[0].exactly->count = 2;
  expect_refused(Errc::kInvalidInput, {"\"r\"", "exactly.count is 2", "at most 1"});

  claim_.allocation->results[0].request = "r/b";
  claim_.requests[0].exactly.reset();
  claim_.requests[0].first_available = {{.name = "a", .device_class = "", .mode = "ExactCount", .count = 4},
                                        {.name = "b", .device_class = "", .mode = "ExactCount", .count = 1}};
  EXPECT_TRUE(get().ok()) << "only the alternative that was chosen counts";
  claim_.requests[0].first_available[1].count = 3;
  expect_refused(Errc::kInvalidInput, {"subrequest \"b\"", "is 3", "at most 1"});
}

TEST_F(ClaimRequestTest, ZeroCpusAreServedWithMemoryAlone) {
  const auto take = [&](const std::string& key, const std::string& amount) {
    claim_.allocation->results.back().consumed_capacity.emplace(key, kube::Quantity::parse(amount).value());
  };
  add("cpudevnuma000", "0", "a");
  expect_refused(Errc::kInvalidInput, {"is 0; it must be positive"});
  take("dra.memory/memory", "4Gi");
  expect_refused(Errc::kUnsupported, {"\"cpudevnuma000\"", "4Gi of dra.memory/memory", "mode: combined"});
  has_memory_ = true;
  add("cpudevnuma001", "2", "b");
  const auto got = get();
  ASSERT_TRUE(got.ok()) << got.error().text;
  ASSERT_EQ(got->size(), 1U) << "the other takes no CPUs";
  EXPECT_EQ((*got)[0].request, "b");
  EXPECT_TRUE(is_what_was_granted(
      claim_, "dra.cpu",
      {{"b", "node1", "cpudevnuma001", std::nullopt, 2}, {"a", "node1", "cpudevnuma000", std::nullopt, 0}}));
  EXPECT_FALSE(is_what_was_granted(claim_, "dra.cpu", {{"b", "node1", "cpudevnuma001", std::nullopt, 2}}));
  mode_.allocator = config::Allocator::kExternal;
  configure(chosen("4-5"));
  expect_refused(Errc::kInvalidInput, {"request \"a\"", "takes no CPU"});
  mode_.allocator = config::Allocator::kCpuManager;
  claim_.allocation->config.clear();
  add("cpudevnuma001", "0", "c");
  take("dra.memory/memory", "0");
  expect_refused(Errc::kInvalidInput, {"is 0; it must be positive, or memory be asked for"});
  claim_.allocation->results.back().consumed_capacity.clear();
  take("dra.cpu/cpu", "-1");
  take("dra.memory/memory", "1Gi");
  expect_refused(Errc::kInvalidInput, {"is -1"});
}

TEST_F(ClaimRequestTest, AnIndividualDeviceIsOneCpuAndReadsNoConfiguration) {
  mode_.devices = config::DeviceMode::kIndividual;
  devices_[0].name = "cpudev000";
  devices_[0].cpus = CpuSet{5};
  add("cpudev000", "");
  configure("nonsense");
  const auto got = get();
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ((*got)[0].cpus, 1U);
  EXPECT_EQ((*got)[0].device_cpus.to_string(), "5");
}

}  // namespace
}  // namespace dracpu::agent
