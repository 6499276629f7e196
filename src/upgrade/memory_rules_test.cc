// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "upgrade/test_cluster.h"
#include "upgrade/test_facts.h"

namespace dracpu::upgrade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kHead =
    "apiVersion: dracpu/v1beta1\nkind: DriverConfiguration\nnode: {reservedCPUs: none}\n";
const std::string kOn = std::string(kHead) + "memory: {enabled: true}\n";
const std::string kMapped = kOn + "publish: {nodeAllocatableMapping: true}\n";

std::string request(const std::string& device_class, const std::string& more = "") {
  return R"({"requests":[{"name":"r","exactly":{"deviceClassName":")" + device_class + "\"" + more + "}}]}";
}
std::string on_device(const std::string& device) {
  return R"({"results":[{"request":"r","driver":"dra.memory","pool":"w","device":")" + device + "\"}]}";
}
ClaimObject used_by(ClaimObject claim, int pods, const std::string& resource = "pods") {
  for (int i = 0; i < pods; ++i)
    claim.claim.reserved_for.push_back({"", resource, "p", fmt::format("{}", i)});
  return claim;
}
PodObject pod_with(std::set<std::string> hugepages) { return {"team", "p", {"a"}, std::move(hugepages)}; }

struct Case {
  const char* what;
  std::string config;
  std::function<void(Facts&)> edit;
  std::vector<std::string> ids;
  std::string says = {};
};

void run_cases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    Facts facts;
    facts.drivers.emplace();
    c.edit(facts);
    const Report report = run_rules(given(c.config), facts);
    EXPECT_EQ(ids_of(report.findings), c.ids) << texts_of(report.findings);
    EXPECT_THAT(texts_of(report.findings), HasSubstr(c.says));
  }
}

TEST(MemoryRules, ClaimsOfTheStandaloneDriver) {
  const auto claim = [](ClaimObject object) { return [object](Facts& f) { f.claims = {object}; }; };
  run_cases({
      {"as it is written now",
       kOn,
       claim(claim_of(request("dra.memory", R"(,"capacity":{"requests":{"size":"1Gi"}})"))),
       {}},
      {"allocated by this driver",
       kOn,
       claim(used_by(claim_of(request("dra.hugepages-2m"), on_device("hugepages-2mi-numa000")), 1)),
       {}},
      {"allocated by the other",
       kOn,
       claim(claim_of(request("dra.hugepages-2m"), on_device("hugepages-2mi-9rm4zt"))),
       {"error memory-other-device"},
       "kubectl -n team delete resourceclaim a"},
      {"counted in pages",
       kOn,
       claim(claim_of(request("dra.hugepages-2m", R"(,"capacity":{"requests":{"pages":"64"}})"))),
       {"error memory-old-name"},
       "its capacity requests"},
      {"an attribute of before",
       kOn,
       claim(claim_of(request(
           "dra.memory",
           R"(,"selectors":[{"cel":{"expression":"device.attributes[\"dra.memory\"].numaNode == 0"}}])"))),
       {"error memory-old-name"},
       "its selectors"},
      {"a constraint of before",
       kOn,
       claim(claim_of(R"({"requests":[{"name":"r","exactly":{"deviceClassName":"dra.memory"}}],
                          "constraints":[{"matchAttribute":"dra.memory/numaNode"}]})")),
       {"error memory-old-name"},
       "its constraints"},
      {"of two pods",
       kOn,
       claim(used_by(claim_of(request("dra.memory"), on_device("memory-numa000")), 2)),
       {"error memory-claim-shared"},
       "reserved for 2 pods"},
      {"of no pod",
       kOn,
       claim(used_by(claim_of(request("dra.memory"), on_device("memory-numa000")), 1, "podgroups")),
       {"error memory-claim-shared"},
       "no pod"},
      {"CPUs of two pods", kOn, claim(used_by(claim_of(request("dra.cpu")), 2)), {}},
      {"memory stays off", kHead, claim(claim_of(request("dra.memory"), on_device("memory-x7k2qp"))), {}},
  });
}

