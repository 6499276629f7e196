// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "upgrade/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "upgrade/test_cluster.h"

namespace dracpu::upgrade {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kClaims = "/apis/resource.k8s.io/v1/resourceclaims";

std::string claim(const std::string& name) {
  return R"({"metadata":{"namespace":"t","name":")" + name + R"(","uid":"u"},"spec":{}})";
}
std::string node(const std::string& name) {
  return R"({"metadata":{"name":")" + name +
         R"("},"status":{"nodeInfo":{"kubeletVersion":"v1.36.1","operatingSystem":"linux"}}})";
}
std::string configz(const std::string& name) { return "/api/v1/nodes/" + name + "/proxy/configz"; }
constexpr const char* kConfigz = R"({"kubeletconfig":{"cpuManagerPolicy":"static"}})";

class ReaderTest : public ::testing::Test {
 protected:
  Facts read() {
    Result<Facts> out = read_cluster(*cluster_.client, given_, options_);
    EXPECT_TRUE(out.ok()) << out.error().text;
    return out.ok() ? *std::move(out) : Facts();
  }
  // Why `what` was not checked; empty if it was.
  static std::string reason(const Facts& facts, const std::string& what) {
    for (const NotChecked& n : facts.not_checked) {
      if (n.what == what) return n.why;
    }
    return {};
  }
  static std::string detail(const Facts& facts, const std::string& what) {
    for (const Checked& c : facts.checked) {
      if (c.what == what) return c.detail;
    }
    return "not in the list";
  }

  TestCluster cluster_;
  Given given_;
  ReadOptions options_ = test_options();
};

TEST_F(ReaderTest, ReadsWhatTheRulesNeed) {
  cluster_.set(kClaims, list_of({claim("a"), claim("b")}));
  cluster_.set("/apis/resource.k8s.io/v1/deviceclasses", list_of({R"({"metadata":{"name":"dra.cpu"}})"}));
  cluster_.set("/apis/resource.k8s.io/v1/resourceclaimtemplates",
               list_of({R"({"metadata":{"namespace":"t","name":"x","uid":"u"},"spec":{"spec":{}}})"}));
  cluster_.set("/apis/resource.k8s.io/v1/resourceslices",
               list_of({R"({"metadata":{"name":"s"},"spec":{"driver":"dra.cpu","nodeName":"w"}})"}));
  cluster_.set("/api/v1/nodes", list_of({node("w")}));
  cluster_.set(configz("w"), kConfigz);
  const Facts facts = read();
  EXPECT_EQ(facts.server_version, "v1.36.1");
  EXPECT_THAT(*facts.api_versions, ElementsAre("v1"));
  EXPECT_EQ(facts.claims.size(), 3U);
  EXPECT_TRUE(facts.claims[2].is_template);
  EXPECT_EQ(facts.classes.size(), 1U);
  EXPECT_EQ(facts.slices.size(), 1U);
  ASSERT_EQ(facts.kubelets.size(), 1U);
  EXPECT_EQ(facts.kubelets[0].cpu_manager, "static");
  EXPECT_EQ(facts.kubelets[0].minor, 36);
  EXPECT_THAT(facts.not_checked, IsEmpty());
  EXPECT_EQ(detail(facts, "ResourceClaims"), "2");
  EXPECT_EQ(detail(facts, "DeviceClasses"), "1");
  EXPECT_EQ(cluster_.server.writes(), 0U) << "it only reads";
}

TEST_F(ReaderTest, SlicesOfEveryNameThatMatters) {
  given_.config =
      StatedConfig{"file c.yaml",
                   {},
                   config::FileText{"c", "apiVersion: dracpu/v1beta1\npublish: {driverName: cpu.one}\n"}};
  options_.names = {"cpu.two", "dra.cpu"};
  read();
  for (const char* name : {"dra.cpu", "cpu.one", "cpu.two"})
    EXPECT_EQ(cluster_.server.count("GET", std::string("fieldSelector=spec.driver%3D") + name), 1U) << name;
}

