// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Rules about the cluster, the drivers in it, their configuration and their names.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "upgrade/test_facts.h"

namespace dracpu::upgrade {
namespace {

using ::testing::Contains;
using ::testing::ElementsAreArray;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kGrouped = "groupBy: numanode\n";
constexpr const char* kIndividual = "cpuDeviceMode: individual\n";

struct Case {
  const char* about;
  const char* config;
  std::function<void(Facts&)> set;
  std::vector<std::string> ids;
  const char* told = "";
};

void run_cases(std::initializer_list<Case> cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.about);
    Facts facts;
    c.set(facts);
    const Given to = *c.config == '\0' ? Given() : given(c.config);
    const Report report = run_rules(to, facts);
    EXPECT_THAT(ids_of(report.findings), ElementsAreArray(c.ids));
    EXPECT_THAT(texts_of(report.findings), HasSubstr(c.told));
  }
}

Kubelet kubelet(int minor, std::map<std::string, bool> gates = {}) {
  Kubelet out;
  out.node = "w";
  out.minor = minor;
  out.gates = std::move(gates);
  return out;
}

TEST(ClusterRules, Versions) {
  const std::vector<std::string> old{"error kubernetes-too-old"};
  run_cases({
      {"old server", kGrouped, [](Facts& f) { f.server_version = "v1.33.9"; }, old, "v1.33.9"},
      {"oldest that works", kGrouped, [](Facts& f) { f.server_version = "v1.34.0-rc.1"; }, {}},
      {"not told", kGrouped, [](Facts&) {}, {}},
      {"odd version", kGrouped, [](Facts& f) { f.server_version = "v2"; }, {}},
      {"old kubelet", kGrouped,
       [](Facts& f) {
         f.nodes = {{"w", 33, true}};
       },
       old, "Node w"},
      {"old kubelet of Windows",
       kGrouped,
       [](Facts& f) {
         f.nodes = {{"w", 33, false}};
       },
       {}},
      {"kubelet of 1.34",
       kGrouped,
       [](Facts& f) {
         f.nodes = {{"w", 34, true}, {"x", {}, true}};
       },
       {}},
      {"only the beta API",
       kGrouped,
       [](Facts& f) {
         f.server_version = "v1.34.1";
         f.api_versions = {"v1beta1", "v1beta2"};
       },
       {"error dra-v1-not-served"},
       "--runtime-config=resource.k8s.io/v1=true"},
      {"no API in an old server",
       kGrouped,
       [](Facts& f) {
         f.server_version = "v1.32.0";
         f.api_versions.emplace();
       },
       {"error dra-v1-not-served", "error kubernetes-too-old"},
       "served: none"},
      {"v1 is served",
       kGrouped,
       [](Facts& f) {
         f.api_versions = {"v1beta1", "v1"};
       },
       {}},
  });
}

TEST(ClusterRules, Gates) {
  const std::vector<std::string> off{"error feature-gate-off"};
  constexpr const char* kMapping = "publishNodeAllocatableResourceMapping: true\n";
  run_cases({
      {"DRA off", kGrouped,
       [](Facts& f) {
         f.kubelets = {kubelet(36, {{"DynamicResourceAllocation", false}})};
       },
       off, "DynamicResourceAllocation: true"},
      {"capacity by default on", kGrouped, [](Facts& f) { f.kubelets = {kubelet(36)}; }, {}},
      {"capacity by default off", kGrouped, [](Facts& f) { f.kubelets = {kubelet(35)}; }, off,
       "DRAConsumableCapacity"},
      {"capacity stated",
       kGrouped,
       [](Facts& f) {
         f.kubelets = {kubelet(35, {{"DRAConsumableCapacity", true}})};
       },
       {}},
      {"capacity stated off", kGrouped,
       [](Facts& f) {
         f.kubelets = {kubelet(37, {{"DRAConsumableCapacity", false}})};
       },
       off},
      {"all alpha",
       kGrouped,
       [](Facts& f) {
         f.kubelets = {kubelet(35, {{"AllAlpha", true}})};
       },
       {}},
      {"single CPUs need none",
       kIndividual,
       [](Facts& f) { f.kubelets = {kubelet(35)}; },
       {"warning individual-mode"}},
      {"mapping without its gate",
       kMapping,
       [](Facts& f) { f.kubelets = {kubelet(36)}; },
       {"warning feature-gate-off"},
       "DRANodeAllocatableResources"},
      {"mapping with its gate",
       kMapping,
       [](Facts& f) {
         f.kubelets = {kubelet(36, {{"DRANodeAllocatableResources", true}})};
       },
       {}},
      {"slice that lost its sharing", kGrouped,
       [](Facts& f) {
         SliceObject slice;
         slice.name = "s";
         slice.lost_sharing = true;
         f.slices = {slice};
       },
       off, "ResourceSlice s"},
  });
}

