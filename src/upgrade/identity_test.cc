// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "upgrade/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "upgrade/test_cluster.h"

namespace dracpu::upgrade {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kSlices = "/apis/resource.k8s.io/v1/resourceslices";
constexpr const char* kClasses = "/apis/resource.k8s.io/v1/deviceclasses";
constexpr const char* kClaims = "/apis/resource.k8s.io/v1/resourceclaims";
constexpr const char* kTemplates = "/apis/resource.k8s.io/v1/resourceclaimtemplates";
constexpr const char* kSets = "/apis/apps/v1/daemonsets";
constexpr const char* kConfigMap = "/api/v1/namespaces/cpu/configmaps/d-config";

// A DaemonSet of this driver, whose configuration is the ConfigMap above.
std::string daemon_set(const std::string& status = "{}",
                       const std::string& config = "/etc/dracpu/config.yaml") {
  return R"({"metadata":{"namespace":"cpu","name":"d","generation":2,
     "labels":{"app.kubernetes.io/managed-by":"Helm","app.kubernetes.io/instance":"rel"}},"status":)" +
         status + R"(,
    "spec":{"template":{"spec":{"containers":[{"name":"d","image":"localhost/dracpu","args":["/dracpu","--config=)" +
         config + R"("],
      "volumeMounts":[{"name":"control","mountPath":"/run/dracpu"},{"name":"c","mountPath":"/etc/dracpu"}]}],
    "volumes":[{"name":"control"},{"name":"c","configMap":{"name":"d-config"}}]}}}})";
}
constexpr const char* kRolledOut =
    R"({"observedGeneration":2,"desiredNumberScheduled":3,"updatedNumberScheduled":3})";
std::string config_map(const std::string& name) {
  return R"({"data":{"config.yaml":"apiVersion: dracpu/v1beta1\npublish: {driverName: )" + name + R"(}\n"}})";
}
std::string claim_that_holds(const std::string& driver) {
  return R"({"metadata":{"namespace":"t","name":"a","uid":"u"},"spec":{},"status":{"allocation":{"devices":{"results":[
    {"request":"r","driver":")" +
         driver + R"(","pool":"w","device":"cpudevnuma000"}]}}}})";
}
std::string class_named(const std::string& name) {
  return R"({"metadata":{"name":")" + name + R"(","uid":"cu","resourceVersion":"9"}})";
}