TEST_F(ReaderTest, PageByPage) {
  options_.page = 2;
  const std::string first = std::string(kClaims) + "?limit=2";
  cluster_.set(first, list_of({claim("a"), claim("b")}, "t 1"));
  cluster_.set(first + "&continue=t%201", list_of({claim("c")}));
  EXPECT_EQ(read().claims.size(), 3U);
}

TEST_F(ReaderTest, AnExpiredTokenBeginsTheListAgainOnce) {
  options_.page = 2;
  const std::string first = std::string(kClaims) + "?limit=2";
  const std::string second = first + "&continue=t";
  cluster_.set(first, list_of({claim("a"), R"({"metadata":{"name":7}})"}, "t"));
  cluster_.set(second, list_of({claim("c")}));
  cluster_.set_once(second, refusal(410, "Expired"), 410);
  Facts facts = read();
  EXPECT_EQ(facts.claims.size(), 2U) << "nothing twice";
  EXPECT_EQ(facts.not_checked.size(), 1U);
  cluster_.set(second, refusal(410, "Expired", "too old"), 410);
  facts = read();
  EXPECT_THAT(facts.claims, IsEmpty());
  EXPECT_THAT(reason(facts, "ResourceClaims"), HasSubstr("HTTP 410"));
}

TEST_F(ReaderTest, WhatMayNotBeReadIsToldAndReadingGoesOn) {
  const std::pair<const char*, const char*> lists[] = {
      {"/apis/apps/v1/daemonsets", "DaemonSets"},
      {"/apis/resource.k8s.io/v1/deviceclasses", "DeviceClasses"},
      {"/apis/resource.k8s.io/v1/resourceclaims", "ResourceClaims"},
      {"/apis/resource.k8s.io/v1/resourceclaimtemplates", "ResourceClaimTemplates"},
      {"/apis/resource.k8s.io/v1/resourceslices", "dra.cpu ResourceSlices"},
      {"/api/v1/nodes", "Nodes"},
      {"/apis/resource.k8s.io", "versions of resource.k8s.io"},
      {"/version", "Kubernetes version"},
  };
  for (const auto& [path, what] : lists) {
    TestCluster cluster;
    cluster.set(path, refusal(403, "Forbidden", "list it: no right"), 403);
    const Result<Facts> facts = read_cluster(*cluster.client, given_, options_);
    ASSERT_TRUE(facts.ok()) << facts.error().text;
    EXPECT_THAT(reason(*facts, what), HasSubstr("HTTP 403 Forbidden: list it: no right"));
    EXPECT_EQ(facts->not_checked.size(), 1U) << what;
  }
  cluster_.set("/apis/apps/v1/daemonsets", refusal(403, "Forbidden"), 403);
  EXPECT_FALSE(read().drivers) << "not the same as none";
}

TEST_F(ReaderTest, OddObjectsAreLeftOut) {
  cluster_.set(kClaims,
               list_of({R"({"metadata":{"namespace":"t","name":"odd","uid":"u"},"spec":{"devices":[]}})",
                        claim("b")}));
  const Facts facts = read();
  ASSERT_EQ(facts.claims.size(), 1U);
  EXPECT_THAT(reason(facts, "ResourceClaim t/odd"), HasSubstr("spec.devices"));
}

TEST_F(ReaderTest, WithoutTheApiThereIsNothingToList) {
  cluster_.set("/apis/resource.k8s.io", R"({"versions":[{"version":"v1beta1"}]})");
  const Facts facts = read();
  EXPECT_THAT(*facts.api_versions, ElementsAre("v1beta1"));
  EXPECT_EQ(cluster_.server.count("GET", "resourceclaims"), 0U);
  cluster_.set("/apis/resource.k8s.io", refusal(404, "NotFound"), 404);
  EXPECT_THAT(*read().api_versions, IsEmpty());
}

