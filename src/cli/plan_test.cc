// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/file.h"
#include "base/strings.h"
#include "cli/claims_file.h"
#include "cli/yaml_form.h"
#include "data/corpus.h"
#include "data/tree.h"

namespace dracpu::cli {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

class PlanTest : public ::testing::Test {
 protected:
  // Two NUMA nodes of four CPUs: 0,1,4,5 and 2,3,6,7.
  PlanTest() {
    test::write_tree(
        test::make_tree({.sockets = 2, .nodes_per_socket = 1, .cores_per_node = 2, .threads = 2}),
        dir_.path());
    config_.node.name = "n1";
    config_.node.host_root = dir_.path();
    load();
  }
  void load() {
    node_ = agent::build_node(config_).value();
    machine_ = agent::read_machine(node_).value();
  }
  static std::string claim(const std::string& name, const std::string& cpus, const std::string& more = "") {
    return "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: " + name +
           ", namespace: d}\nspec:\n  devices:\n    requests:\n    - name: r\n      exactly:\n        "
           "deviceClassName: dra.cpu\n        capacity: {requests: {dra.cpu/cpu: " +
           cpus + "}}\n" + more + "---\n";
  }
  std::string plan(const std::string& text, const std::string& form = "text",
                   std::optional<CpuSet> free = {}) {
    const Result<ClaimsFile> file = read_claims(text);
    EXPECT_TRUE(file.ok()) << file.error().text;
    return plan_text(
        agent::make_plan(node_, *machine_, {file->claims, file->refused, std::move(free), held_}).value(),
        *machine_, form);
  }

  test::TempDir dir_;
  config::Config config_;
  agent::Node node_;
  std::shared_ptr<const agent::Machine> machine_;
  std::map<ClaimUid, ledger::Claim> held_;
};

TEST_F(PlanTest, ClaimsWithoutAllocationGoWhereTheyFitFirst) {
  EXPECT_EQ(plan(claim("a", "2") + claim("b", "4") + claim("c", "1")),
            "d/a: CPUs 0,4 (2 CPUs of 1 core, NUMA node 0; device chosen here, first-fit)\n"
            "d/b: CPUs 2-3,6-7 (4 CPUs of 2 cores, NUMA node 1; device chosen here, first-fit)\n"
            "d/c: CPUs 1 (1 CPU of 1 core, NUMA node 0; device chosen here, first-fit)\n"
            "shared pool: 5\n");
}

// docs/user/migrating-from-individual-mode.md: its claims give what it prints, and its external choice fits.
TEST_F(PlanTest, TheMigrationGuideIsTrue) {
  const std::string guide =
      read_file(DRACPU_SOURCE_DIR "/docs/user/migrating-from-individual-mode.md").value();
  std::vector<std::string> blocks;
  const std::string fence = "```yaml\n";
  for (std::size_t at = guide.find(fence); at != std::string::npos; at = guide.find(fence, at)) {
    at += fence.size();
    blocks.push_back(guide.substr(at, guide.find("```", at) - at));
  }
  ASSERT_EQ(blocks.size(), 3U);
  // Printed there, each line indented by four.
  const auto is_printed = [&](const std::string& command, const std::string& lines) {
    std::string wanted = "    $ " + command + "\n";
    for (const std::string_view line : split(std::string_view(lines).substr(0, lines.size() - 1), '\n'))
      wanted += fmt::format("    {}\n", line);
    EXPECT_THAT(guide, HasSubstr(wanted));
  };
  config_.cpu.devices = config::DeviceMode::kIndividual;
  load();
  is_printed("dracpu plan --claims before.yaml --config individual.yaml", plan(blocks[0]));
  config_.cpu.devices = config::DeviceMode::kGrouped;
  load();
  is_printed("dracpu plan --claims after.yaml --config grouped.yaml", plan(blocks[1]));

  config_.cpu.allocator = config::Allocator::kExternal;
  config_.node.name = "node-a";
  load();
  EXPECT_THAT(plan(blocks[1] + blocks[2]), HasSubstr("team/four: CPUs 0-1,4-5 ("));
}

TEST_F(PlanTest, ARefusalSaysWhatIsFreeWhere) {
  const std::string text = plan(claim("a", "3") + claim("b", "5") + claim("c", "1500m"));
  EXPECT_THAT(text,
              HasSubstr("d/b: refused (noCapacity): request \"r\": no device has room for 5 CPUs; CPUs left: "
                        "cpudevnuma000 1, cpudevnuma001 4\n"));
  EXPECT_THAT(text, HasSubstr("d/c: refused (invalid): "));
  const std::string allocated = R"(
status:
  allocation:
    devices:
      results:
      - {request: r, driver: dra.cpu, pool: n1, device: cpudevnuma001, consumedCapacity: {dra.cpu/cpu: "3"}}
)";
  EXPECT_THAT(
      plan(claim("a", "3", allocated), "text", CpuSet{0, 1, 2, 3, 4}),
      HasSubstr("needs 3 CPUs of device \"cpudevnuma001\", 2 are free there (2-3); free now: cpudevnuma000 3 "
                "(0-1,4), cpudevnuma001 2 (2-3)"));
}