TEST(MemoryRules, ClassesAndDrivers) {
  const auto with_class = [](const std::string& name, const std::string& expression, bool is_helms) {
    return [=](Facts& f) {
      ClassObject c;
      c.name = name;
      c.expressions = {expression};
      c.is_helms = is_helms;
      f.classes = {c};
    };
  };
  const auto with_slice = [](const std::string& device) {
    return [device](Facts& f) {
      SliceObject s;
      s.name = "s";
      s.driver = "dra.memory";
      s.node = "w";
      s.devices = {device};
      f.slices = {s};
    };
  };
  const auto with_daemon_set = [](bool runs_nowhere) {
    return [runs_nowhere](Facts& f) {
      DriverSet set;
      set.ns = "kube-system";
      set.name = "dramemory";
      set.is_memory_driver = true;
      set.runs_nowhere = runs_nowhere;
      f.memory_drivers = {set};
    };
  };
  run_cases({
      {"own class", kOn, with_class("huge", R"(device.driver == "dra.memory")", false), {}},
      {"class of before",
       kOn,
       with_class("huge",
                  R"(device.driver == "dra.memory" && device.attributes["dra.memory"].pageSize == "2m")",
                  false),
       {"error memory-old-name"},
       "DeviceClass huge"},
      {"own slices", kOn, with_slice("memory-numa000"), {}},
      {"slices of the other", kOn, with_slice("memory-x7k2qp"), {"error memory-driver-active"}, "Node w"},
      {"the other runs",
       kOn,
       with_daemon_set(false),
       {"error memory-driver-active"},
       "kubectl -n kube-system delete daemonset dramemory"},
      {"it runs nowhere", kOn, with_daemon_set(true), {}},
      {"memory stays off", kHead, with_daemon_set(false), {}},
  });
  // The chart makes its classes itself.
  for (const bool is_helms : {false, true}) {
    Facts facts;
    facts.drivers.emplace();
    with_class("dra.memory", R"(device.driver == "dra.memory")", is_helms)(facts);
    Given by_values;
    by_values.values = values_of(
        "image: {repository: r/dracpu}\ndriverConfig: {apiVersion: dracpu/v1beta1, kind: "
        "DriverConfiguration, "
        "node: {reservedCPUs: none}, memory: {enabled: true}}\n");
    const Report report = run_rules(by_values, facts);
    EXPECT_EQ(ids_of(report.findings),
              is_helms ? std::vector<std::string>{} : std::vector<std::string>{"error memory-class-exists"})
        << texts_of(report.findings);
  }
}

TEST(MemoryRules, SettingsAndKubelets) {
  const auto now_on = [](Facts& f) {
    f.configs = {stated(kOn, "ConfigMap kube-system/c")};
    f.claims = {claim_of(request("dra.memory"), on_device("memory-numa000")), claim_of(request("dra.cpu"))};
  };
  const auto manager = [](Facts& f) {
    Kubelet k;
    k.node = "w";
    k.minor = 36;
    k.memory_manager = "Static";
    f.kubelets = {k};
  };
  const auto gate_off = [](Facts& f) {
    Kubelet k;
    k.node = "w";
    k.minor = 36;
    k.gates = {{"DRAConsumableCapacity", false}};
    f.kubelets = {k};
  };
  run_cases({
      {"old form",
       "apiVersion: v1alpha1\nreservedCPUs: \"0\"\nmemoryEnabled: true\nreservedMemory: \"0:memory=1Gi\"\n",
       [](Facts&) {},
       {"error memory-setting-misplaced"},
       "\"memoryEnabled\", \"reservedMemory\": the form v1alpha1"},
      {"section in the old form",
       "memory: {enabled: true}\n",
       [](Facts&) {},
       {"error memory-setting-misplaced"}},
      {"stays on", kOn, now_on, {}},
      {"switched off", kHead, now_on, {"error memory-switched-off"}, "ResourceClaim team/a"},
      {"Memory Manager", kOn, manager, {"error memory-manager-active"}, "claims on memory are refused"},
      {"Memory Manager, memory off", kHead, manager, {"warning memory-manager-active"}},
      {"single CPUs and memory",
       kOn + "cpu: {devices: individual}\n",
       gate_off,
       {"error feature-gate-off", "warning individual-mode"},
       "memory devices need consumable capacity"},
  });
  Facts facts;
  facts.drivers.emplace();
  const auto words = [](const Report& r) {
    std::string out;
    for (const NotChecked& n : r.not_checked) out += n.what;
    return out;
  };
  EXPECT_THAT(words(run_rules(given(kOn), facts)), HasSubstr("memory_hugetlb_accounting"));
  EXPECT_THAT(words(run_rules(given(kHead), facts)), IsEmpty());
}

TEST(MemoryRules, HugepagesOfPods) {
  const auto with = [](const std::string& device_class, std::set<std::string> hugepages) {
    return [=](Facts& f) {
      f.claims = {claim_of(request(device_class))};
      f.pods = {pod_with(hugepages)};
    };
  };
  run_cases({
      {"claim and limit", kOn, with("dra.hugepages-2m", {"hugepages-2Mi"}), {}},
      {"claim alone",
       kOn,
       with("dra.hugepages-2m", {}),
       {"error hugepages-without-limit"},
       "{limits: {hugepages-2Mi: "},
      {"limit of another size",
       kOn,
       with("dra.hugepages-1g", {"hugepages-2Mi"}),
       {"error hugepages-without-limit"},
       "has hugepages-1Gi"},
      {"claim alone, mapped", kMapped, with("dra.hugepages-2m", {}), {}},
      {"both, mapped",
       kMapped,
       with("dra.hugepages-2m", {"hugepages-2Mi"}),
       {"warning hugepages-counted-twice"},
       "Pod team/p"},
      {"base memory", kOn, with("dra.memory", {}), {}},
      {"of the allocation",
       kOn,
       [](Facts& f) {
         f.claims = {claim_of(request("mine"), on_device("hugepages-2mi-numa000"))};
         f.pods = {pod_with({})};
       },
       {"error hugepages-without-limit"}},
      {"another's claim",
       kOn,
       [](Facts& f) {
         f.claims = {claim_of(request("dra.hugepages-2m"))};
         f.pods = {{"other", "p", {"a"}, {}}};
       },
       {}},
  });
}