class IdentityTest : public ::testing::Test {
 protected:
  IdentityTest() {
    cluster_.set(kSets, list_of({daemon_set(kRolledOut)}));
    cluster_.set(kConfigMap, config_map("cpu.example.com"));
    // The new driver's slices are listed apart.
    cluster_.set(std::string(kSlices) + "?fieldSelector=spec.driver%3Ddra.cpu&limit=50",
                 list_of({R"({"metadata":{"name":"s1","uid":"u1","resourceVersion":"7"},
                              "spec":{"driver":"dra.cpu","nodeName":"w"}})"}));
    cluster_.set(kClasses, list_of({class_named("dra.cpu"), class_named("cpu.example.com")}));
    for (const char* path : {"/apis/rbac.authorization.k8s.io/v1/clusterroles",
                             "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                             "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
                             "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"})
      cluster_.set(path, list_of({}));
  }

  IdentityPlan plan(bool is_asked = true) {
    const Result<IdentityFacts> read = read_identity(*cluster_.client, move_, test_options());
    EXPECT_TRUE(read.ok()) << read.error().text;
    if (!read.ok()) return {};
    IdentityPlan out = plan_identity(*read, move_);
    out.is_asked = is_asked;
    return out;
  }
  static std::vector<std::string> objects(const IdentityPlan& plan) {
    std::vector<std::string> out;
    for (const Leftover& l : plan.leftovers) out.push_back(l.object);
    return out;
  }

  TestCluster cluster_;
  Move move_{"dra.cpu", "cpu.example.com"};
};

TEST_F(IdentityTest, ADryRunChangesNothing) {
  const IdentityPlan got = plan();
  EXPECT_FALSE(got.is_refused()) << to_text(got);
  EXPECT_THAT(objects(got), ElementsAre("ResourceSlice s1", "DeviceClass dra.cpu"));
  EXPECT_THAT(got.not_checked, IsEmpty());
  EXPECT_EQ(cluster_.server.writes(), 0U);
  EXPECT_THAT(to_text(got), HasSubstr("This is the plan; nothing was changed."));
  EXPECT_THAT(to_text(got),
              HasSubstr("\nTo be removed with --apply:\n  ResourceSlice s1\n  DeviceClass dra.cpu\n"));
  EXPECT_THAT(to_text(got), HasSubstr("dracpu cleanup --driver dra.cpu --apply"));
}

TEST_F(IdentityTest, RemovesExactlyWhatItSaw) {
  cluster_.on_delete(std::string(kSlices) + "/s1", 200);
  cluster_.on_delete(std::string(kClasses) + "/dra.cpu", 200);
  IdentityPlan got = plan();
  carry_out(*cluster_.client, got, std::chrono::seconds(5));
  EXPECT_FALSE(got.has_failed());
  EXPECT_THAT(to_text(got),
              HasSubstr("Done.\n\nRemoved:\n  ResourceSlice s1: removed\n  DeviceClass dra.cpu: removed\n"));
  const std::vector<kube::FakeApiServer::Seen> deleted = cluster_.deleted();
  ASSERT_EQ(deleted.size(), 2U);
  EXPECT_EQ(deleted[0].target, std::string(kSlices) + "/s1");
  EXPECT_EQ(json::serialize(json::parse(deleted[0].body).at("preconditions")),
            R"({"uid":"u1","resourceVersion":"7"})");
  EXPECT_EQ(json::serialize(json::parse(deleted[1].body).at("preconditions")),
            R"({"uid":"cu","resourceVersion":"9"})");
}

TEST_F(IdentityTest, WhatADeleteIsAnswered) {
  struct Case {
    int status;
    std::string body;
    Leftover::Outcome outcome;
    const char* told;
  };
  for (const Case& c : std::initializer_list<Case>{
           {404, refusal(404, "NotFound"), Leftover::Outcome::kGone, "gone already"},
           {403, refusal(403, "Forbidden"), Leftover::Outcome::kFailed,
            "you need the right: delete on resourceslices (resource.k8s.io)"},
           {409, refusal(409, "Conflict"), Leftover::Outcome::kFailed, "it changed meanwhile"},
           {500, "", Leftover::Outcome::kFailed, "HTTP 500"},
       }) {
    cluster_.on_delete(std::string(kSlices) + "/s1", c.status, c.body);
    IdentityPlan got = plan();
    carry_out(*cluster_.client, got, std::chrono::seconds(5));
    EXPECT_EQ(got.leftovers[0].outcome, c.outcome) << c.status;
    EXPECT_EQ(got.has_failed(), c.outcome == Leftover::Outcome::kFailed);
    EXPECT_THAT(to_text(got), HasSubstr(c.told));
  }
}

TEST_F(IdentityTest, ClaimsThatHoldDevicesRefuseIt) {
  cluster_.set(kClaims, list_of({claim_that_holds("dra.cpu"), claim_that_holds("gpu.example.com")}));
  IdentityPlan got = plan();
  ASSERT_EQ(got.refusals.size(), 1U);
  EXPECT_TRUE(got.is_refused());
  EXPECT_THAT(got.refusals[0], HasSubstr("ResourceClaim t/a holds w/cpudevnuma000"));
  EXPECT_THAT(to_text(got), HasSubstr("Refused; nothing was changed."));
  cluster_.set(kClaims, refusal(403, "Forbidden"), 403);
  got = plan();
  EXPECT_EQ(got.refusals.size(), 1U) << "not to know is not none";
  EXPECT_THAT(got.kept, ElementsAre(HasSubstr("not every claim")));
}

TEST_F(IdentityTest, WhatCannotBeListedIsNotTakenForRemoved) {
  cluster_.set(std::string(kSlices) + "?fieldSelector=spec.driver%3Ddra.cpu&limit=50",
               refusal(403, "Forbidden"), 403);
  cluster_.set(kClasses, refusal(403, "Forbidden"), 403);
  const IdentityPlan got = plan();
  EXPECT_THAT(got.refusals, ElementsAre(HasSubstr("not every ResourceSlice of \"dra.cpu\"")));
  EXPECT_THAT(got.kept, ElementsAre(HasSubstr("DeviceClass dra.cpu")));
}

TEST_F(IdentityTest, DriversThatMayBeOldRefuseTheRemoval) {
  struct Case {
    const char* about;
    std::string set;
    std::string name;
    const char* told;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"old name", daemon_set(kRolledOut), "dra.cpu",
            "helm upgrade rel CHART -n cpu -f VALUES --set driverConfig.publish.driverName=cpu.example.com"},
           {"not rolled out",
            daemon_set(R"({"observedGeneration":2,"desiredNumberScheduled":3,"updatedNumberScheduled":1})"),
            "cpu.example.com", "rollout status daemonset/d"},
           {"not seen yet", daemon_set(R"({"observedGeneration":1,"desiredNumberScheduled":3})"),
            "cpu.example.com", "is not rolled out"},
           {"configuration not known", daemon_set(kRolledOut, "/elsewhere/c.yaml"), "cpu.example.com",
            "could not be read"},
       }) {
    SCOPED_TRACE(c.about);
    cluster_.set(kSets, list_of({c.set}));
    cluster_.set(kConfigMap, config_map(c.name));
    const IdentityPlan got = plan();
    EXPECT_TRUE(got.is_refused());
    EXPECT_FALSE(plan(false).is_refused()) << "the plan can be shown";
    ASSERT_EQ(got.still_old.size(), 1U);
    EXPECT_THAT(got.still_old[0], HasSubstr(c.told));
    EXPECT_THAT(to_text(got), HasSubstr("First, before anything is removed:\n"));
  }
  cluster_.set(kSets, refusal(403, "Forbidden"), 403);
  EXPECT_TRUE(plan().is_refused());
  cluster_.set(kSets, list_of({daemon_set(R"({"observedGeneration":2,"desiredNumberScheduled":0})")}));
  cluster_.set(kConfigMap, config_map("dra.cpu"));
  EXPECT_FALSE(plan().is_refused()) << "it runs nowhere";
}

