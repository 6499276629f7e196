// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Synchronize, hooks and their deadlines. Numbers in test names are lines of the checklist in spec nri-wire
// section 7.

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <ctime>
#include <fstream>
#include <future>
#include <thread>

#include "nri.pb.h"
#include "nri/fake_runtime.h"
#include "nri/plugin.h"

namespace dracpu::nri {
namespace {

namespace api = ::nri::pkg::api::v1alpha1;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::container_bytes;
using testing::container_request;
using testing::FakeRuntime;
using testing::field;
using testing::from_hex;
using testing::Peer;
using testing::pod_bytes;
using testing::Reply;
using testing::TestHandler;

class PluginHooks : public ::testing::Test {
 protected:
  PluginHooks() {
    runtime_.listen();
    plugin_ = Plugin::start(testing::quick_options(runtime_.socket()), handler_);
  }
  // Up to Configure, answered.
  Peer configured() {
    Peer peer = runtime_.accept();
    peer.expect_register();
    peer.accept_registration();
    peer.request(1, "Configure", from_hex(testing::kMinute), 60'000'000'000);
    EXPECT_EQ(peer.reply_to(1).code, 0);
    return peer;
  }
  Peer introduced() {
    Peer peer = runtime_.accept();
    peer.introduce();
    return peer;
  }

  FakeRuntime runtime_;
  TestHandler handler_;
  std::unique_ptr<Plugin> plugin_;
};

TEST_F(PluginHooks, Check25And26Chunks) {
  handler_.synchronize = [](std::vector<ContainerInfo> all, Deadline) {
    EXPECT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].pod_uid.get(), "u1");
    return std::vector<ContainerUpdate>{{all[0].id, CpuSet{4, 5}}};
  };
  Peer peer = configured();
  const std::string more = from_hex("18 01");
  peer.request(3, "Synchronize", field(2, container_bytes("c1", "p1")) + more);
  EXPECT_EQ(testing::to_hex(peer.reply_to(3).payload), "10 01 ");
  peer.request(5, "Synchronize", field(1, pod_bytes("p1", "u1")) + more);
  EXPECT_EQ(testing::to_hex(peer.reply_to(5).payload), "10 01 ");
  EXPECT_EQ(plugin_->connections(), 0U);
  peer.request(7, "Synchronize", field(2, container_bytes("c2", "p1")));
  api::SynchronizeResponse response;
  ASSERT_TRUE(response.ParseFromString(peer.reply_to(7).payload));
  EXPECT_FALSE(response.more());
  ASSERT_EQ(response.update_size(), 1);
  EXPECT_EQ(response.update(0).container_id(), "c1");
  EXPECT_EQ(response.update(0).linux().resources().cpu().cpus(), "4-5");
  EXPECT_TRUE(handler_.saw("synchronized"));
}

TEST_F(PluginHooks, Check27PartialListsEndWithTheConnection) {
  Peer first = configured();
  first.request(3, "Synchronize", field(2, container_bytes("old", "p1")) + from_hex("18 01"));
  EXPECT_EQ(first.reply_to(3).code, 0);
  first.close();
  Peer second = configured();
  second.request(3, "Synchronize", field(2, container_bytes("c1", "p1")));
  EXPECT_EQ(second.reply_to(3).code, 0);
  EXPECT_EQ(handler_.count("synchronize 1"), 1U);
  EXPECT_EQ(handler_.count("disconnect"), 1U);
}

TEST_F(PluginHooks, Check28SynchronizeOfNothing) {
  Peer peer = configured();
  peer.request(3, "Synchronize");
  const Reply reply = peer.reply_to(3);
  EXPECT_EQ(reply.code, 0);
  EXPECT_EQ(reply.payload, "");
  EXPECT_EQ(handler_.count("synchronize 0"), 1U);
}

TEST_F(PluginHooks, SynchronizeFailureIsAnErrorAndEndsTheConnection) {
  handler_.synchronize = [](std::vector<ContainerInfo>, Deadline) {
    return Error{Errc::kNoCapacity, "the pool would be empty"};
  };
  Peer peer = configured();
  peer.request(3, "Synchronize");
  const Reply reply = peer.reply_to(3);
  EXPECT_EQ(reply.code, 9) << "8 would mean: send smaller pieces";
  EXPECT_EQ(reply.text, "the pool would be empty");
  EXPECT_TRUE(peer.at_end()) << "old runtimes leave it open and dead";
  EXPECT_EQ(handler_.count("synchronized"), 0U);
  handler_.synchronize = nullptr;
  Peer again = introduced();
  EXPECT_TRUE(handler_.saw("synchronized"));
}

TEST_F(PluginHooks, Check32StateChangeAndOtherEvents) {
  Peer peer = introduced();
  const std::string about = field(2, pod_bytes("p1", "u1")) + field(3, container_bytes("c1", "p1"));
  std::uint32_t stream = 5;
  for (const char* event : {"08 0b", "08 06", "08 63", "", "08 01"}) {
    peer.request(stream, "StateChange", from_hex(event) + about);
    const Reply reply = peer.reply_to(stream);
    EXPECT_EQ(reply.code, 0) << event;
    EXPECT_EQ(reply.payload, "") << event;
    stream += 2;
  }
  for (const char* method : {"RunPodSandbox", "StartContainer", "PostCreateContainer", "Shutdown"}) {
    peer.request(stream, method, field(2, container_bytes("c1", "p1")));
    EXPECT_EQ(peer.reply_to(stream).code, 0) << method;
    stream += 2;
  }
  EXPECT_EQ(handler_.count("remove c1"), 1U);
}

TEST_F(PluginHooks, Check33And34And40EveryHookReachesTheHandler) {
  Peer peer = introduced();
  std::uint32_t stream = 5;
  for (const char* method : {"CreateContainer", "StopContainer", "StopContainer", "RemoveContainer",
                             "RemoveContainer", "UpdateContainer"}) {
    peer.request(stream, method, container_request("c1"));
    const Reply reply = peer.reply_to(stream);
    EXPECT_EQ(reply.code, 0) << method;
    EXPECT_EQ(reply.payload, "") << method;
    stream += 2;
  }
  const std::vector<std::string> all = handler_.events();
  EXPECT_EQ(
      std::vector<std::string>(all.end() - 6, all.end()),
      (std::vector<std::string>{"create c1", "stop c1", "stop c1", "remove c1", "remove c1", "update c1"}));
}

TEST_F(PluginHooks, Check35CreateAnswer) {
  handler_.create = [](const ContainerInfo& container, Deadline) {
    EXPECT_EQ(container.pod_uid.get(), "uid-pod1");
    EXPECT_EQ(container.pod_namespace, "shop");
    return CreateAnswer{{2, 3},
                        {{ContainerId("shrinks"), CpuSet{0}}, {ContainerId("grows"), CpuSet{0, 1}}},
                        {.mems = "0", .hugepage_limits = {{"2MB", 67108864}}, .limit = 536870912}};
  };
  Peer peer = introduced();
  peer.request(5, "CreateContainer", container_request("c1"));
  api::CreateContainerResponse response;
  ASSERT_TRUE(response.ParseFromString(peer.reply_to(5).payload));
  EXPECT_EQ(response.adjust().linux().resources().cpu().cpus(), "2-3");
  const api::LinuxResources& resources = response.adjust().linux().resources();
  EXPECT_EQ(resources.cpu().mems(), "0");
  ASSERT_EQ(resources.hugepage_limits_size(), 1);
  EXPECT_EQ(resources.hugepage_limits(0).page_size(), "2MB");
  EXPECT_EQ(resources.hugepage_limits(0).limit(), 67108864U);
  EXPECT_EQ(resources.memory().limit().value(), 536870912);
  ASSERT_EQ(response.update_size(), 2);
  EXPECT_EQ(response.update(0).container_id(), "shrinks");
  EXPECT_EQ(response.update(1).container_id(), "grows");
}

TEST_F(PluginHooks, Check36RefusalsAndForbiddenAnswers) {
  Peer peer = introduced();
  handler_.create = [](const ContainerInfo&, Deadline) {
    return Error{Errc::kNoCapacity, "shared pool is empty"};
  };
  peer.request(5, "CreateContainer", container_request("c1"));
  const Reply reply = peer.reply_to(5);
  EXPECT_EQ(reply.code, 8);
  EXPECT_EQ(reply.text, "shared pool is empty");
  handler_.create = [](const ContainerInfo&, Deadline) {
    return CreateAnswer{{2}, {{ContainerId("other"), CpuSet()}}};
  };
  peer.request(7, "CreateContainer", container_request("c1"));
  EXPECT_EQ(peer.reply_to(7).code, 13) << "an empty cpuset would mean unchanged";
  EXPECT_TRUE(handler_.saw("not applied c1 other"));
  handler_.stop = [](const ContainerInfo&, Deadline) {
    return std::vector<ContainerUpdate>{{ContainerId("other"), CpuSet()}};
  };
  peer.request(9, "StopContainer", container_request("c1"));
  EXPECT_EQ(peer.reply_to(9).code, 13);
  handler_.create = [](const ContainerInfo&, Deadline) { return Error{Errc::kUnsupported, "no"}; };
  peer.request(11, "CreateContainer", container_request("c1"));
  EXPECT_NE(peer.reply_to(11).code, 12) << "12 would mean: method unknown";
}

TEST_F(PluginHooks, Check39UpdateForcesTheOwnSet) {
  handler_.update = [](const ContainerInfo& container, Deadline) {
    return std::vector<ContainerUpdate>{{container.id, CpuSet{8, 9}}};
  };
  Peer peer = introduced();
  const std::string wanted = field(3, field(2, field(6, "0-63")));
  peer.request(5, "UpdateContainer", container_request("c1") + wanted);
  api::UpdateContainerResponse response;
  ASSERT_TRUE(response.ParseFromString(peer.reply_to(5).payload));
  ASSERT_EQ(response.update_size(), 1);
  EXPECT_EQ(response.update(0).container_id(), "c1");
  EXPECT_EQ(response.update(0).linux().resources().cpu().cpus(), "8-9");
}

TEST_F(PluginHooks, Check41RefusesBeforeTheDeadlineWhenTheHandlerIsLate) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  handler_.create = [&](const ContainerInfo&, Deadline) {
    released.wait();
    return CreateAnswer{{1}, {{ContainerId("other"), CpuSet{2}}}};
  };
  Peer peer = introduced();
  const auto sent = steady_clock::now();
  peer.request(5, "CreateContainer", container_request("c1"), 50'000'000);
  const Reply reply = peer.reply_to(5);
  const auto took = steady_clock::now() - sent;
  EXPECT_EQ(reply.code, 4);
  EXPECT_GE(took, milliseconds(40));
  RecordProperty("answered_after_us",
                 static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
  // A second hook that waits behind the stuck one is answered as well, and its creation never begins.
  peer.request(7, "CreateContainer", container_request("c2"), 50'000'000);
  EXPECT_EQ(peer.reply_to(7).code, 4);
  // A stop has happened in the world: the handler hears of it although the answer was given for it.
  peer.request(9, "StopContainer", container_request("c3"), 50'000'000);
  EXPECT_EQ(peer.reply_to(9).code, 4);
  release.set_value();
  EXPECT_TRUE(handler_.saw("not applied c1 other"));
  EXPECT_TRUE(handler_.saw("stop c3"));
  EXPECT_EQ(handler_.count("create c2"), 0U);
  handler_.create = nullptr;
  peer.request(11, "CreateContainer", container_request("c4"));
  EXPECT_EQ(peer.reply_to(11).code, 0);
}

TEST_F(PluginHooks, DeadlinesComeFromTheRequestOrFromConfigure) {
  std::atomic<std::int64_t> left_ms{0};
  handler_.create = [&](const ContainerInfo&, Deadline deadline) {
    left_ms = std::chrono::duration_cast<milliseconds>(deadline.left()).count();
    return CreateAnswer();
  };
  Peer peer = configured();  // request_timeout 60 000
  peer.request(3, "Synchronize");
  EXPECT_EQ(peer.reply_to(3).code, 0);
  peer.request(5, "CreateContainer", container_request("c1"));
  EXPECT_EQ(peer.reply_to(5).code, 0);
  EXPECT_GT(left_ms, 30'000);
  EXPECT_LE(left_ms, 59'800) << "a margin remains";
  peer.request(7, "CreateContainer", container_request("c1"), 40'000'000'000);
  EXPECT_EQ(peer.reply_to(7).code, 0);
  EXPECT_GT(left_ms, 10'000);
  EXPECT_LE(left_ms, 39'800);
}

TEST_F(PluginHooks, Check44ReaderDrainsWhileTheWorkerIsBlocked) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  handler_.create = [&](const ContainerInfo&, Deadline) {
    released.wait();
    return CreateAnswer();
  };
  Peer peer = introduced();
  peer.request(5, "CreateContainer", container_request("c1"), 100'000'000);
  EXPECT_TRUE(handler_.saw("create c1"));
  // Far more than the socket's buffer: send() would block for ever if nobody read.
  const std::string noise = testing::frame(7, std::string(std::size_t{1} << 20U, 'x'));
  for (int i = 0; i < 64; ++i) peer.send(noise);
  EXPECT_EQ(peer.reply_to(5).code, 4);
  peer.request(7, "Foo");
  EXPECT_EQ(peer.reply_to(7).code, 12) << "what needs no handler is answered meanwhile";
  release.set_value();
  plugin_.reset();  // before what the handler refers to goes
}

// Resident memory of this process.
std::size_t resident_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
  }
  return 0;
}

std::string big_container(int i) {
  api::Container c;
  c.set_id(fmt::format("{:064x}", i));
  c.set_pod_sandbox_id(fmt::format("{:064x}", i / 5));
  c.set_name("main");
  for (int e = 0; e < 40; ++e) c.add_env(fmt::format("SOME_SERVICE_HOST_NUMBER_{}=10.0.0.{}", e, e));
  c.add_env("DRA_CPUSET_claim=0-3");
  for (int m = 0; m < 12; ++m) {
    auto& mount = *c.add_mounts();
    mount.set_destination(fmt::format("/var/lib/some/path/{}", m));
    mount.set_source(fmt::format("/var/lib/kubelet/pods/volumes/{}", m));
    mount.add_options("rprivate");
  }
  c.mutable_linux()->mutable_resources()->mutable_cpu()->set_cpus("0-63");
  return c.SerializeAsString();
}

TEST_F(PluginHooks, Check42FiveThousandContainers) {
  constexpr int kCount = 5000;
  std::vector<std::string> chunks(1);
  for (int i = 0; i < kCount; ++i) {
    if (chunks.back().size() > 4'000'000) chunks.emplace_back();
    chunks.back() += field(2, big_container(i));
  }
  std::size_t total = 0;
  for (const std::string& chunk : chunks) total += chunk.size();
  handler_.synchronize = [](std::vector<ContainerInfo> all, Deadline) {
    std::vector<ContainerUpdate> out;
    for (std::size_t i = 0; i < all.size(); i += 100) out.push_back({all[i].id, CpuSet{0, 1, 2}});
    return out;
  };
  Peer peer = configured();
  ::malloc_trim(0);
  const std::size_t before = resident_kb();
  const auto begin = steady_clock::now();
  const std::clock_t used_before = std::clock();
  std::uint32_t stream = 3;
  for (std::size_t i = 0; i + 1 < chunks.size(); ++i, stream += 2) {
    peer.request(stream, "Synchronize", chunks[i] + from_hex("18 01"));
    EXPECT_EQ(testing::to_hex(peer.reply_to(stream).payload), "10 01 ");
  }
  peer.request(stream, "Synchronize", chunks.back());
  api::SynchronizeResponse response;
  ASSERT_TRUE(response.ParseFromString(peer.reply_to(stream).payload));
  const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  const auto used_ms = (std::clock() - used_before) * 1000 / CLOCKS_PER_SEC;
  EXPECT_EQ(response.update_size(), kCount / 100) << "only what changed";
  peer.request(stream + 2, "RemoveContainer");  // answered when the worker is done with the rest
  EXPECT_EQ(peer.reply_to(stream + 2).code, 0);
  const std::size_t after = resident_kb();
  fmt::print(
      "5000 containers, {} bytes in {} chunks: {} ms ({} ms of processor), resident {} kB, then {} kB\n",
      total, chunks.size(), took.count(), used_ms, before, after);
#if defined(NDEBUG)
  EXPECT_LT(used_ms, 1000) << "processor time, that of the test included: a busy machine must not decide";
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(after, before + 10'000) << "copies of the chunks are kept";
#endif
}

TEST_F(PluginHooks, LateSynchronizeIsNotAppliedAndNotSynchronized) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  handler_.synchronize = [&](std::vector<ContainerInfo>, Deadline) {
    released.wait();
    return std::vector<ContainerUpdate>{{ContainerId("c1"), CpuSet{1}}};
  };
  Peer peer = configured();
  peer.request(3, "Synchronize", field(2, container_bytes("c1", "p1")), 50'000'000);
  EXPECT_EQ(peer.reply_to(3).code, 4);
  peer.close();
  release.set_value();
  EXPECT_TRUE(handler_.saw("not applied c1"));
  EXPECT_EQ(handler_.count("synchronized"), 0U);
  plugin_.reset();
  EXPECT_EQ(handler_.count("disconnect"), 1U);
}

}  // namespace
}  // namespace dracpu::nri