TEST(ClusterRules, GatesThatNobodyTellsAreNotChecked) {
  Facts facts;
  facts.server_version = "v1.35.0";
  Given to = given(
      "apiVersion: dracpu/v1beta1\nkind: DriverConfiguration\nnode: {reservedCPUs: none}\n"
      "publish: {pcieRoots: true}\n");
  const auto count = [&] { return run_rules(to, facts).not_checked.size(); };
  EXPECT_EQ(count(), 2U) << "sharing, and lists for PCIe roots";
  SliceObject slice;
  slice.has_shared = true;
  slice.has_list_values = true;
  facts.slices = {slice};
  EXPECT_EQ(count(), 0U) << "slices show both";
}

TEST(ClusterRules, Kubelets) {
  const auto with = [](const char* cpu, const char* memory) {
    return [cpu, memory](Facts& f) {
      Kubelet k = kubelet(36);
      k.cpu_manager = cpu;
      k.memory_manager = memory;
      f.kubelets = {k};
    };
  };
  run_cases({
      {"none", kGrouped, with("none", "None"), {}},
      {"not told", kGrouped, with("", ""), {}},
      {"static CPUs",
       kGrouped,
       with("static", "None"),
       {"error cpu-manager-active"},
       "rm /var/lib/kubelet/cpu_manager_state"},
      {"static memory",
       kGrouped,
       with("none", "Static"),
       {"warning memory-manager-active"},
       "memory_manager_state"},
      {"not to be asked",
       kGrouped,
       [](Facts& f) {
         f.refused_kubelets = {{"w", "HTTP 403"}};
       },
       {"info kubelet-not-checked"},
       "kubectl get --raw /api/v1/nodes/w/proxy/configz"},
      {"no node known",
       kGrouped,
       [](Facts& f) {
         f.refused_kubelets = {{"", "no list"}};
       },
       {"info kubelet-not-checked"},
       "--node NAME"},
  });
}

DriverSet driver(const std::string& name, bool is_this = true) {
  DriverSet out;
  out.ns = "kube-system";
  out.name = name;
  out.is_this_driver = is_this;
  return out;
}