TEST_F(PlanTest, JsonHasOneEntryPerClaim) {
  const json::value root = json::parse(plan(claim("a", "2") + claim("b", "9"), "json"));
  EXPECT_EQ(root.at("sharedCPUs").as_string(), "1-3,5-7");
  const json::value& a = root.at("claims").at(0);
  EXPECT_EQ(json::serialize(a),
            R"({"namespace":"d","name":"a","uid":"plan-1","chosenBy":"firstFit","devices":["cpudevnuma000"],)"
            R"("cpus":"0,4"})");
  EXPECT_EQ(root.at("claims").at(1).at("error").at("code").as_string(), "noCapacity");
}

TEST_F(PlanTest, HeldClaimsKeepTheirCpus) {
  ledger::Claim held{"d",          "old", CpuSet{0, 4}, {{"r", "n1", "cpudevnuma000", std::nullopt, 2}},
                     std::nullopt, true};
  held_.emplace(ClaimUid("u"), held);
  EXPECT_THAT(plan(claim("a", "4") + claim("b", "2")), HasSubstr("d/a: CPUs 2-3,6-7"));
  EXPECT_THAT(plan(claim("b", "2")), HasSubstr("d/b: CPUs 1,5"));
}

TEST_F(PlanTest, TheLastSharedCpuIsNotHandedOut) {
  EXPECT_THAT(plan(claim("a", "4") + claim("b", "4")),
              HasSubstr("d/b: refused (noCapacity): the claim would take"));
}

TEST_F(PlanTest, AnExternalAllocatorsClaimIsJudgedByItsRules) {
  config_.cpu.allocator = config::Allocator::kExternal;
  config_.cpu.group_by = config::GroupBy::kMachine;
  load();
  const auto allocated = [](const std::string& cpus) {
    return R"(
status:
  allocation:
    devices:
      results:
      - {request: r, driver: dra.cpu, pool: n1, device: cpudevmachine, consumedCapacity: {dra.cpu/cpu: "2"}}
      config:
      - source: FromClaim
        opaque:
          driver: dra.cpu
          parameters: {apiVersion: v1alpha1, cpuConfig: {cpuset: ")" +
           cpus + R"("}}
)";
  };
  EXPECT_THAT(plan(claim("a", "2", allocated("2,6"))), HasSubstr("d/a: CPUs 2,6"));
  EXPECT_THAT(plan(claim("a", "2", allocated("2"))), HasSubstr("refused (invalid)"));
  EXPECT_THAT(plan(claim("a", "2")), HasSubstr("has 0 opaque configurations"));
}