TEST(MemoryObjects, AreRead) {
  const auto pod = read_pod(object_in(
      R"({"metadata":{"namespace":"t","name":"p"},"spec":{"resourceClaims":[{"name":"x","resourceClaimName":"a"},
          {"name":"y","resourceClaimTemplateName":"t"}],"containers":[{"resources":{"limits":{"cpu":"1",
          "hugepages-2Mi":"64Mi"}}},{}]},"status":{"resourceClaimStatuses":[{"name":"y",
          "resourceClaimName":"p-y-1"}]}})"));
  ASSERT_TRUE(pod.ok()) << pod.error().text;
  EXPECT_THAT(pod->claims, ElementsAre("a", "p-y-1"));
  EXPECT_THAT(pod->hugepages, ElementsAre("hugepages-2Mi"));
  for (const char* container :
       {R"({"image":"quay.io/x/dramem:latest","args":["/dramemory","--v=6"]})",
        R"({"image":"r/dra-driver-memory:v1"})", R"({"image":"r/wrapped","command":["/bin/dramemory"]})"}) {
    const auto set = read_driver_set(object_in(
        fmt::format(R"({{"metadata":{{"name":"d"}},"spec":{{"template":{{"spec":{{"containers":[{}]}}}}}}}})",
                    container)));
    ASSERT_TRUE(set.ok() && set->has_value()) << container;
    EXPECT_TRUE((*set)->is_memory_driver);
  }
}

TEST(MemoryReader, AsksForPodsAndMemorySlicesOnlyWhereMemoryIsOn) {
  for (const bool is_on : {false, true}) {
    TestCluster cluster;
    cluster.set("/api/v1/pods", list_of({R"({"metadata":{"name":"idle"}})",
                                         R"({"metadata":{"name":"p"},"spec":{"resourceClaims":[{"name":"x",
                                             "resourceClaimName":"a"}]}})"}));
    cluster.set("/apis/apps/v1/daemonsets",
                list_of({R"({"metadata":{"namespace":"k","name":"dramemory"},"spec":{"template":{"spec":
                             {"containers":[{"image":"q/dramem"}]}}}})"}));
    const Given config = given(is_on ? kOn : kHead);
    const Result<Facts> facts = read_cluster(*cluster.client, config, {});
    ASSERT_TRUE(facts.ok()) << facts.error().text;
    EXPECT_EQ(facts->pods.size(), is_on ? 1U : 0U);
    EXPECT_EQ(facts->memory_drivers.size(), 1U);
    EXPECT_TRUE(facts->drivers && facts->drivers->empty());
    std::size_t asked = 0;
    for (const auto& seen : cluster.server.requests()) {
      if (seen.target.find("spec.driver%3Ddra.memory") != std::string::npos) ++asked;
      if (seen.target.starts_with("/api/v1/pods")) ++asked;
    }
    EXPECT_EQ(asked, is_on ? 2U : 0U);
  }
}

TEST(MemoryRules, CombinedMode) {
  const std::string combined = std::string(kHead) + "memory: {enabled: true, mode: combined}\n";
  const auto slot = [](const std::string& capacity) {
    return claim_of(request("dra.cpu", R"(,"capacity":{"requests":{"dra.cpu/cpu":"2",)" + capacity + "}}"));
  };
  const auto claim = [](ClaimObject object) { return [object](Facts& f) { f.claims = {object}; }; };
  const auto with_pod = [&](std::set<std::string> limits) {
    return [=](Facts& f) {
      f.claims = {slot(R"("dra.memory/hugepages_2Mi":"64Mi")")};
      f.pods = {pod_with(limits)};
    };
  };
  run_cases({
      {"memory with the CPUs", combined, claim(used_by(slot(R"("dra.memory/memory":"1Gi")"), 1)), {}},
      {"the same for two pods",
       combined,
       claim(used_by(slot(R"("dra.memory/memory":"1Gi")"), 2)),
       {"error memory-claim-shared"}},
      {"CPUs alone for two pods", combined, claim(used_by(claim_of(request("dra.cpu")), 2)), {}},
      {"a class that is not there",
       combined,
       claim(claim_of(request("dra.hugepages-2m"))),
       {"error memory-class-not-served"},
       "class \"dra.hugepages-2m\""},
      {"a device from before",
       combined,
       claim(used_by(claim_of(request("dra.hugepages-2m"), on_device("hugepages-2mi-numa000")), 1)),
       {"error memory-class-not-served"},
       "what is prepared stays"},
      {"hugepages without a limit",
       combined,
       with_pod({}),
       {"error hugepages-without-limit"},
       "hugepages-2Mi"},
      {"with a limit", combined, with_pod({"hugepages-2Mi"}), {}},
      {"the driver raises it",
       std::string(kHead) + "memory: {enabled: true, mode: combined, hugetlbEnforcement: pod}\n",
       with_pod({}),
       {}},
  });
}

}  // namespace
}  // namespace dracpu::upgrade