TEST_F(ReaderTest, OneKubeletThatRefusesSpeaksForAll) {
  cluster_.set("/api/v1/nodes", list_of({node("a"), node("b"), node("c")}));
  for (const char* name : {"a", "b", "c"}) cluster_.set(configz(name), refusal(403, "Forbidden"), 403);
  const Facts facts = read();
  EXPECT_EQ(cluster_.server.count("GET", "configz"), 1U);
  ASSERT_EQ(facts.refused_kubelets.size(), 3U);
  EXPECT_THAT(facts.refused_kubelets[2].why, HasSubstr("403"));
}

TEST_F(ReaderTest, AKubeletThatDoesNotAnswerIsAloneInThat) {
  cluster_.set("/api/v1/nodes", list_of({node("a"), node("b"), node("c")}));
  cluster_.set(configz("a"), refusal(503, "ServiceUnavailable", "dial tcp"), 503);
  cluster_.set(configz("b"), kConfigz);
  cluster_.set(configz("c"), "no JSON");
  const Facts facts = read();
  ASSERT_EQ(facts.kubelets.size(), 1U);
  EXPECT_EQ(facts.kubelets[0].node, "b");
  EXPECT_EQ(facts.refused_kubelets.size(), 2U);
  EXPECT_EQ(detail(facts, "kubelet configurations"), "1");
}

TEST_F(ReaderTest, OneNodeAlone) {
  options_.node = "w";
  const Result<Facts> none = read_cluster(*cluster_.client, given_, options_);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Errc::kInvalidInput);
  EXPECT_THAT(none.error().text, HasSubstr("kubectl get nodes"));
  cluster_.set("/api/v1/nodes/w", node("w"));
  cluster_.set(configz("w"), kConfigz);
  const Facts facts = read();
  EXPECT_EQ(facts.kubelets.size(), 1U);
  EXPECT_EQ(cluster_.server.count("GET", "spec.nodeName%3Dw"), 1U);
  cluster_.set("/api/v1/nodes/w", refusal(403, "Forbidden"), 403);
  EXPECT_EQ(read().kubelets.size(), 1U) << "its kubelet can be asked all the same";
}

TEST_F(ReaderTest, KubeletsCanBeLeftOut) {
  options_.kubelets = false;
  cluster_.set("/api/v1/nodes", list_of({node("a")}));
  EXPECT_THAT(read().nodes, IsEmpty());
  EXPECT_EQ(cluster_.server.count("GET", "/api/v1/nodes"), 0U);
}

TEST_F(ReaderTest, NobodyToAsk) {
  cluster_.set("/version", refusal(401, "Unauthorized", "who are you"), 401);
  Result<Facts> facts = read_cluster(*cluster_.client, given_, options_);
  ASSERT_FALSE(facts.ok());
  EXPECT_EQ(facts.error().code, Errc::kInvalidInput);
  EXPECT_THAT(facts.error().text, HasSubstr("kubectl auth whoami"));
  cluster_.set("/version", "<html>");
  facts = read_cluster(*cluster_.client, given_, options_);
  ASSERT_FALSE(facts.ok());
  EXPECT_THAT(facts.error().text, HasSubstr("is no API server"));
  cluster_.server.stop();
  facts = read_cluster(*cluster_.client, given_, options_);
  ASSERT_FALSE(facts.ok());
  EXPECT_EQ(facts.error().code, Errc::kUnavailable);
}

// DaemonSets as the charts and manifests make them.
constexpr const char* kGoChart = R"({
  "metadata":{"namespace":"kube-system","name":"dra-driver-cpu",
    "labels":{"app.kubernetes.io/name":"dra-driver-cpu","app.kubernetes.io/managed-by":"Helm","app.kubernetes.io/instance":"cpu"}},
  "spec":{"selector":{"matchLabels":{"app.kubernetes.io/name":"dra-driver-cpu"}},
    "updateStrategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}},
    "template":{"spec":{"containers":[{"name":"d","image":"registry.k8s.io/dra/dra-driver-cpu:v0.2.0",
      "args":["/dracpu","--v=4","--group-by=socket"]}]}}}})";
