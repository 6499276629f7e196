// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The runtime that is played, against the driver's own NRI plugin with a handler of the test.

#include "runtime.h"

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <thread>

#include "child.h"
#include "node.h"
#include "nri/plugin.h"

namespace dracpu::sandbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Answers final : nri::Handler {
  std::function<Result<nri::CreateAnswer>(const nri::ContainerInfo&)> create;
  std::function<Result<std::vector<nri::ContainerUpdate>>(const std::vector<nri::ContainerInfo>&)>
      synchronize;
  std::mutex mutex;
  std::vector<std::string> removed;

  void on_configure(const nri::RuntimeInfo&) override {}
  Result<std::vector<nri::ContainerUpdate>> on_synchronize(std::vector<nri::ContainerInfo> containers,
                                                           Deadline) override {
    if (synchronize) return synchronize(containers);
    return std::vector<nri::ContainerUpdate>{};
  }
  void on_synchronized() override {}
  Result<nri::CreateAnswer> on_create(const nri::ContainerInfo& c, Deadline) override {
    if (create) return create(c);
    return nri::CreateAnswer{};
  }
  Result<std::vector<nri::ContainerUpdate>> on_update(const nri::ContainerInfo& c, Deadline) override {
    return std::vector<nri::ContainerUpdate>{{c.id, CpuSet{3}}};
  }
  Result<std::vector<nri::ContainerUpdate>> on_stop(const nri::ContainerInfo&, Deadline) override {
    return std::vector<nri::ContainerUpdate>{};
  }
  void on_remove(const nri::ContainerInfo& c) override {
    const std::lock_guard<std::mutex> lock(mutex);
    removed.push_back(c.id.get());
  }
  void on_not_applied(const std::optional<ContainerId>& /*created*/,
                      const std::vector<ContainerId>& /*updated*/) override {}
  void on_disconnect(const Error&) override {}
};

class RuntimeTest : public ::testing::Test {
 protected:
  void start(RuntimeOptions options = {}) {
    Result<Folder> folder = Folder::make("dracpu-rt-");
    ASSERT_TRUE(folder.ok());
    folder_.emplace(*std::move(folder));
    options.socket = folder_->path() / "nri.sock";
    options.cdi_dir = folder_->path() / "cdi";
    Result<std::unique_ptr<Runtime>> runtime = Runtime::start(std::move(options));
    ASSERT_TRUE(runtime.ok()) << runtime.error().text;
    runtime_ = *std::move(runtime);
  }
  void connect() {
    const std::size_t before = runtime_->counts().synchronizations;
    nri::PluginOptions options;
    options.socket = folder_->path() / "nri.sock";
    plugin_ = nri::Plugin::start(std::move(options), answers_);
    ASSERT_TRUE(eventually(seconds(10), [&] { return runtime_->counts().synchronizations > before; }));
  }
  std::string cpus(const std::string& id) { return runtime_->container(id)->cpus; }

  std::optional<Folder> folder_;
  Answers answers_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<nri::Plugin> plugin_;
};

TEST_F(RuntimeTest, CarriesOutWhatHooksSay) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_NO_FATAL_FAILURE(connect());
  const auto first = runtime_->create({{"u1", "ns", "one"}, "main", {}, {}});
  ASSERT_TRUE(first.ok()) << first.error().text;
  answers_.create = [&](const nri::ContainerInfo&) -> Result<nri::CreateAnswer> {
    return nri::CreateAnswer{CpuSet{1}, {{ContainerId(*first), CpuSet{0, 2}}}};
  };
  const auto second = runtime_->create({{"u2", "ns", "two"}, "main", {}, {}});
  ASSERT_TRUE(second.ok()) << second.error().text;
  EXPECT_EQ(cpus(*second), "1");
  EXPECT_EQ(cpus(*first), "0,2");
  ASSERT_TRUE(runtime_->update(*first, "0-3").ok());
  EXPECT_EQ(cpus(*first), "3");
  ASSERT_TRUE(plugin_->update_containers({{ContainerId(*second), CpuSet{0}}}, seconds(5)).ok());
  EXPECT_EQ(cpus(*second), "0");
  EXPECT_EQ(runtime_->counts().unsolicited, 1U);
}

