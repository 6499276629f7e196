// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// `dracpu plan` of claims on memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>

#include "base/file.h"
#include "cli/claims_file.h"
#include "cli/plan.h"
#include "data/corpus.h"
#include "data/tree.h"

namespace dracpu::cli {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;
using ::testing::Not;

class PlanMemoryTest : public ::testing::Test {
 protected:
  // Two NUMA nodes of four CPUs and 8 GiB, with 64 pages of 2 MiB each, and one of 1 GiB on node 1.
  PlanMemoryTest() {
    test::write_tree(
        test::make_tree({.sockets = 2, .nodes_per_socket = 1, .cores_per_node = 2, .threads = 2}),
        dir_.path());
    for (int node = 0; node < 2; ++node) {
      put(node, "meminfo", fmt::format("Node {} MemTotal: {} kB\n", node, 8 << 20));
      pages(node, 2048, 64);
      pages(node, 1 << 20, node);
    }
    config_.node.name = "n1";
    config_.node.host_root = dir_.path();
    config_.memory.enabled = true;
    load();
  }
  void put(int node, const std::string& file, const std::string& text) const {
    const auto path = dir_.path() / fmt::format("sys/devices/system/node/node{}/{}", node, file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void pages(int node, int kib, int count) const {
    for (const char* file : {"nr_hugepages", "free_hugepages", "surplus_hugepages"}) {
      put(node, fmt::format("hugepages/hugepages-{}kB/{}", kib, file),
          fmt::format("{}\n", file[0] == 's' ? 0 : count));
    }
  }
  void load() {
    node_ = agent::build_node(config_).value();
    machine_ = agent::read_machine(node_).value();
  }
  std::string plan(const std::string& text, const std::string& form = "text") {
    Result<ClaimsFile> file = read_claims(text);
    EXPECT_TRUE(file.ok()) << file.error().text;
    leave_out_other_nodes(node_, *file);
    agent::PlanInput input;
    input.claims = file->claims;
    input.refused = file->refused;
    input.held_memory = held_;
    return plan_text(agent::make_plan(node_, *machine_, input).value(), *machine_, form);
  }
  // "dra.memory 1Gi" is a request, several are joined by "; ".
  static std::string claim(const std::string& name, const std::string& wishes, const std::string& more = "") {
    std::string requests;
    int n = 0;
    for (std::size_t at = 0; at < wishes.size();) {
      const std::size_t end = std::min(wishes.find("; ", at), wishes.size());
      const std::string wish = wishes.substr(at, end - at);
      const std::size_t gap = wish.find(' ');
      const std::string of = wish.substr(0, gap);
      requests += fmt::format("      - name: r{}\n        exactly: {{deviceClassName: {}{}}}\n", n++, of,
                              gap == std::string::npos ? ""
                                                       : fmt::format(", capacity: {{requests: {{{}: {}}}}}",
                                                                     of == "dra.cpu" ? "dra.cpu/cpu" : "size",
                                                                     wish.substr(gap + 1)));
      at = end + 2;
    }
    return fmt::format(
        "kind: ResourceClaim\nmetadata: {{name: {}, namespace: d}}\nspec:\n  devices:\n    "
        "requests:\n{}{}---\n",
        name, requests, more);
  }
  static std::string allocated(const std::string& name, const std::string& device, const std::string& size,
                               const std::string& pool = "n1") {
    return fmt::format(
        "kind: ResourceClaim\nmetadata: {{name: {}, namespace: d}}\nstatus: {{allocation: {{devices: "
        "{{results: "
        "[{{request: r, driver: dra.memory, pool: {}, device: {}, consumedCapacity: {{size: "
        "{}}}}}]}}}}}}\n---\n",
        name, pool, device, size);
  }

  test::TempDir dir_;
  config::Config config_;
  agent::Node node_;
  std::shared_ptr<const agent::Machine> machine_;
  std::map<ClaimUid, memory::Claim> held_;
};

constexpr const char* kOneNode = "    constraints: [{matchAttribute: resource.kubernetes.io/numaNode}]\n";

TEST_F(PlanMemoryTest, ClaimsGoWhereTheyFitFirst) {
  EXPECT_EQ(plan(claim("a", "dra.memory 7Gi") + claim("b", "dra.memory 2Gi") +
                 claim("c", "dra.hugepages-2m 64Mi; dra.cpu 2")),
            "d/a: memory 7Gi of NUMA node 0 (device chosen here, first-fit)\n"
            "d/b: memory 2Gi of NUMA node 1 (device chosen here, first-fit)\n"
            "d/c: CPUs 0,4; hugepages-2Mi 64Mi of NUMA node 0 (2 CPUs of 1 core, NUMA node 0; device chosen "
            "here, first-fit)\n"
            "shared pool: 1-3,5-7\n"
            "memory left: memory-numa000 896Mi, memory-numa001 4992Mi, hugepages-2mi-numa000 64Mi, "
            "hugepages-2mi-numa001 128Mi, hugepages-1gi-numa001 1Gi\n");
}

// As the API server rounds what a device's range says.
TEST_F(PlanMemoryTest, AmountsAreRoundedByTheStep) {
  struct Case {
    const char* wish;
    const char* gets;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"dra.memory", "memory 1Mi of NUMA node 0"},
           {"dra.memory 1", "memory 4Ki of"},
           {"dra.memory 0", "memory 4Ki of"},
           {"dra.memory 4097", "memory 8Ki of"},
           {"dra.memory 1500m", "memory 4Ki of"},
           {"dra.memory 1G", "memory 976564Ki of"},
           {"dra.hugepages-2m", "hugepages-2Mi 2Mi of NUMA node 0"},
           {"dra.hugepages-2m 3Mi", "hugepages-2Mi 4Mi of"},
           {"dra.hugepages-1g", "hugepages-1Gi 1Gi of NUMA node 1"},
           {"dra.hugepages-1g 2Mi", "hugepages-1Gi 1Gi of NUMA node 1"},
       }) {
    EXPECT_THAT(plan(claim("a", c.wish)), HasSubstr(fmt::format("d/a: {}", c.gets))) << c.wish;
  }
}

TEST_F(PlanMemoryTest, CpusAndMemoryMatchOnANode) {
  const std::string fill = claim("fill", "dra.memory 7Gi");
  EXPECT_THAT(plan(fill + claim("a", "dra.cpu 2; dra.memory 4Gi", kOneNode)),
              HasSubstr("d/a: CPUs 2,6; memory 4Gi of NUMA node 1 (2 CPUs of 1 core, NUMA node 1; "));
  EXPECT_THAT(plan(fill + claim("a", "dra.cpu 2; dra.memory 4Gi")),
              HasSubstr("d/a: CPUs 0,4; memory 4Gi of NUMA node 1"))
      << "nothing asked for one node";
  EXPECT_THAT(
      plan(claim("a", "dra.cpu 3; dra.memory 4Gi; dra.hugepages-1g; dra.cpu 2", kOneNode)),
      HasSubstr(
          "d/a: refused (noCapacity): with resource.kubernetes.io/numaNode 0, request \"r2\": no device "
          "of class \"dra.hugepages-1g\" has that, with resource.kubernetes.io/numaNode 1, request \"r3\": "
          "no device has room for 2 CPUs; CPUs left: cpudevnuma001 1\n"));
  // Of some requests alone, and of an attribute that nothing here has.
  const std::string some = "    constraints: [{requests: [r1, r2], matchAttribute: dra.net/numaNode}";
  EXPECT_THAT(plan(fill + claim("a", "dra.cpu 2; dra.memory 4Gi; dra.cpu 1", some + "]\n")),
              HasSubstr("d/a: CPUs 0,2,4; memory 4Gi of NUMA node 1"));
  EXPECT_THAT(
      plan(claim("a", "dra.cpu 2; dra.memory 4Gi; dra.cpu 1", some + ", {matchAttribute: example.com/x}]\n")),
      HasSubstr(
          "d/a: refused (noCapacity): matchAttribute example.com/x: no device here has that attribute\n"));
}

TEST_F(PlanMemoryTest, TheExampleOfTheManualFits) {
  const std::string text = read_file(DRACPU_SOURCE_DIR "/docs/examples/numa-memory.yaml").value();
  EXPECT_THAT(plan(text), HasSubstr("numa-memory-slot: CPUs 0,4; hugepages-2Mi 64Mi of NUMA node 0 ("));
}

TEST_F(PlanMemoryTest, RefusalsHaveNumbers) {
  config_.memory.reserved = "0:memory=1Gi";
  load();
  pages(1, 2048, 64);
  put(1, "hugepages/hugepages-2048kB/free_hugepages", "10\n");
  load();
  const std::string most = allocated("most", "memory-numa000", "6Gi");
  struct Case {
    std::string claim;
    const char* says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {claim("a", "dra.memory 9Gi"),
            "d/a: refused (noCapacity): request \"r0\": no device has room for 9Gi; memory left: "
            "memory-numa000 896Mi, memory-numa001 7040Mi\n"},
           {claim("a", "dra.hugepages-32m 32Mi"), "no device has room for 32Mi; memory left: none\n"},
           {claim("a", "dra.memory -1Gi"), "d/a: refused (invalid): request \"r0\": size is -1Gi, less than"},
           {"kind: ResourceClaim\nmetadata: {name: a, namespace: d}\nspec: {devices: {requests: [{name: r, "
            "exactly: {deviceClassName: dra.memory, capacity: {requests: {memory: 1Gi}}}}]}}\n",
            "no device here has a capacity \"memory\"; ask for \"size\""},
           {allocated("a", "memory-numa000", "1Gi"),
            "d/a: refused (noCapacity): claim d/a: device \"memory-numa000\": 1Gi requested, 896Mi of 7040Mi "
            "left"},
           {allocated("a", "memory-numa001", "4097"),
            "d/a: refused (invalid): claim d/a: device "
            "\"memory-numa001\": 4097 is not a multiple of the page "
            "size 4Ki"},
           {allocated("a", "memory-x7k2qp", "4Ki"), "\"memory-x7k2qp\" is not a memory device of this node"},
           {allocated("a", "hugepages-2mi-numa001", "64Mi"),
            "d/a: refused (noCapacity): claim d/a: NUMA node 1 has 10 free pages of 2Mi, 32 needed"},
       }) {
    EXPECT_THAT(plan(most + c.claim), HasSubstr(c.says)) << c.claim;
  }
  // Leaves it to the kernel.
  config_.memory.verify_free_hugepages = false;
  load();
  EXPECT_THAT(plan(allocated("a", "hugepages-2mi-numa001", "64Mi")), HasSubstr("d/a: hugepages-2Mi 64Mi of"));
}

