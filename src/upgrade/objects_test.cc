// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "upgrade/objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "upgrade/test_facts.h"

namespace dracpu::upgrade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Objects, FormsOfDevices) {
  const std::pair<const char*, DeviceForm> cases[] = {{"cpudevnuma000", DeviceForm::kNumaNode},
                                                      {"cpudevsocket001", DeviceForm::kSocket},
                                                      {"cpudevmachine", DeviceForm::kMachine},
                                                      {"cpudev003", DeviceForm::kIndividual},
                                                      {"cpudev", DeviceForm::kOther},
                                                      {"cpudevnuma", DeviceForm::kOther},
                                                      {"gpu0", DeviceForm::kOther},
                                                      {"cpudevnumax", DeviceForm::kOther}};
  for (const auto& [name, form] : cases) EXPECT_EQ(form_of(name), form) << name;
}

TEST(Objects, MinorNumbers) {
  EXPECT_EQ(minor_of("v1.34.2-eks-1"), 34);
  EXPECT_EQ(minor_of("1.36"), 36);
  EXPECT_EQ(minor_of("v1.37+"), 37);
  for (const char* text : {"", "v2.3", "v1.", "v1.x", "one"}) EXPECT_EQ(minor_of(text), std::nullopt) << text;
}

TEST(Objects, SlicesShowGatesAndModes) {
  const Result<SliceObject> slice = read_slice(object_in(R"({
    "metadata":{"name":"s","uid":"u","resourceVersion":"7"},
    "spec":{"driver":"dra.cpu","nodeName":"w","devices":[
      {"name":"cpudevnuma000","allowMultipleAllocations":true,"capacity":{"dra.cpu/cpu":{"value":"4"}},
       "attributes":{"resource.kubernetes.io/pcieRoot":{"strings":["pci0000:00"]}}},
      {"name":"cpudev001"}]}})"));
  ASSERT_TRUE(slice.ok()) << slice.error().text;
  EXPECT_TRUE(slice->has_shared && slice->has_individual && slice->has_list_values);
  EXPECT_FALSE(slice->lost_sharing || slice->has_machine);
  EXPECT_EQ(slice->revision.uid + slice->revision.version, "u7");
  const Result<SliceObject> lost = read_slice(object_in(
      R"({"spec":{"devices":[{"name":"cpudevmachine","capacity":{"dra.cpu/cpu":{"value":"4"}}}]}})"));
  EXPECT_TRUE(lost.ok() && lost->lost_sharing && lost->has_machine);
  const Result<SliceObject> odd = read_slice(object_in(R"({"spec":{"devices":[{"name":7}]}})"));
  ASSERT_FALSE(odd.ok());
  EXPECT_THAT(odd.error().text, HasSubstr("spec.devices[0].name"));
}

// A DaemonSet whose only container has these fields.
std::optional<DriverSet> driver_of(const std::string& container, const std::string& labels = "{}",
                                   const std::string& more = "", const std::string& status = "{}") {
  const Result<std::optional<DriverSet>> out =
      read_driver_set(object_in(R"({"metadata":{"namespace":"n","name":"d","generation":3,"labels":)" +
                                labels + R"(},"spec":{"template":{"spec":{"containers":[)" + container + "]" +
                                more + R"(}}},"status":)" + status + "}"));
  EXPECT_TRUE(out.ok()) << out.error().text;
  return out.ok() ? *out : std::nullopt;
}

