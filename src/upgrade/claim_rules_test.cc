// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "upgrade/test_facts.h"

namespace dracpu::upgrade {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr const char* kManager = "groupBy: numanode\n";
constexpr const char* kExternal = "allocator: external\n";
constexpr const char* kMachine = "groupBy: machine\nallocator: external\n";
constexpr const char* kIndividual = "cpuDeviceMode: individual\n";

std::string request(const std::string& more, const std::string& name = "r",
                    const std::string& device_class = "dra.cpu") {
  return R"({"name":")" + name + R"(","exactly":{"deviceClassName":")" + device_class + "\"" + more + "}}";
}
std::string requests(const std::string& list, const std::string& config = "") {
  return R"({"requests":[)" + list + "]" + (config.empty() ? "" : R"(,"config":[)" + config + "]") + "}";
}
std::string result(const std::string& device, const std::string& more = "",
                   const std::string& driver = "dra.cpu") {
  return R"({"request":"r","driver":")" + driver + R"(","pool":"n","device":")" + device + "\"" + more + "}";
}
std::string results(const std::string& list, const std::string& config = "") {
  return R"({"results":[)" + list + "]" + (config.empty() ? "" : R"(,"config":[)" + config + "]") + "}";
}
std::string entry(
    const std::string& more = "", const std::string& driver = "dra.cpu",
    const std::string& parameters = R"({"apiVersion":"v1alpha1","cpuConfig":{"cpuset":"0-3"}})") {
  return R"({"opaque":{"driver":")" + driver + R"(","parameters":)" + parameters + "}" + more + "}";
}

struct Case {
  const char* about;
  const char* config;
  std::string devices;
  std::string allocated;
  std::vector<std::string> ids;
  const char* told = "";
};

TEST(ClaimRules, Table) {
  const std::string four = R"(,"capacity":{"requests":{"dra.cpu/cpu":"4"}})";
  const std::string plain = requests(request(""));
  const std::string sub =
      R"({"name":"r","firstAvailable":[{"name":"s","deviceClassName":"dra.cpu","count":3}]})";
  const Case cases[] = {
      {"count 1 with machine", kMachine, requests(request(R"(,"count":1)")), "", {}},
      {"count 2 without machine", kManager, requests(request(R"(,"count":2)")), "", {}},
      {"count 2 with machine",
       kMachine,
       requests(request(R"(,"count":2)" + four)),
       "",
       {"error machine-count"},
       "{count: 1, capacity: {requests: {dra.cpu/cpu: \"8\"}}}"},
      {"count 2 without an amount",
       kMachine,
       requests(request(R"(,"count":2)")),
       "",
       {"error machine-count"},
       "dra.cpu/cpu: \"N\"}}}, N the number of CPUs"},
      {"an amount beyond all reason",
       kMachine,
       requests(request(R"(,"count":9000000000000000000)" + four)),
       "",
       {"error machine-count"},
       "\"N\""},
      {"count 3 in an alternative",
       kMachine,
       requests(sub),
       "",
       {"error machine-count"},
       "request \"r/s\" has count 3"},
      {"through a class that names the driver",
       kMachine,
       requests(request(R"(,"count":2)", "r", "fast")),
       "",
       {"error machine-count"}},
      {"through a class of another driver", kMachine, requests(request(R"(,"count":2)", "r", "gpu")), "", {}},
      {"allocated by another driver",
       kMachine,
       requests(request(R"(,"count":2)")),
       results(result("gpu0", "", "gpu.example.com")),
       {}},

      {"admin access",
       kManager,
       requests(request(R"(,"adminAccess":true)")),
       "",
       {"error admin-access"},
       "\"r\""},
      {"no admin access", kManager, requests(request(R"(,"adminAccess":false)")), "", {}},
      {"admin access to another device",
       kManager,
       requests(request(R"(,"adminAccess":true)", "r", "gpu")),
       "",
       {}},
      {"admin access that is allocated",
       kManager,
       plain,
       results(result("cpudevnuma000", R"(,"adminAccess":true)")),
       {"error admin-access"}},

      {"CPUs chosen for cpumanager",
       kManager,
       requests(request(""), entry()),
       "",
       {"error opaque-config-refused"},
       "out of spec.devices.config"},
      {"CPUs chosen for external", kExternal, requests(request(""), entry()), "", {}},
      {"CPUs chosen with single CPUs", kIndividual, requests(request(""), entry()), "", {}},
      {"configuration for another driver",
       kManager,
       requests(request(""), entry("", "gpu.example.com")),
       "",
       {}},
      {"configuration for another request",
       kManager,
       requests(request(""), entry(R"(,"requests":["other"])")),
       "",
       {}},
      {"parameters that say nothing",
       kExternal,
       requests(request(""), entry("", "dra.cpu", R"({"apiVersion":"v1alpha1"})")),
       "",
       {"error opaque-config-invalid"}},
      {"two for one request",
       kExternal,
       requests(request(""), entry() + "," + entry(R"(,"requests":["r"])")),
       "",
       {"error opaque-config-count"},
       "has 2 opaque configurations"},
      {"none before the allocation", kExternal, plain, "", {}},
      {"none after it",
       kExternal,
       plain,
       results(result("cpudevnuma000")),
       {"error opaque-config-count"},
       "has 0"},
      {"one after it",
       kExternal,
       plain,
       results(result("cpudevnuma000"), entry(R"(,"source":"FromClaim")")),
       {}},
      {"one from the class after it",
       kExternal,
       plain,
       results(result("cpudevnuma000"), entry(R"(,"source":"FromClass")")),
       {"error opaque-config-from-class"}},
      {"one for two requests",
       kExternal,
       requests(request("") + "," + request("", "q"), entry()),
       "",
       {"error opaque-config-shared"},
       "\"r\", \"q\""},

      {"device of the same grouping", kManager, plain, results(result("cpudevnuma000")), {}},
      {"device of another grouping",
       kManager,
       plain,
       results(result("cpudevsocket000")),
       {"error other-grouping"},
       "kubectl -n team delete resourceclaim a"},
      {"device of another mode",
       kIndividual,
       plain,
       results(result("cpudevmachine")),
       {"error other-grouping"}},
      {"device of another driver", kManager, plain, results(result("cpudevsocket000", "", "other")), {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.about);
    Facts facts;
    facts.classes = {{"fast", {}, {R"(device.driver == "dra.cpu" && true)"}, {}},
                     {"gpu", {}, {R"(device.driver == "dra.cpu.example.com")"}, {}}};
    facts.claims = {claim_of(c.devices, c.allocated)};
    const Report report = run_rules(given(c.config), facts);
    std::vector<std::string> wanted = c.ids;
    if (std::string_view(c.config) == kIndividual) wanted.emplace_back("warning individual-mode");
    EXPECT_THAT(ids_of(report.findings), ElementsAreArray(wanted));
    EXPECT_THAT(texts_of(report.findings), HasSubstr(c.told));
    if (!c.ids.empty()) {
      EXPECT_EQ(report.findings.front().object, "ResourceClaim team/a");
    }
  }
}

TEST(ClaimRules, TemplatesAreJudgedAsClaims) {
  Facts facts;
  const Result<ClaimObject> read = read_template(object_in(
      R"({"metadata":{"namespace":"team","name":"t","uid":"x"},"spec":{"spec":{"devices":{"requests":[
          {"name":"r","exactly":{"deviceClassName":"dra.cpu","adminAccess":true}}]}}}})"));
  ASSERT_TRUE(read.ok()) << read.error().text;
  facts.claims = {*read};
  const Report report = run_rules(given(kManager), facts);
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].object, "ResourceClaimTemplate team/t");
}