// The other driver's part would be given back with the pod.
TEST_F(PlanMemoryTest, AClaimGetsAllOrNothing) {
  const std::string both =
      "kind: ResourceClaim\nmetadata: {name: a, namespace: d}\nstatus: {allocation: {devices: {results: "
      "[{request: m, driver: dra.memory, pool: n1, device: memory-numa000, consumedCapacity: {size: 4Gi}}, "
      "{request: c, driver: dra.cpu, pool: n1, device: cpudevnuma000, consumedCapacity: {dra.cpu/cpu: "
      "9}}]}}}\n";
  const std::string text = plan(both);
  EXPECT_THAT(text, HasSubstr("d/a: refused (noCapacity): "));
  EXPECT_THAT(text, HasSubstr("memory left: memory-numa000 8064Mi, "));
}

TEST_F(PlanMemoryTest, AClaimIsForOnePod) {
  const std::string pod =
      "kind: Pod\nmetadata: {name: %, namespace: d}\nspec: {resourceClaims: [{name: m, resourceClaimName: "
      "c}]}\n---\n";
  const auto named = [&](char name) {
    std::string out = pod;
    out[out.find('%')] = name;
    return out;
  };
  EXPECT_THAT(plan(claim("c", "dra.memory 1Gi") + named('a')), HasSubstr("d/c: memory 1Gi of"));
  EXPECT_THAT(plan(claim("c", "dra.memory 1Gi") + named('a') + named('b')),
              HasSubstr("d/c: refused (invalid): claim d/c is reserved for 2 consumers, memory claims serve "
                        "exactly one pod"));
}