TEST_F(RuntimeTest, ARefusalFailsTheCreationAndIsUndone) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_NO_FATAL_FAILURE(connect());
  answers_.create = [](const nri::ContainerInfo&) -> Result<nri::CreateAnswer> {
    return make_error(Errc::kConflict, "not today");
  };
  const auto id = runtime_->create({{"u1", "ns", "one"}, "main", {}, {}});
  ASSERT_FALSE(id.ok());
  EXPECT_NE(id.error().text.find("not today"), std::string::npos);
  EXPECT_TRUE(runtime_->containers().empty());
  const std::lock_guard<std::mutex> lock(answers_.mutex);
  EXPECT_EQ(answers_.removed.size(), 1U);
}

TEST_F(RuntimeTest, TwoSettingsOfOneContainerAreAConflict) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_NO_FATAL_FAILURE(connect());
  const auto first = runtime_->create({{"u1", "ns", "one"}, "main", {}, {}});
  ASSERT_TRUE(first.ok());
  Answers other;
  nri::PluginOptions options;
  options.socket = folder_->path() / "nri.sock";
  options.index = "20";
  const auto plugin = nri::Plugin::start(std::move(options), other);
  ASSERT_TRUE(eventually(seconds(10), [&] { return runtime_->counts().plugins == 2; }));
  const auto both = [&](const nri::ContainerInfo&) -> Result<nri::CreateAnswer> {
    return nri::CreateAnswer{CpuSet{1}, {}};
  };
  answers_.create = both;
  other.create = both;
  const auto id = runtime_->create({{"u2", "ns", "two"}, "main", {}, {}});
  ASSERT_FALSE(id.ok());
  EXPECT_NE(id.error().text.find("both tried to set CPUSetCPUs"), std::string::npos) << id.error().text;
}

TEST_F(RuntimeTest, SynchronizeComesInChunksAndIsApplied) {
  ASSERT_NO_FATAL_FAILURE(start({.chunk_objects = 2}));
  std::vector<std::string> ids;
  for (int i = 0; i < 7; ++i)
    ids.push_back(*runtime_->create({{std::to_string(i), "ns", "p"}, "main", {}, {}}));
  std::size_t seen = 0;
  answers_.synchronize = [&](const std::vector<nri::ContainerInfo>& all) {
    std::vector<nri::ContainerUpdate> out;
    for (const nri::ContainerInfo& c : all) out.push_back({c.id, CpuSet{0, 1}});
    seen = all.size();
    return Result<std::vector<nri::ContainerUpdate>>(out);
  };
  ASSERT_NO_FATAL_FAILURE(connect());
  EXPECT_EQ(seen, 7U);
  EXPECT_EQ(runtime_->counts().sync_messages, 7U);
  for (const std::string& id : ids) EXPECT_EQ(cpus(id), "0-1");
}

TEST_F(RuntimeTest, ALateAnswerDropsThePluginAndTheContainerIsMadeWithoutIt) {
  ASSERT_NO_FATAL_FAILURE(start({.request_timeout = milliseconds(200)}));
  ASSERT_NO_FATAL_FAILURE(connect());
  answers_.create = [](const nri::ContainerInfo&) -> Result<nri::CreateAnswer> {
    std::this_thread::sleep_for(milliseconds(600));
    return nri::CreateAnswer{CpuSet{1}, {}};
  };
  const auto id = runtime_->create({{"u1", "ns", "one"}, "main", {}, {}});
  if (id.ok()) {
    EXPECT_EQ(cpus(*id), "");
    EXPECT_GE(runtime_->counts().late_answers, 1U);
  }  // a plugin that watches its own time refuses before that, which is fine
  plugin_.reset();
}

TEST_F(RuntimeTest, CdiVariablesAreInTheContainer) {
  ASSERT_NO_FATAL_FAILURE(start());
  ASSERT_TRUE(write_text(folder_->path() / "cdi/x.json",
                         R"({"cdiVersion":"0.8.0","kind":"a.b/c","devices":[{"name":"d",)"
                         R"("containerEdits":{"env":["K=V"]}}]})")
                  .ok());
  const auto id = runtime_->create({{"u1", "ns", "one"}, "main", {"A=B"}, {"a.b/c=d"}});
  ASSERT_TRUE(id.ok()) << id.error().text;
  EXPECT_EQ(runtime_->container(*id)->env, (std::vector<std::string>{"A=B", "K=V"}));
  EXPECT_FALSE(runtime_->create({{"u1", "ns", "one"}, "main", {}, {"a.b/c=e"}}).ok());
}

}  // namespace
}  // namespace dracpu::sandbox