TEST(ClaimRules, AClassMustNotChooseCpus) {
  Facts facts;
  facts.classes = {{"dra.cpu", {}, {}, {"", "dra.cpu"}}, {"gpu", {}, {}, {"gpu.example.com"}}};
  const Report report = run_rules(given(kExternal), facts);
  EXPECT_THAT(ids_of(report.findings), ElementsAreArray({"error opaque-config-from-class"}));
  EXPECT_EQ(report.findings[0].object, "DeviceClass dra.cpu");
  EXPECT_THAT(report.findings[0].fix, HasSubstr("/spec/config/1"));
  EXPECT_TRUE(run_rules(given(kIndividual), facts).findings.size() == 1) << "individual mode ignores them";
}

TEST(ClaimRules, WhatIsPublishedTellsWhereNoConfigurationIsKnown) {
  Facts facts;
  facts.claims = {claim_of(requests(request(R"(,"count":2)")))};
  Report report = run_rules({}, facts);
  EXPECT_TRUE(report.findings.empty());
  EXPECT_THAT(report.not_checked.back().why, HasSubstr("--config FILE"));
  SliceObject slice;
  slice.has_machine = true;
  facts.slices = {slice};
  report = run_rules({}, facts);
  EXPECT_THAT(ids_of(report.findings), ElementsAreArray({"error machine-count"}));
}

TEST(Mentions, WholeNamesOnly) {
  EXPECT_TRUE(mentions(R"(device.driver == "dra.cpu")", "dra.cpu"));
  EXPECT_TRUE(mentions("dra.cpu", "dra.cpu"));
  EXPECT_TRUE(mentions("xdra.cpu dra.cpu", "dra.cpu"));
  for (const char* text : {"dra.cpu.example.com", "my-dra.cpu", "dra.cpus", "", "dra_cpu"})
    EXPECT_FALSE(mentions(text, "dra.cpu")) << text;
  EXPECT_FALSE(mentions("anything", ""));
}

}  // namespace
}  // namespace dracpu::upgrade
