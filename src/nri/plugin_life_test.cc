// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Connecting, losing the connection, stopping, unsolicited updates. Numbers in test names are lines of the
// checklist in spec nri-wire section 7.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <future>
#include <thread>

#include "nri.pb.h"
#include "nri/fake_runtime.h"
#include "nri/plugin.h"
#include "nri/session.h"
#include "nri/trunk.h"

namespace dracpu::nri {
namespace {

namespace api = ::nri::pkg::api::v1alpha1;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::container_request;
using testing::FakeRuntime;
using testing::field;
using testing::frame;
using testing::from_hex;
using testing::Peer;
using testing::quick_options;
using testing::TestHandler;
using testing::ttrpc_message;
using testing::WireMessage;

TEST(PluginLife, Check29RefusedRegistrationClosesAndRetriesWithBackOff) {
  FakeRuntime runtime;
  runtime.listen();
  TestHandler handler;
  const auto plugin = Plugin::start(quick_options(runtime.socket()), handler);
  const auto begin = steady_clock::now();
  for (int i = 0; i < 4; ++i) {
    Peer peer = runtime.accept();
    peer.expect_register();
    peer.send(frame(2, ttrpc_message(1, 2, field(1, from_hex("08 02") + field(2, "invalid plugin index")))));
    EXPECT_TRUE(peer.at_end());
  }
  EXPECT_GE(steady_clock::now() - begin, milliseconds(10 + 20 + 40));
  EXPECT_TRUE(handler.events().empty()) << "never configured, so nothing to tell";
}

TEST(PluginLife, RegisteredButNeverConfiguredIsDroppedAndSoIsSilence) {
  FakeRuntime runtime;
  runtime.listen();
  TestHandler handler;
  PluginOptions options = quick_options(runtime.socket());
  options.configure_timeout = milliseconds(100);
  options.register_timeout = milliseconds(300);
  const auto plugin = Plugin::start(options, handler);
  {
    Peer peer = runtime.accept();
    peer.expect_register();
    peer.accept_registration();
    EXPECT_TRUE(peer.at_end());
  }
  Peer silent = runtime.accept();
  silent.expect_register();
  EXPECT_TRUE(silent.at_end());
}

TEST(PluginLife, NoLimitBetweenConfigureAndSynchronize) {
  FakeRuntime runtime;
  runtime.listen();
  TestHandler handler;
  PluginOptions options = quick_options(runtime.socket());
  options.configure_timeout = milliseconds(50);
  options.register_timeout = milliseconds(50);
  const auto plugin = Plugin::start(options, handler);
  for (;;) {  // slow machines may miss 50 ms a few times
    Peer peer = runtime.accept();
    peer.expect_register();
    peer.request(1, "Configure");
    if (!peer.receive().has_value()) continue;
    peer.accept_registration();
    EXPECT_FALSE(peer.at_end(milliseconds(300)));
    peer.request(3, "Synchronize");
    EXPECT_EQ(peer.reply_to(3).code, 0);
    return;
  }
}

TEST(PluginLife, Check30EndAtAnyPointReconnectsFromCleanState) {
  FakeRuntime runtime;
  runtime.listen();
  TestHandler handler;
  const auto plugin = Plugin::start(quick_options(runtime.socket()), handler);
  const std::string create =
      ttrpc_message(5, 1, testing::request_data("CreateContainer", container_request("c1")));
  struct Case {
    const char* about;
    std::function<void(Peer&)> before_the_end;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"at once", [](Peer&) {}},
           {"after RegisterPlugin", [](Peer& p) { p.expect_register(); }},
           {"within a frame header", [](Peer& p) { p.introduce(), p.send("\0\0\0"); }},
           {"within a message", [&](Peer& p) { p.introduce(), p.send(frame(1, create).substr(0, 40)); }},
           {"with a hook open", [&](Peer& p) { p.introduce(), p.send(frame(1, create)); }},
           {"after synchronization", [](Peer& p) { p.introduce(); }},
       }) {
    SCOPED_TRACE(c.about);
    Peer peer = runtime.accept();
    c.before_the_end(peer);
    peer.close();
  }
  Peer last = runtime.accept();
  last.introduce();                    // streams begin at 1 again
  last.request(5, "RemoveContainer");  // its answer comes after all that the worker had to do before
  EXPECT_EQ(last.reply_to(5).code, 0);
  EXPECT_EQ(plugin->connections(), 5U);
  EXPECT_EQ(handler.count("disconnect"), 4U);
}

TEST(PluginLife, Check30LateAnswerOfALostConnectionGoesNowhere) {
  FakeRuntime runtime;
  runtime.listen();
  TestHandler handler;
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  handler.create = [&](const ContainerInfo&, Deadline) {
    released.wait();
    return CreateAnswer{{1}, {}};
  };
  const auto plugin = Plugin::start(quick_options(runtime.socket()), handler);
  Peer first = runtime.accept();
  first.introduce();
  first.request(5, "CreateContainer", container_request("c1"));
  EXPECT_TRUE(handler.saw("create c1"));
  first.request(7, "StopContainer", container_request("c2"));
  first.close();
  Peer second = runtime.accept();
  second.expect_register();
  second.accept_registration();
  second.request(1, "Configure");
  release.set_value();
  EXPECT_EQ(second.reply_to(1).code, 0);
  EXPECT_EQ(handler.events(),
            (std::vector<std::string>{"configure", "synchronize 0", "synchronized", "create c1",
                                      "not applied c1", "disconnect", "configure"}));
}