TEST_F(PlanMemoryTest, HeldClaimsAndOtherNodesClaims) {
  held_.emplace(ClaimUid("u"), memory::adopted_claim({{memory::Kind(), {{NumaNodeId(0), {7ULL << 30U}}}}}));
  EXPECT_THAT(plan(claim("a", "dra.memory 2Gi")), HasSubstr("d/a: memory 2Gi of NUMA node 1"));
  EXPECT_THAT(plan(allocated("a", "memory-numa000", "1Gi", "n2") + claim("b", "dra.memory 2Gi")),
              Not(HasSubstr("d/a")));
}

TEST_F(PlanMemoryTest, JsonHasAmountsInBytes) {
  const json::value root = json::parse(
      plan(claim("a", "dra.cpu 1; dra.memory 1Gi; dra.hugepages-2m") + claim("b", "dra.memory 1Pi"), "json"));
  EXPECT_EQ(
      json::serialize(root.at("claims").at(0)),
      R"({"namespace":"d","name":"a","uid":"plan-1","chosenBy":"firstFit","devices":["cpudevnuma000",)"
      R"("memory-numa000","hugepages-2mi-numa000"],"cpus":"0","memory":[{"resource":"memory",)"
      R"("numaNode":0,"bytes":1073741824},{"resource":"hugepages-2Mi","numaNode":0,"bytes":2097152}]})");
  EXPECT_EQ(root.at("claims").at(1).at("error").at("code").as_string(), "noCapacity");
  EXPECT_EQ(json::serialize(root.at("memoryLeft").at(0)),
            R"({"resource":"memory","numaNode":0,"bytes":7381975040})");
}