constexpr const char* kOldManifest = R"({
  "metadata":{"namespace":"kube-system","name":"dracpu","labels":{"app":"dracpu"}},
  "spec":{"selector":{"matchLabels":{"app":"dracpu"}},
    "template":{"spec":{"containers":[{"name":"d","image":"example.com/dracpu:v0.1.0","command":["/dracpu"],
      "args":["--odd"]}]}}}})";
constexpr const char* kOurs = R"({
  "metadata":{"namespace":"cpu","name":"d"},
  "spec":{"template":{"spec":{"containers":[{"name":"d","image":"localhost/dracpu",
      "args":["/dracpu","--config=/etc/dracpu/config.yaml"],
      "volumeMounts":[{"name":"control","mountPath":"/run/dracpu"},{"name":"c","mountPath":"/etc/dracpu"}]}],
    "volumes":[{"name":"control"},{"name":"c","configMap":{"name":"d-config"}}]}}}})";
constexpr const char* kOther = R"({
  "metadata":{"namespace":"x","name":"gpu"},"spec":{"template":{"spec":{"containers":[{"image":"gpu"}]}}}})";

TEST_F(ReaderTest, DriversAndTheirConfigurations) {
  cluster_.set("/apis/apps/v1/daemonsets", list_of({kGoChart, kOther, kOldManifest, kOurs}));
  cluster_.set(
      "/api/v1/namespaces/cpu/configmaps/d-config",
      R"({"data":{"config.yaml":"apiVersion: dracpu/v1beta1\npublish: {driverName: cpu.example.com}\n"}})");
  const Facts facts = read();
  ASSERT_TRUE(facts.drivers);
  ASSERT_EQ(facts.drivers->size(), 3U);
  EXPECT_EQ(detail(facts, "DaemonSets"), "4, 3 of the driver");
  EXPECT_EQ(facts.drivers->at(0).release, "cpu");
  EXPECT_EQ(facts.drivers->at(0).driver_name, "dra.cpu");
  EXPECT_EQ(facts.drivers->at(1).selector.at("app"), "dracpu");
  EXPECT_EQ(facts.drivers->at(1).driver_name, "dra.cpu") << "a forerunner has no other name";
  EXPECT_THAT(reason(facts, "configuration of DaemonSet kube-system/dracpu"), HasSubstr("--odd"));
  EXPECT_EQ(facts.drivers->at(2).driver_name, "cpu.example.com");
  ASSERT_EQ(facts.configs.size(), 2U);
  EXPECT_EQ(facts.configs[0].flags.group_by, "socket");
  EXPECT_EQ(facts.configs[1].object, "ConfigMap cpu/d-config");
  EXPECT_EQ(cluster_.server.count("GET", "spec.driver%3Dcpu.example.com"), 1U);
}

TEST_F(ReaderTest, AConfigMapThatCannotBeReadIsTold) {
  cluster_.set("/apis/apps/v1/daemonsets", list_of({kOurs}));
  const std::string what = "configuration of DaemonSet cpu/d";
  const std::string map = "/api/v1/namespaces/cpu/configmaps/d-config";
  EXPECT_THAT(reason(read(), what), HasSubstr("ConfigMap cpu/d-config: HTTP 404"));
  cluster_.set(map, refusal(403, "Forbidden"), 403);
  EXPECT_THAT(reason(read(), what), HasSubstr("HTTP 403"));
  cluster_.set(map, R"({"data":{"other":""}})");
  const Facts facts = read();
  EXPECT_THAT(reason(facts, what), HasSubstr("no key \"config.yaml\""));
  EXPECT_EQ(facts.drivers->at(0).driver_name, "") << "this driver may have any name";
}

}  // namespace
}  // namespace dracpu::upgrade