TEST(PluginLife, Check31SocketThatAppearsIsFoundAtOnce) {
  FakeRuntime runtime;  // neither the socket nor its directory exists
  TestHandler handler;
  PluginOptions options = quick_options(runtime.socket());
  options.first_retry = options.max_retry = milliseconds(60000);  // only the watch can find it
  const auto plugin = Plugin::start(options, handler);
  std::this_thread::sleep_for(milliseconds(300));
  auto begin = steady_clock::now();
  runtime.listen();
  {
    Peer peer = runtime.accept();
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - begin);
    fmt::print("socket file appeared: connected after {} us\n", took.count());
    peer.introduce();
    // A restart of the runtime: the socket file goes with it and comes back.
    runtime.silence();
  }
  EXPECT_TRUE(handler.saw("disconnect"));
  std::this_thread::sleep_for(milliseconds(100));
  begin = steady_clock::now();
  runtime.listen();
  Peer again = runtime.accept();
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - begin);
  fmt::print("socket file came back: connected after {} us\n", took.count());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(took, milliseconds(100));
#endif
  again.introduce();
}

TEST(PluginLife, Check45InheritedSocket) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  Peer peer{UniqueFd(pair[0])};
  ASSERT_EQ(::setenv("NRI_PLUGIN_SOCKET", std::to_string(pair[1]).c_str(), 1), 0);
  TestHandler handler;
  const auto plugin = Plugin::start(quick_options("/nonexistent/nri.sock"), handler);
  ::unsetenv("NRI_PLUGIN_SOCKET");
  peer.introduce();
  EXPECT_TRUE(handler.saw("synchronized"));
}

TEST(PluginLife, InheritedSocketThatIsNoneFallsBackToThePath) {
  for (const char* bad : {"x", "-1", "99999", "0x3", "3 "}) {
    EXPECT_EQ(adopt_inherited(bad).error().code, Errc::kInvalidInput) << bad;
  }
  FakeRuntime runtime;
  runtime.listen();
  ::setenv("NRI_PLUGIN_SOCKET", "99999", 1);
  TestHandler handler;
  const auto plugin = Plugin::start(quick_options(runtime.socket()), handler);
  ::unsetenv("NRI_PLUGIN_SOCKET");
  runtime.accept().introduce();
}

TEST(PluginLife, StopFinishesTheOpenHookThenCloses) {
  FakeRuntime runtime;
  runtime.listen();
  TestHandler handler;
  handler.create = [](const ContainerInfo&, Deadline) {
    std::this_thread::sleep_for(milliseconds(200));
    return CreateAnswer{{1}, {}};
  };
  const auto plugin = Plugin::start(quick_options(runtime.socket()), handler);
  Peer peer = runtime.accept();
  peer.introduce();
  peer.request(5, "CreateContainer", container_request("c1"));
  EXPECT_TRUE(handler.saw("create c1"));
  plugin->stop(milliseconds(20000));
  EXPECT_EQ(peer.reply_to(5).code, 0);
  EXPECT_TRUE(peer.at_end());
  EXPECT_EQ(handler.events().back(), "disconnect");
  plugin->stop();  // again is harmless
  EXPECT_FALSE(plugin->update_containers({{ContainerId("c"), CpuSet{1}}}, milliseconds(10)).ok());
}

TEST(PluginLife, StopWhileWaitingForTheSocketIsQuick) {
  TestHandler handler;
  PluginOptions options = quick_options("/nonexistent/nri.sock");
  options.first_retry = milliseconds(60000);
  const auto begin = steady_clock::now();
  Plugin::start(options, handler)->stop();
  EXPECT_LT(steady_clock::now() - begin, milliseconds(10000));
  EXPECT_TRUE(handler.events().empty());
}

class Unsolicited : public ::testing::Test {
 protected:
  Unsolicited() {
    runtime_.listen();
    plugin_ = Plugin::start(quick_options(runtime_.socket()), handler_);
  }
  std::future<Status> update(std::vector<ContainerUpdate> updates,
                             milliseconds timeout = testing::kPatience) {
    return std::async(std::launch::async, [this, updates = std::move(updates), timeout] {
      return plugin_->update_containers(updates, timeout);
    });
  }
  Peer introduced() {
    Peer peer = runtime_.accept();
    peer.introduce();
    EXPECT_TRUE(handler_.saw("synchronized"));
    return peer;
  }

  FakeRuntime runtime_;
  TestHandler handler_;
  std::unique_ptr<Plugin> plugin_;
};