// One request of both: amounts of the CPUs' device.
TEST_F(PlanMemoryTest, CombinedTakesMemoryWithTheCpus) {
  config_.memory.mode = config::MemoryMode::kCombined;
  load();
  const auto slot = [](const std::string& name, const std::string& amounts) {
    return fmt::format(
        "kind: ResourceClaim\nmetadata: {{name: {}, namespace: d}}\nspec:\n  devices:\n    requests:\n"
        "      - name: slot\n        exactly: {{deviceClassName: dra.cpu, capacity: {{requests: {{{}}}}}}}\n"
        "---\n",
        name, amounts);
  };
  const std::string text =
      plan(slot("a", "dra.cpu/cpu: 2, dra.memory/memory: 5Gi") +
           slot("b", "dra.cpu/cpu: 1, dra.memory/memory: 4Gi, dra.memory/hugepages_2Mi: 3Mi") +
           slot("c", "dra.cpu/cpu: 0, dra.memory/memory: 1Gi") + slot("d", "dra.cpu/cpu: 2") +
           slot("e", "dra.cpu/cpu: 1, dra.memory/memory: 4Gi") + slot("f", "dra.cpu/cpu: 0") +
           slot("g", "dra.cpu/cpu: 1, dra.memory/memory: -1") + claim("h", "dra.memory 1Gi"));
  EXPECT_THAT(text, HasSubstr("d/a: CPUs 0,4; memory 5Gi of NUMA node 0 "));
  EXPECT_THAT(text, HasSubstr("d/b: CPUs 2; memory 4Gi of NUMA node 1; hugepages-2Mi 4Mi of NUMA node 1 "));
  EXPECT_THAT(text, HasSubstr("d/c: memory 1Gi of NUMA node 0 "));
  EXPECT_THAT(text, HasSubstr("d/d: CPUs 1,5 ")) << "CPUs alone hold no memory";
  EXPECT_THAT(text, HasSubstr("d/e: refused (noCapacity): request \"slot\": no device has room for 1 CPU and "
                              "4Gi of dra.memory/memory; CPUs and memory left: "));
  EXPECT_THAT(text, HasSubstr("d/f: refused (invalid)"));
  EXPECT_THAT(text, HasSubstr("d/g: refused (invalid): request \"slot\": dra.memory/memory is -1"));
  EXPECT_THAT(text,
              HasSubstr("d/h: refused (unsupported): request \"r0\": in combined mode there is no class "
                        "\"dra.memory\"; ask \"dra.cpu\" for memory with the CPUs"));
  // A size that only node 1 has.
  const std::string big = "dra.cpu/cpu: 3, dra.memory/hugepages_1Gi: 1Gi";
  EXPECT_THAT(plan(slot("a", big)),
              HasSubstr("hugepages-1Gi 1Gi of NUMA node 1 (3 CPUs of 2 cores, NUMA node 1"));
  EXPECT_THAT(plan(slot("a", "dra.cpu/cpu: 4") + slot("b", "dra.cpu/cpu: 2") + slot("c", big)),
              HasSubstr("d/c: refused (noCapacity)"));
  EXPECT_THAT(plan(slot("a", "dra.cpu/cpu: 1, dra.memory/foo: 1")),
              HasSubstr("no device here has a capacity \"dra.memory/foo\"; ask for \"dra.cpu/cpu\", "
                        "\"dra.memory/hugepages_1Gi\", \"dra.memory/hugepages_2Mi\", \"dra.memory/memory\""));
  EXPECT_THAT(plan(claim("a", "dra.cpu 1; dra.memory 1Gi")), HasSubstr("d/a: refused (unsupported)"));
  EXPECT_THAT(
      plan(allocated("a", "memory-numa000", "1Gi")),
      HasSubstr("d/a: refused (unsupported): it has devices of dra.memory, which in combined mode are "
                "served no more"));
}