TEST(DriverRules, Table) {
  const auto one = [](const std::function<void(DriverSet&)>& edit, bool is_this = true) {
    return [edit, is_this](Facts& f) {
      DriverSet set = driver("d", is_this);
      edit(set);
      f.drivers = {set};
    };
  };
  const auto two = [](const std::function<void(DriverSet&)>& edit) {
    return [edit](Facts& f) {
      DriverSet second = driver("e");
      edit(second);
      f.drivers = {driver("d"), second};
      f.drivers->front().node_selector = {{"pool", "a"}};
      f.drivers->front().release = "first";
    };
  };
  run_cases({
      {"alone", kGrouped, one([](DriverSet&) {}), {}},
      {"old manifest",
       kGrouped,
       one(
           [](DriverSet& s) {
             s.selector = {{"app", "dracpu"}};
           },
           false),
       {"error legacy-manifest"},
       "kubectl -n kube-system delete daemonset d"},
      {"own manifest",
       kGrouped,
       one([](DriverSet& s) {
         s.selector = {{"app", "dracpu"}};
       }),
       {}},
      {"old chart",
       kGrouped,
       one(
           [](DriverSet& s) {
             s.selector = {{"app.kubernetes.io/name", "dracpu"}};
           },
           false),
       {}},
      {"surge of the old driver",
       kGrouped,
       one([](DriverSet& s) { s.max_surge = "25%"; }, false),
       {"error surge-without-standby"},
       "kubectl -n kube-system patch daemonset d"},
      {"surge without standby",
       kGrouped,
       one([](DriverSet& s) { s.max_surge = "1"; }),
       {"error surge-without-standby"},
       "standby.enabled=true"},
      {"surge with standby",
       kGrouped,
       one([](DriverSet& s) {
         s.max_surge = "1";
         s.is_standby_ready = true;
       }),
       {}},
      {"no surge", kGrouped, one([](DriverSet& s) { s.max_surge = "0%"; }, false), {}},
      {"two on all nodes",
       kGrouped,
       two([](DriverSet&) {}),
       {"error second-driver"},
       "helm uninstall first -n kube-system"},
      {"two on different nodes",
       kGrouped,
       two([](DriverSet& s) {
         s.node_selector = {{"pool", "b"}};
       }),
       {}},
      {"two that may meet",
       kGrouped,
       two([](DriverSet& s) {
         s.node_selector = {{"zone", "b"}};
       }),
       {"error second-driver"}},
      {"the second runs nowhere", kGrouped, two([](DriverSet& s) { s.runs_nowhere = true; }), {}},
  });
}

TEST(ConfigRules, Table) {
  const auto found = [](const char* text) {
    return [text](Facts& f) {
      f.drivers.emplace();
      f.configs = {stated(text, "ConfigMap kube-system/c")};
    };
  };
  constexpr const char* kNested =
      "apiVersion: dracpu/v1beta1\nkind: DriverConfiguration\nnode: {reservedCPUs: none}\n";
  const std::string nested_machine = std::string(kNested) + "cpu: {groupBy: machine}\n";
  run_cases({
      {"good", "", found(kGrouped), {}},
      {"nested", "", found(kNested), {}},
      {"machine alone",
       "",
       found("groupBy: machine\n"),
       {"error machine-without-external"},
       "ConfigMap kube-system/c"},
      {"machine with external", "", found("groupBy: machine\nallocator: external\n"), {}},
      {"machine alone, nested",
       "",
       found(nested_machine.c_str()),
       {"error machine-without-external"},
       "cpu: {allocator: external}"},
      {"machine without groups",
       "",
       found("cpuDeviceMode: individual\ngroupBy: machine\n"),
       {"warning individual-mode"}},
      {"unknown key", "", found("groupBye: machine\n"), {"error config-refused"}, "groupBye"},
      {"individual", "", found(kIndividual), {"warning individual-mode"}, "cpuDeviceMode: grouped"},
      {"individual given", kIndividual, [](Facts&) {}, {"warning individual-mode"}, "file c.yaml"},
      {"individual published",
       kGrouped,
       [](Facts& f) {
         SliceObject slice;
         slice.has_individual = true;
         f.slices = {slice};
       },
       {"warning individual-mode"}},
  });
}

TEST(ConfigRules, FlagsCount) {
  StatedConfig by_flags{"DaemonSet a/b", {}, std::nullopt};
  by_flags.flags.group_by = "machine";
  Facts facts;
  facts.configs = {by_flags};
  EXPECT_THAT(ids_of(run_rules({}, facts).findings), ElementsAreArray({"error machine-without-external"}));
  by_flags.file = config::FileText{"c.yaml", "allocator: external\n"};
  facts.configs = {by_flags};
  EXPECT_THAT(run_rules({}, facts).findings, IsEmpty());
}

