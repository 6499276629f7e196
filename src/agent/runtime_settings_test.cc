// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/runtime_settings.h"

#include <gtest/gtest.h>

#include "agent/books.h"
#include "agent/runtime_service.h"
#include "agent/test_node.h"

namespace dracpu::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RuntimeSettings, OnlyWhatDoesHarmIsNamed) {
  EXPECT_FALSE(advice_on_timeout(milliseconds(2000)));
  EXPECT_FALSE(advice_on_timeout(milliseconds(1000)));
  ASSERT_TRUE(advice_on_timeout(milliseconds(999)));
  EXPECT_NE(advice_on_timeout(milliseconds(500))->text.find("500 ms"), std::string::npos);
  EXPECT_NE(advice_on_timeout(milliseconds(500))->text.find("plugin_request_timeout = \"5s\""),
            std::string::npos);

  EXPECT_FALSE(advice_on_margin("CreateContainer", 1.9, milliseconds(2000)));
  EXPECT_FALSE(advice_on_margin("CreateContainer", 0.5, milliseconds(2000)));
  ASSERT_TRUE(advice_on_margin("CreateContainer", 0.49, milliseconds(2000)));
  ASSERT_TRUE(advice_on_margin("CreateContainer", -3, milliseconds(2000)));
  EXPECT_FALSE(advice_on_margin("CreateContainer", 0, milliseconds(0))) << "the limit is not known";

  EXPECT_FALSE(advice_on_unpinned(0));
  EXPECT_NE(advice_on_unpinned(2)->text.find("required_plugins = [\"dra.cpu\"]"), std::string::npos);
}

// From the hooks of a runtime to the advice.
TEST(RuntimeSettings, AreFoundInWhatTheRuntimeSays) {
  TestNode t;
  Books books(t.node, t.machine);
  Worker worker;
  observe::Metrics metrics;
  std::vector<std::string> said;
  RuntimeService::Hooks hooks;
  hooks.synchronized = [] {};
  hooks.disconnected = [](const std::string&) {};
  std::vector<std::string> told;
  hooks.tell_pod = [&](const PodRef& pod, std::string_view reason, const std::string& text) {
    told.push_back(fmt::format("{}/{} {} {}", pod.ns, pod.name, reason, text));
  };
  hooks.advise = [&](const observe::Advice& a) { said.push_back(a.name); };
  RuntimeService service(t.node, books, worker, metrics, std::move(hooks));
  const Deadline soon = Deadline::after(seconds(10));
  const auto box = [](const std::string& id, std::vector<std::string> env, std::string cpus,
                      std::string mems = "") {
    nri::ContainerInfo c;
    c.id = ContainerId(id);
    c.pod_uid = PodUid("pod-" + id);
    c.pod_namespace = "ns";
    c.pod_name = c.name = id;
    c.env = std::move(env);
    c.cpus = std::move(cpus);
    c.memory.mems = std::move(mems);
    return c;
  };
  service.on_configure({"containerd", "v2.1.4", "v0.12.3", milliseconds(300)});
  EXPECT_EQ(said, std::vector<std::string>{"nri-request-timeout"});
  EXPECT_EQ(service.runtime(), "containerd v2.1.4, NRI v0.12.3");
  said.clear();

  ASSERT_TRUE(books.prepare({t.order("a", 2)}).front().ok());  // the worker has nothing to do yet
  ASSERT_TRUE(
      service.on_synchronize({box("s", {}, "0-7"), box("o", {"DRA_CPUSET_a=0-1"}, "0-1")}, soon).ok());
  EXPECT_TRUE(said.empty()) << "all are where they belong, or shared";
  ASSERT_TRUE(service.on_synchronize({box("o", {"DRA_CPUSET_a=0-1"}, "0-7")}, soon).ok());
  EXPECT_EQ(said, std::vector<std::string>{"nri-required-plugins"});
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(
      told[0].find("ns/o ContainerRepinned container \"o\" ran on CPUs 0-7 and is moved to the CPUs of its "
                   "claims, 0-1;"),
      std::string::npos)
      << told[0];
  said.clear();

  ASSERT_TRUE(service.on_create(box("plain", {}, ""), soon).ok());
  EXPECT_TRUE(said.empty());
  ASSERT_TRUE(service.on_create(box("static", {}, "4-5", "0"), soon).ok());
  EXPECT_EQ(said, (std::vector<std::string>{"kubelet-cpu-manager", "kubelet-memory-manager"}));
  worker.stop();  // its work refers to the service
}

}  // namespace
}  // namespace dracpu::agent