TEST(Objects, WhichDaemonSetsAreDrivers) {
  struct Case {
    const char* about;
    const char* container;
    const char* labels;
    bool is_driver;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"by image", R"({"image":"registry:5000/dra/dra-driver-cpu:v1@sha256:00"})", "{}", true},
           {"by program", R"({"image":"x","command":["/bin/dracpu","--v=4"]})", "{}", true},
           {"by program in args", R"({"image":"x","args":["/dracpu"]})", "{}", true},
           {"by label", R"({"image":"x"})", R"({"k8s-app":"dracpu"})", true},
           {"by Helm's label", R"({"image":"x"})", R"({"app.kubernetes.io/name":"dra-driver-cpu"})", true},
           {"another", R"({"image":"example.com/gpu:v1","args":["--v=4"]})", R"({"app":"gpu"})", false},
           {"a similar one", R"({"image":"example.com/dracpu-exporter:v1"})", "{}", false},
       }) {
    EXPECT_EQ(driver_of(c.container, c.labels).has_value(), c.is_driver) << c.about;
  }
}

TEST(Objects, WhatADriverIsTold) {
  const std::optional<DriverSet> set = driver_of(
      R"({"image":"dracpu","args":["/dracpu","--v=4","--config=/etc/dracpu/config.yaml"],
          "env":[{"name":"DRACPU_STANDBY_READY","value":"true"}],
          "volumeMounts":[{"name":"control","mountPath":"/run/dracpu/"},{"name":"c","mountPath":"/etc/dracpu"},
                          {"name":"k","mountPath":"/one/file.yaml","subPath":"inside"}]})",
      R"({"app.kubernetes.io/managed-by":"Helm","app.kubernetes.io/instance":"rel"})",
      R"(,"volumes":[{"name":"control","emptyDir":{}},{"name":"c","configMap":{"name":"cm"}},
                     {"name":"k","configMap":{"name":"keys","items":[{"key":"a","path":"inside"}]}}])",
      R"({"observedGeneration":3,"desiredNumberScheduled":4,"updatedNumberScheduled":4})");
  ASSERT_TRUE(set);
  EXPECT_TRUE(set->is_this_driver && set->is_standby_ready);
  EXPECT_FALSE(set->runs_nowhere || set->is_rolling);
  EXPECT_EQ(set->release, "rel");
  EXPECT_THAT(set->words, ElementsAre("--v=4", "--config=/etc/dracpu/config.yaml"));
  const std::optional<ConfigMapKey> whole = config_map_of(*set, "/etc/dracpu/config.yaml");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->name + "/" + whole->key, "cm/config.yaml");
  const std::optional<ConfigMapKey> single = config_map_of(*set, "/one/file.yaml");
  ASSERT_TRUE(single);
  EXPECT_EQ(single->name + "/" + single->key, "keys/a");
  for (const char* path : {"/run/dracpu/x", "/etc/other.yaml", "config.yaml", "/one/other.yaml"})
    EXPECT_FALSE(config_map_of(*set, path)) << path;
}

TEST(Objects, RolloutsThatAreNotDone) {
  const auto with = [](const char* status) { return *driver_of(R"({"image":"dracpu"})", "{}", "", status); };
  EXPECT_TRUE(with(R"({"observedGeneration":2})").is_rolling) << "the controller has not seen it";
  EXPECT_TRUE(
      with(R"({"observedGeneration":3,"desiredNumberScheduled":4,"updatedNumberScheduled":3})").is_rolling);
  EXPECT_TRUE(with(R"({"observedGeneration":3,"desiredNumberScheduled":0})").runs_nowhere);
}

TEST(Objects, Configz) {
  const Result<Kubelet> kubelet = read_configz(object_in(
      R"({"kubeletconfig":{"cpuManagerPolicy":"static","memoryManagerPolicy":"None","featureGates":{"A":true}}})"));
  ASSERT_TRUE(kubelet.ok());
  EXPECT_EQ(kubelet->cpu_manager + kubelet->memory_manager, "staticNone");
  EXPECT_TRUE(kubelet->gates.at("A"));
  EXPECT_FALSE(read_configz(object_in("{}")).ok());
  EXPECT_FALSE(read_configz(object_in(R"({"kubeletconfig":{"featureGates":{"A":"yes"}}})")).ok());
}

}  // namespace
}  // namespace dracpu::upgrade
