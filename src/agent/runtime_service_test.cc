// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What a hook answers, what is carried later, and what is forgotten when an answer did not arrive.

#include "agent/runtime_service.h"

#include <gtest/gtest.h>

#include <future>

#include "agent/test_node.h"

namespace dracpu::agent {
namespace {

using Updates = std::vector<nri::ContainerUpdate>;

class RuntimeServiceTest : public ::testing::Test, protected TestNode {
 protected:
  RuntimeServiceTest()
      : books_(node, machine),
        service_(node, books_, worker_, metrics_, {[] {}, [this](const std::string& r) { lost_ = r; }}) {
    EXPECT_TRUE(books_.load().ok());
  }
  ~RuntimeServiceTest() override { worker_.stop(); }

  void connect(const char* nri_version) {
    service_.on_configure({"containerd", "v2.2.1", nri_version, std::chrono::milliseconds(2000)});
    EXPECT_TRUE(service_.on_synchronize({}, Deadline::never()).ok());
    service_.on_synchronized();
  }
  static nri::ContainerInfo box(const std::string& id, std::vector<std::string> env = {}) {
    nri::ContainerInfo c;
    c.id = ContainerId(id);
    c.pod_uid = PodUid("pod-" + id);
    c.pod_namespace = "ns";
    c.pod_name = id;
    c.name = "app";
    c.env = std::move(env);
    return c;
  }
  // What writes files has its thread.
  template <typename F>
  auto on_worker(F f) {
    std::promise<decltype(f())> done;
    worker_.post([&] { done.set_value(f()); });
    return done.get_future().get();
  }
  // A prepared claim of two CPUs, and the variable that its container carries.
  std::string claim(const std::string& uid) {
    const Result<ledger::Claim> got =
        on_worker([&]() -> Result<ledger::Claim> { return books_.prepare({order(uid, 2)})[0]; });
    EXPECT_TRUE(got.ok());
    return "DRA_CPUSET_" + uid + "=" + got->cpus.to_string();
  }
  std::size_t stale() {
    return books_.with_ledger([](const ledger::Ledger& l) { return l.stale_count(); });
  }
  bool knows(const std::string& id) {
    return books_.with_ledger(
        [&](const ledger::Ledger& l) { return l.kind_of(ContainerId(id)).has_value(); });
  }

  Books books_;
  Worker worker_;
  observe::Metrics metrics_;
  std::string lost_;
  RuntimeService service_;
};

TEST_F(RuntimeServiceTest, PrepareWaitsForTheRuntime) {
  EXPECT_EQ(service_.may_prepare().error().code, Errc::kUnavailable);
  connect("v0.12.3");
  EXPECT_TRUE(service_.may_prepare().ok());
  service_.on_disconnect({Errc::kUnavailable, "end of stream"});
  EXPECT_EQ(lost_, "end of stream");
  ASSERT_FALSE(service_.may_prepare().ok());
  EXPECT_NE(service_.may_prepare().error().text.find("end of stream"), std::string::npos);
}

TEST_F(RuntimeServiceTest, AnAnswerThatDidNotArriveIsNotCountedAsDone) {
  connect("");  // an old runtime: nothing is pushed
  EXPECT_TRUE(service_.on_create(box("s"), Deadline::never()).ok());
  const std::string variable = claim("a");
  const Result<nri::CreateAnswer> answer = service_.on_create(box("o", {variable}), Deadline::never());
  ASSERT_TRUE(answer.ok()) << answer.error().text;
  EXPECT_EQ(answer->cpus.to_string(), "0-1");
  ASSERT_EQ(answer->updates.size(), 1U);
  EXPECT_EQ(stale(), 0U);

  service_.on_not_applied(ContainerId("o"), {ContainerId("s")});
  EXPECT_FALSE(knows("o")) << "it was not created, so nothing will say that it ended";
  EXPECT_TRUE(knows("s"));
  EXPECT_EQ(stale(), 1U) << "told again with the next answer";
  const Result<nri::CreateAnswer> again = service_.on_create(box("o2", {variable}), Deadline::never());
  ASSERT_FALSE(again.ok()) << "another pod cannot take the claim over";
  const Result<nri::CreateAnswer> same = service_.on_create(box("o", {variable}), Deadline::never());
  ASSERT_TRUE(same.ok());
  ASSERT_EQ(same->updates.size(), 1U);
  EXPECT_EQ(same->updates[0].cpus.to_string(), "2-7");
}

TEST_F(RuntimeServiceTest, OldRuntimesWidenWithTheNextStop) {
  connect("v0.12.0");
  EXPECT_TRUE(service_.on_create(box("s"), Deadline::never()).ok());
  EXPECT_TRUE(service_.on_create(box("t"), Deadline::never()).ok());
  EXPECT_TRUE(service_.on_create(box("o", {claim("a")}), Deadline::never()).ok());
  EXPECT_TRUE(service_.on_stop(box("o"), Deadline::never())->empty());
  EXPECT_TRUE(on_worker([&] { return books_.unprepare({ClaimUid("a")})[0].ok(); }));
  service_.pool_grew();
  EXPECT_EQ(stale(), 2U);
  const Result<Updates> carried = service_.on_stop(box("t"), Deadline::never());
  ASSERT_TRUE(carried.ok());
  ASSERT_EQ(carried->size(), 1U) << "never the one that stops";
  EXPECT_EQ((*carried)[0].id.get(), "s");
  EXPECT_EQ((*carried)[0].cpus.to_string(), "0-7");
  EXPECT_EQ(stale(), 0U);
}

TEST_F(RuntimeServiceTest, NewRuntimesAreToldAtOnceAndAnUnansweredPushHoldsPrepareBack) {
  std::promise<Updates> pushed;
  service_.set_push([&](const Updates& updates, std::chrono::milliseconds) -> Status {
    pushed.set_value(updates);
    return make_error(Errc::kUnavailable, "no answer within 20 s");
  });
  connect("v0.12.1");
  EXPECT_TRUE(service_.on_create(box("s"), Deadline::never()).ok());
  EXPECT_TRUE(service_.on_create(box("o", {claim("a")}), Deadline::never()).ok());
  EXPECT_TRUE(service_.on_stop(box("o"), Deadline::never())->empty());
  EXPECT_TRUE(on_worker([&] { return books_.unprepare({ClaimUid("a")})[0].ok(); }));
  service_.pool_grew();
  const Updates got = pushed.get_future().get();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].cpus.to_string(), "0-7");
  worker_.stop();  // its turn is over
  EXPECT_EQ(stale(), 1U);
  EXPECT_FALSE(service_.may_prepare().ok()) << "it could still be carried out, over a new claim";
  EXPECT_TRUE(service_.on_synchronize({}, Deadline::never()).ok());
  EXPECT_TRUE(service_.may_prepare().ok());
}

}  // namespace
}  // namespace dracpu::agent