TEST_F(PlanTest, IndividualModeTakesOneDevicePerCpu) {
  config_.cpu.devices = config::DeviceMode::kIndividual;
  load();
  const std::string three =
      "kind: ResourceClaimTemplate\nmetadata: {name: t}\nspec:\n  spec:\n    devices:\n      requests:\n     "
      " - name: "
      "r\n        exactly: {deviceClassName: dra.cpu, allocationMode: ExactCount, count: 3}\n";
  EXPECT_THAT(plan(three), HasSubstr("t: CPUs 0-1,4 (3 CPUs of 2 cores"));
}

TEST_F(PlanTest, OtherDriversClaimsAndObjectsAreLeftOut) {
  const Result<ClaimsFile> file = read_claims("kind: Deployment\n---\n" + claim("a", "1"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->claims.size(), 1U);
  ASSERT_EQ(file->notes.size(), 1U);
  EXPECT_THAT(file->notes[0], HasSubstr("Deployment"));
  const std::string gpu =
      "kind: ResourceClaim\nmetadata: {name: g}\nspec: {devices: {requests: [{name: r, exactly: "
      "{deviceClassName: "
      "gpu}}]}}\n";
  EXPECT_THAT(plan(gpu), HasSubstr("g: refused (invalid): no request with device class \"dra.cpu\""));
}

std::string on_device(const std::string& pool, const std::string& device, const std::string& cpus) {
  return "\nstatus: {allocation: {devices: {results: [{request: r, driver: dra.cpu, pool: " + pool +
         ", device: " + device + ", consumedCapacity: {dra.cpu/cpu: \"" + cpus + "\"}}]}}}\n";
}

// What is allocated holds its device already, wherever it stands in the file.
TEST_F(PlanTest, AllocatedClaimsComeFirst) {
  EXPECT_EQ(plan(claim("new", "4") + claim("old", "2", on_device("n1", "cpudevnuma000", "2"))),
            "d/new: CPUs 2-3,6-7 (4 CPUs of 2 cores, NUMA node 1; device chosen here, first-fit)\n"
            "d/old: CPUs 0,4 (2 CPUs of 1 core, NUMA node 0; device from its allocation)\n"
            "shared pool: 1,5\n");
}

// A device whose CPUs are not free is not chosen, whatever its size.
TEST_F(PlanTest, FirstFitLooksAtWhatIsFree) {
  const CpuSet free = CpuSet::parse("2-3,5-7").value();
  EXPECT_EQ(plan(claim("a", "2"), "text", free),
            "d/a: CPUs 2,6 (2 CPUs of 1 core, NUMA node 1; device chosen here, first-fit)\n"
            "shared pool: 3,5,7\n");
  EXPECT_THAT(plan(claim("b", "5"), "text", free), HasSubstr("CPUs left: cpudevnuma000 1, cpudevnuma001 4"));
}

// The scheduler copies the claim's own configuration into the allocation; so does first-fit.
TEST_F(PlanTest, OwnConfigurationReachesAnExternalAllocation) {
  config_.cpu.allocator = config::Allocator::kExternal;
  load();
  const std::string config =
      "  devices:\n    config: [{requests: [r], opaque: {driver: dra.cpu, parameters: {apiVersion: v1alpha1, "
      "cpuConfig: {cpuset: \"1,5\"}}}}]\n";
  const std::string text = "kind: ResourceClaim\nmetadata: {name: c, namespace: d}\nspec:\n" + config +
                           "    requests: [{name: r, exactly: {deviceClassName: dra.cpu, capacity: "
                           "{requests: {dra.cpu/cpu: 2}}}}]\n";
  EXPECT_THAT(plan(text), HasSubstr("d/c: CPUs 1,5 ("));
}

// As in "kubectl get resourceclaims -A".
TEST_F(PlanTest, ClaimsOfOtherNodesAreLeftOut) {
  ClaimsFile file = read_claims(claim("a", "2", on_device("n2", "cpudevnuma000", "2")) +
                                claim("b", "2", on_device("n1", "cpudevnuma000", "2")) + claim("c", "1"))
                        .value();
  leave_out_other_nodes(node_, file);
  ASSERT_EQ(file.claims.size(), 2U);
  EXPECT_EQ(file.claims[0].name, "b");
  EXPECT_EQ(file.claims[1].name, "c");
  ASSERT_EQ(file.notes.size(), 1U);
  EXPECT_THAT(file.notes[0],
              HasSubstr("1 claim of other nodes left out (\"n2\"); this plan is of node \"n1\""));
}

TEST_F(PlanTest, WhatNoSchedulerWouldAllocateIsRefused) {
  const auto request = [](const std::string& fields) {
    return "kind: ResourceClaim\nmetadata: {name: c, namespace: d}\nspec: {devices: {requests: [{name: r, "
           "exactly: "
           "{deviceClassName: dra.cpu" +
           fields + "}}]}}\n";
  };
  struct Case {
    const char* fields;
    const char* says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {", count: 0", "refused (invalid): request \"r\": count 0 is not from 1 to 32"},
           {", count: -1", "count -1 is not from 1 to 32"},
           {", count: 33", "count 33 is not from 1 to 32"},
           {", allocationMode: Some", "allocationMode \"Some\" is not known; use ExactCount or All"},
           {", allocationMode: All, count: 2", "allocationMode All takes no count, found 2"},
           {", capacity: {requests: {memory: 1Gi}}",
            "no device here has a capacity \"memory\"; ask for \"dra.cpu/cpu\""},
           {", count: 3, capacity: {requests: {dra.cpu/cpu: 4}}",
            "device 3 of 3: request \"r\": no device has room for 4 CPUs"},
           {", capacity: {requests: {cpu: 4}}",
            "no device here has a capacity \"cpu\"; ask for \"dra.cpu/cpu\""},
           {", capacity: {requests: {dra.cpu/cpu: -1}}",
            "request \"r\": dra.cpu/cpu is -1, less than nothing"},
           {", capacity: {requests: {dra.cpu/cpu: 1500m}}",
            "request \"r\": dra.cpu/cpu is 1500m; exclusive CPUs"},
           {", capacity: {requests: {dra.cpu/cpu: 0}}",
            "request \"r\": dra.cpu/cpu is 0; it must be positive\n"},
           {", adminAccess: true", "request \"r\": adminAccess is not served"},
           {"}}, {name: s, exactly: {deviceClassName: dra.cpu, count: 32, capacity: {requests: {dra.cpu/cpu: "
            "1}}",
            "device 5 of 32: request \"s\": no device has room for 1 CPU"},
       }) {
    EXPECT_THAT(plan(request(c.fields)), HasSubstr(c.says));
  }
  config_.cpu.devices = config::DeviceMode::kIndividual;
  load();
  EXPECT_THAT(
      plan(claim("a", "2")),
      HasSubstr("no device here has a capacity \"dra.cpu/cpu\"; each device is one CPU, so ask with count"));
}

TEST_F(PlanTest, TextForATerminalHoldsNoControlCharacters) {
  const std::string text = plan(
      "kind: ResourceClaim\nmetadata: {name: \"a\\e[31m\"}\nspec: {devices: {requests: [{name: r, "
      "exactly: {deviceClassName: dra.cpu, count: 1}}]}}\n");
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

TEST_F(PlanTest, DevicesAreTheSlicesThatWouldBePublished) {
  const std::string yaml = devices_text(node_, *machine_, "yaml");
  const Result<config::YamlNode> parsed = config::parse_yaml(yaml);
  ASSERT_TRUE(parsed.ok()) << parsed.error().text << yaml;
  const json::value from_json = json::parse(devices_text(node_, *machine_, "json"));
  EXPECT_EQ(to_json(*parsed), from_json) << yaml;
  const json::value& spec = from_json.at("items").at(0).at("spec");
  EXPECT_EQ(spec.at("nodeName").as_string(), "n1");
  EXPECT_EQ(spec.at("devices").as_array().size(), 2U);
  EXPECT_EQ(spec.at("devices").at(0).at("capacity").at("dra.cpu/cpu").at("value").as_string(), "4");
}

}  // namespace
}  // namespace dracpu::cli