TEST(IdentityRules, WhatNamesTheOldDriver) {
  constexpr const char* kNew =
      "apiVersion: dracpu/v1beta1\nkind: DriverConfiguration\nnode: {reservedCPUs: none}\n"
      "publish: {driverName: cpu.example.com}\n";
  const auto with_claim = [](const char* devices, const char* allocated = "") {
    return [devices, allocated](Facts& f) { f.claims = {claim_of(devices, allocated)}; };
  };
  const auto with_class = [](ClassObject c) { return [c](Facts& f) { f.classes = {c}; }; };
  const std::vector<std::string> old{"error old-driver-name"};
  run_cases({
      {"nothing", kNew, [](Facts&) {}, {}},
      {"class", kNew, with_claim(R"({"requests":[{"name":"r","exactly":{"deviceClassName":"dra.cpu"}}]})"),
       old, "deviceClassName"},
      {"class of an alternative", kNew,
       with_claim(
           R"({"requests":[{"name":"r","firstAvailable":[{"name":"s","deviceClassName":"dra.cpu"}]}]})"),
       old},
      {"capacity", kNew,
       with_claim(
           R"({"requests":[{"name":"r","exactly":{"deviceClassName":"x","capacity":{"requests":{"dra.cpu/cpu":"1"}}}}]})"),
       old, "capacity.requests"},
      {"selector", kNew,
       with_claim(
           R"({"requests":[{"name":"r","exactly":{"deviceClassName":"x","selectors":[{"cel":{"expression":"device.attributes[\"dra.cpu\"].numCPUs > 2"}}]}}]})"),
       old, "selectors"},
      {"constraint", kNew, with_claim(R"({"constraints":[{"matchAttribute":"dra.cpu/numaNodeID"}]})"), old,
       "constraints"},
      {"configuration", kNew, with_claim(R"({"config":[{"opaque":{"driver":"dra.cpu","parameters":{}}}]})"),
       old, "config"},
      {"allocation", kNew,
       with_claim("{}",
                  R"({"results":[{"request":"r","driver":"dra.cpu","pool":"n","device":"cpudevnuma000"}]})"),
       old, "allocation"},
      {"another driver's claim",
       kNew,
       with_claim(R"({"requests":[{"name":"r","exactly":{"deviceClassName":"gpu.example.com"}}]})"),
       {}},
      {"the class itself", kNew, with_class({"dra.cpu", {}, {}, {}}), old,
       "kubectl delete deviceclass dra.cpu"},
      {"class by selector", kNew, with_class({"fast", {}, {R"(device.driver == "dra.cpu")"}, {}}), old,
       "selectors name"},
      {"class by configuration", kNew, with_class({"fast", {}, {}, {"dra.cpu"}}), old, "configuration names"},
      {"class of the new name",
       kNew,
       with_class({"cpu.example.com", {}, {R"(device.driver == "cpu.example.com")"}, {}}),
       {}},
      {"slice",
       kNew,
       [](Facts& f) {
         SliceObject slice;
         slice.driver = "dra.cpu";
         f.slices = {slice};
       },
       {"warning old-driver-name"},
       "--field-selector spec.driver=dra.cpu"},
      {"the name stays", kGrouped, with_class({"dra.cpu", {}, {}, {}}), {}},
  });
}

TEST(Rules, TargetIsTheOneGivenElseTheOneFoundElseTheDefaults) {
  Facts facts;
  EXPECT_THAT(target_of({}, facts).settings, IsEmpty()) << "DaemonSets were not read";
  facts.drivers.emplace();
  ASSERT_EQ(target_of({}, facts).settings.size(), 1U);
  EXPECT_TRUE(target_of({}, facts).has_grouped());
  facts.configs = {stated(kIndividual)};
  EXPECT_FALSE(target_of({}, facts).has_grouped());
  Given to;
  to.values = values_of("driverConfig: {allocator: external}\n");
  EXPECT_TRUE(target_of(to, facts).has_external());
  to.config = stated("groupBy: machine\n");
  EXPECT_TRUE(target_of(to, facts).has_machine());
  EXPECT_FALSE(target_of(to, facts).has_external());
}

TEST(Rules, TheReportSaysWhatWasLookedAt) {
  Given to = given(kGrouped);
  to.values = values_of("{}");
  Facts facts;
  facts.checked = {{"DeviceClasses", "2"}};
  facts.not_checked = {{"Nodes", "HTTP 403"}};
  const Report report = run_rules(to, facts);
  EXPECT_EQ(report.checked.size(), 3U);
  EXPECT_THAT(report.not_checked, Contains(Field(&NotChecked::what, "Nodes")));
  EXPECT_FALSE(report.has_errors());
}

}  // namespace
}  // namespace dracpu::upgrade