// What one claim of a plan gets is not free for the next.
TEST_F(PlanMemoryTest, FreeHugepagesAreGivenOutOnce) {
  put(0, "hugepages/hugepages-2048kB/free_hugepages", "50\n");
  put(1, "hugepages/hugepages-2048kB/free_hugepages", "0\n");
  load();
  const std::string text = plan(claim("a", "dra.hugepages-2m 60Mi") + claim("b", "dra.hugepages-2m 60Mi"));
  EXPECT_THAT(text, HasSubstr("d/a: hugepages-2Mi 60Mi of NUMA node 0"));
  EXPECT_THAT(text, HasSubstr("d/b: refused (noCapacity)"));
  EXPECT_THAT(text, HasSubstr("20 free"));
}

TEST_F(PlanMemoryTest, OffNothingOfItIsThere) {
  config_.memory.enabled = false;
  load();
  EXPECT_THAT(plan(claim("a", "dra.cpu 1; dra.memory 1Gi") + claim("b", "dra.memory 1Gi")),
              ::testing::StrEq("d/a: CPUs 0 (1 CPU of 1 core, NUMA node 0; device chosen here, first-fit)\n"
                               "d/b: refused (invalid): no request with device class \"dra.cpu\"; the claim "
                               "has no allocation either; memory is off in this configuration\n"
                               "shared pool: 1-7\n"));
}

}  // namespace
}  // namespace dracpu::cli