TEST_F(IdentityTest, AForerunnerHasToBeReplacedFirst) {
  cluster_.set(
      kSets, list_of({R"({"metadata":{"namespace":"k","name":"go"},"spec":{"template":{"spec":{"containers":[
      {"image":"registry.k8s.io/dra/dra-driver-cpu:v0.2.0","args":["/dracpu","--unknown"]}]}}}})"}));
  const IdentityPlan got = plan();
  ASSERT_EQ(got.still_old.size(), 1U);
  EXPECT_THAT(got.still_old[0], HasSubstr("upgrade it to this driver first"));
}

TEST_F(IdentityTest, AClassThatIsUsedStays) {
  cluster_.set(
      kTemplates,
      list_of({R"({"metadata":{"namespace":"t","name":"x","uid":"u"},"spec":{"spec":{"devices":{"requests":[
      {"name":"r","firstAvailable":[{"name":"s","deviceClassName":"dra.cpu"}]}]}}}})"}));
  const IdentityPlan got = plan();
  EXPECT_FALSE(got.is_refused());
  EXPECT_THAT(objects(got), ElementsAre("ResourceSlice s1"));
  EXPECT_THAT(got.kept, ElementsAre("DeviceClass dra.cpu: named by ResourceClaimTemplate t/x"));
  EXPECT_THAT(got.by_hand,
              ElementsAre(HasSubstr("ResourceClaimTemplate t/x"), HasSubstr("DeviceClass dra.cpu")));
}

TEST_F(IdentityTest, RightsThatNameTheOldDriver) {
  cluster_.set(
      "/apis/rbac.authorization.k8s.io/v1/clusterroles",
      list_of({R"({"metadata":{"name":"cpu-users"},"rules":[{"resourceNames":["dra.cpu"]}]})",
               R"({"metadata":{"name":"others"},"rules":[{"resourceNames":["dra.cpu.example.com"]}]})"}));
  cluster_.set(
      "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
      list_of({R"({"metadata":{"name":"guard"},"spec":{"validations":[{"expression":"x == 'dra.cpu'"}]}})"}));
  cluster_.set("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", refusal(403, "Forbidden"), 403);
  const IdentityPlan got = plan();
  EXPECT_THAT(got.by_hand,
              ElementsAre(HasSubstr("ClusterRole cpu-users"), HasSubstr("ValidatingAdmissionPolicy guard")));
  ASSERT_EQ(got.not_checked.size(), 1U);
  EXPECT_EQ(got.not_checked[0].what, "ClusterRoleBinding objects");
  EXPECT_FALSE(got.is_refused()) << "that is for a person";
}

TEST_F(IdentityTest, Names) {
  EXPECT_TRUE(check_move(move_).ok());
  for (const Move& m : {Move{"dra.cpu", "dra.cpu"}, Move{"dra.cpu", ""}, Move{"dra.cpu", "../x"},
                        Move{"A", "b"}, Move{"dra.cpu", "a\nb"}, Move{"dra.cpu", std::string(64, 'a')}}) {
    const Status s = check_move(m);
    ASSERT_FALSE(s.ok()) << m.to;
    EXPECT_EQ(s.error().code, Errc::kInvalidInput);
  }
}

TEST_F(IdentityTest, Json) {
  cluster_.on_delete(std::string(kSlices) + "/s1", 403, refusal(403, "Forbidden", "a\\nb"));
  IdentityPlan got = plan();
  carry_out(*cluster_.client, got, std::chrono::seconds(5));
  const json::value root = json::parse(to_json(got));
  EXPECT_EQ(root.at("to").as_string(), "cpu.example.com");
  EXPECT_TRUE(root.at("applied").as_bool());
  EXPECT_EQ(root.at("remove").at(0).at("outcome").as_string(), "failed");
  EXPECT_EQ(root.at("remove").at(1).at("outcome").as_string(), "gone");
  EXPECT_THAT(to_text(got), Not(HasSubstr("a\nb")));
}

}  // namespace
}  // namespace dracpu::upgrade