const std::vector<ContainerUpdate> kOne = {{ContainerId("c1"), CpuSet{1, 2}}};

TEST_F(Unsolicited, UpdateIsSentAndAnswered) {
  EXPECT_EQ(plugin_->update_containers(kOne, milliseconds(10)).error().code, Errc::kUnavailable);
  Peer peer = introduced();
  EXPECT_TRUE(plugin_->update_containers({}, milliseconds(10)).ok()) << "nothing to send";
  std::future<Status> done = update(kOne);
  const std::optional<WireMessage> message = peer.receive();
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->connection, 2U);
  EXPECT_EQ(message->stream, 3U);
  const std::string payload = field(1, field(1, "c1") + field(2, field(1, field(2, field(6, "1-2")))));
  EXPECT_EQ(message->data,
            testing::request_data("UpdateContainers", payload, 0, "nri.pkg.api.v1alpha1.Runtime"))
      << "no timeout on the wire";
  peer.send(frame(2, ttrpc_message(3, 2, {})));
  EXPECT_TRUE(done.get().ok());
}

TEST_F(Unsolicited, FailuresAreTold) {
  Peer peer = introduced();
  EXPECT_EQ(plugin_->update_containers({{ContainerId("c1"), CpuSet()}}, milliseconds(10)).error().code,
            Errc::kInternal);
  EXPECT_EQ(plugin_->update_containers(kOne, milliseconds(30)).error().code, Errc::kUnavailable)
      << "no answer";
  ASSERT_TRUE(peer.receive().has_value());
  std::future<Status> refused = update(kOne);
  ASSERT_TRUE(peer.receive().has_value());
  peer.send(frame(2, ttrpc_message(3, 2, {})));  // late answer to the first
  peer.send(frame(2, ttrpc_message(5, 2, field(1, from_hex("08 02") + field(2, "some failed")))));
  const Status status = refused.get();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().text.find("some failed"), std::string::npos);
  std::future<Status> cut = update(kOne);
  ASSERT_TRUE(peer.receive().has_value());
  peer.close();
  EXPECT_EQ(cut.get().error().code, Errc::kUnavailable);
}

TEST_F(Unsolicited, LongListsGoInSeveralMessages) {
  CpuSet every_other;
  for (std::uint32_t cpu = 0; cpu < 1024; cpu += 2) every_other.insert(CpuId(cpu));
  std::vector<ContainerUpdate> updates;
  for (int i = 0; i < 3000; ++i) updates.push_back({ContainerId(fmt::format("{:064}", i)), every_other});
  Peer peer = introduced();
  std::future<Status> done = update(updates);
  for (const std::uint32_t stream : {3U, 5U}) {
    const std::optional<WireMessage> message = peer.receive();
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->stream, stream);
    peer.send(frame(2, ttrpc_message(stream, 2, {})));
  }
  EXPECT_TRUE(done.get().ok());
}

TEST_F(Unsolicited, Check43NeverWhileAHookIsOpen) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  handler_.create = [&](const ContainerInfo&, Deadline) {
    EXPECT_EQ(plugin_->update_containers(kOne, milliseconds(10)).error().code, Errc::kInternal)
        << "from inside a handler call";
    released.wait();
    return CreateAnswer();
  };
  Peer peer = introduced();
  peer.request(5, "CreateContainer", container_request("c1"), 60'000'000'000);
  EXPECT_TRUE(handler_.saw("create c1"));
  EXPECT_EQ(plugin_->update_containers(kOne, milliseconds(50)).error().code, Errc::kUnavailable);
  std::future<Status> done = update(kOne);
  EXPECT_FALSE(peer.receive(milliseconds(100)).has_value()) << "sent while the hook is open";
  release.set_value();
  EXPECT_EQ(peer.reply_to(5).code, 0);
  const std::optional<WireMessage> message = peer.receive();
  ASSERT_TRUE(message.has_value());
  peer.send(frame(2, ttrpc_message(message->stream, 2, {})));
  EXPECT_TRUE(done.get().ok());
  plugin_.reset();  // before what the handler refers to goes
}

TEST(Budget, LeavesAMarginWhateverTheTimeout) {
  const Deadline::Clock::time_point now{};
  struct Case {
    milliseconds timeout;
    milliseconds handler;
    milliseconds refuse;
  };
  for (const Case& c :
       std::initializer_list<Case>{{milliseconds(2000), milliseconds(1800), milliseconds(1900)},
                                   {milliseconds(500), milliseconds(400), milliseconds(450)},
                                   {milliseconds(50), milliseconds(40), milliseconds(45)},
                                   {milliseconds(12), milliseconds(6), milliseconds(9)},
                                   {milliseconds(60000), milliseconds(59800), milliseconds(59900)}}) {
    SCOPED_TRACE(c.timeout.count());
    const Budget budget = make_budget(c.timeout, now);
    EXPECT_EQ(budget.handler.at() - now, c.handler);
    EXPECT_EQ(budget.refuse.at() - now, c.refuse);
  }
}

}  // namespace
}  // namespace dracpu::nri
