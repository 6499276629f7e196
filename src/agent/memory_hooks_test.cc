// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Hooks of the runtime with CPUs and memory in one answer.

#include "agent/memory_hooks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "agent/runtime_service.h"
#include "agent/test_node.h"
#include "memory/environment.h"

namespace dracpu::agent {
namespace {

using memory::Bytes;
using memory::Kind;

constexpr Bytes kPage{std::uint64_t{2} << 20U};
constexpr Bytes k64Mi{std::uint64_t{64} << 20U};

class MemoryHooks : public ::testing::Test, protected TestNode {
 protected:
  MemoryHooks() : books_(with_memory(), machine) {
    EXPECT_TRUE(books_.load().ok());
    metrics_.memory = std::make_unique<observe::MemoryMetrics>();
    runtime_ = std::make_unique<RuntimeService>(
        node, books_, worker_, metrics_, RuntimeService::Hooks{[] {}, [](const std::string&) {}, {}, {}, {}});
    EXPECT_TRUE(books_.prepare({order("a", 2)})[0].ok());
    const MemoryOrder memory{
        ClaimUid("a"),
        {.ns = "ns",
         .name = "c-a",
         .reserved_for = {{"pods", PodUid("p1")}},
         .results = {
             {"r", "node1", "hugepages-2mi-numa001", std::nullopt, false, {{"size", Quantity(k64())}}}}}};
    const auto got = books_.prepare_memory({memory}, nullptr);
    EXPECT_TRUE(got[0].ok()) << (got[0].ok() ? "" : got[0].error().text);
  }
  ~MemoryHooks() override { worker_.stop(); }

  const Node& with_memory() {
    node.config.memory.enabled = true;
    auto view = std::make_shared<MemoryView>();
    view->published.offers = {
        {"hugepages-2mi-numa001", "size", Kind::hugepages(kPage), NumaNodeId(1), kPage, k64Mi}};
    view->inventory.nodes_with_memory = {NumaNodeId(0), NumaNodeId(1)};
    machine.memory = std::move(view);
    return node;
  }
  static std::int64_t k64() { return static_cast<std::int64_t>(k64Mi.count); }
  static nri::ContainerInfo container(const std::string& id, const std::string& name = "main") {
    nri::ContainerInfo out;
    out.id = ContainerId(id);
    out.pod_uid = PodUid("p1");
    out.pod_namespace = "ns";
    out.pod_name = "pod";
    out.name = name;
    out.env = {"DRA_CPUSET_a=0-1"};
    out.memory_env = {"DRAMEMORY_a_NUMANodes=1", "DRAMEMORY_a_hugepages_2Mi=numanode:1,size:64Mi"};
    return out;
  }
  static Deadline soon() { return Deadline::after(std::chrono::seconds(2)); }

  Worker worker_;
  observe::Metrics metrics_;
  Books books_;
  std::unique_ptr<RuntimeService> runtime_;
};

TEST_F(MemoryHooks, OneAnswerHasCpusNodesAndLimits) {
  nri::ContainerInfo asked = container("c1");
  asked.memory.hugepage_limits = {{"2MB", 128U << 20U}, {"1GB", 0}};
  const Result<nri::CreateAnswer> got = runtime_->on_create(asked, soon());
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->cpus.to_string(), "0-1");
  EXPECT_EQ(got->memory, (nri::MemorySettings{.mems = "1", .hugepage_limits = {{"2MB", 128U << 20U}}}))
      << "what the kubelet allows is never lowered";
}

TEST_F(MemoryHooks, ARefusalOfOneHalfBindsNeither) {
  nri::ContainerInfo bad = container("c1");
  bad.memory_env[1] = "DRAMEMORY_a_hugepages_2Mi=numanode:1,size:96Mi";
  EXPECT_FALSE(runtime_->on_create(bad, soon()).ok());
  EXPECT_EQ(metrics_.memory->container_rejections_total.value(observe::Rejection::kMismatch), 1U);
  bad = container("c1");
  bad.env = {"DRA_CPUSET_a=2-3"};
  EXPECT_FALSE(runtime_->on_create(bad, soon()).ok());
  bad = container("c1");
  bad.memory.mems = "0";
  const Result<nri::CreateAnswer> pinned = runtime_->on_create(bad, soon());
  ASSERT_FALSE(pinned.ok());
  EXPECT_NE(pinned.error().text.find("memoryManagerPolicy None"), std::string::npos) << pinned.error().text;
  EXPECT_EQ(metrics_.memory->container_rejections_total.value(observe::Rejection::kKubeletMems), 1U);
  EXPECT_TRUE(runtime_->on_create(container("c2", "other"), soon()).ok()) << "nobody owns it yet";
  EXPECT_FALSE(runtime_->on_create(container("c3", "main"), soon()).ok());
}

TEST_F(MemoryHooks, AnUpdateIsPutRightWithTheCpus) {
  ASSERT_TRUE(runtime_->on_create(container("c1"), soon()).ok());
  nri::ContainerInfo update = container("c1");
  auto got = runtime_->on_update(update, soon());
  ASSERT_TRUE(got.ok());
  ASSERT_EQ(got->size(), 1U);
  EXPECT_TRUE((*got)[0].memory.is_empty()) << "nothing is asked of its memory";
  update.asked = {.mems = "0-1", .hugepage_limits = {{"2MB", 1}, {"1GB", 1}}};
  got = runtime_->on_update(update, soon());
  ASSERT_TRUE(got.ok());
  ASSERT_EQ(got->size(), 1U);
  EXPECT_EQ((*got)[0].cpus.to_string(), "0-1");
  EXPECT_EQ((*got)[0].memory, (nri::MemorySettings{.mems = "1", .hugepage_limits = {{"2MB", k64Mi.count}}}));
}

TEST_F(MemoryHooks, SynchronizeChangesOnlyWhatDiffers) {
  nri::ContainerInfo right = container("c1");
  right.cpus = "0-1";
  right.memory = {.mems = "1", .hugepage_limits = {{"2MB", k64Mi.count}}};
  auto got = runtime_->on_synchronize({right}, soon());
  ASSERT_TRUE(got.ok());
  EXPECT_TRUE(got->empty());
  EXPECT_TRUE(books_.with_memory([](const MemoryBook& m) { return m.claims_without_container().empty(); }));
  right.memory.mems = "0-1";
  nri::ContainerInfo stranger = container("c2", "second");
  got = runtime_->on_synchronize({stranger, right}, soon());
  ASSERT_TRUE(got.ok());
  const auto own = std::find_if(got->begin(), got->end(), [](const auto& u) { return u.id.get() == "c1"; });
  ASSERT_NE(own, got->end());
  EXPECT_EQ(own->memory.mems, "1");
  EXPECT_TRUE(std::none_of(got->begin(), got->end(), [](const auto& u) {
    return u.id.get() == "c2" && !u.memory.is_empty();
  })) << "it is not its owner";
  (void)runtime_->on_stop(right, soon());
  EXPECT_EQ(books_.with_memory([](const MemoryBook& m) { return m.claims_without_container().size(); }), 1U);
}

}  // namespace
}  // namespace dracpu::agent
