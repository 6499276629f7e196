// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The plugin against hand-made bytes on a socket. Numbers in test names are lines of the checklist in spec
// nri-wire section 7.

#include <gtest/gtest.h>

#include "nri/fake_runtime.h"
#include "nri/plugin.h"

namespace dracpu::nri {
namespace {

using testing::container_request;
using testing::FakeRuntime;
using testing::field;
using testing::frame;
using testing::from_hex;
using testing::Peer;
using testing::Reply;
using testing::request_data;
using testing::TestHandler;
using testing::to_hex;
using testing::ttrpc_message;
using testing::WireMessage;

class PluginWire : public ::testing::Test {
 protected:
  PluginWire() {
    runtime_.listen();
    plugin_ = Plugin::start(testing::quick_options(runtime_.socket()), handler_);
  }
  Peer introduced() {
    Peer peer = runtime_.accept();
    peer.introduce();
    return peer;
  }

  FakeRuntime runtime_;
  TestHandler handler_;
  std::vector<ContainerUpdate> updates_;
  std::unique_ptr<Plugin> plugin_;
};

constexpr const char* kConfigure = R"(
    00 00 00 01 00 00 00 54 00 00 00 4a 00 00 00 01 01 00 0a 1b 6e 72 69 2e 70 6b 67 2e 61 70 69 2e
    76 31 61 6c 70 68 61 31 2e 50 6c 75 67 69 6e 12 09 43 6f 6e 66 69 67 75 72 65 1a 1a 12 0a 63 6f
    6e 74 61 69 6e 65 72 64 1a 06 76 32 2e 31 2e 34 20 88 27 28 d0 0f 20 80 a8 d6 b9 07)";
constexpr const char* kRegistered = "00 00 00 02 00 00 00 0a 00 00 00 00 00 00 00 01 02 00";

TEST_F(PluginWire, Check01And02And03And23TheDumps) {
  Peer peer = runtime_.accept();
  const std::optional<WireMessage> registration = peer.receive();
  ASSERT_TRUE(registration.has_value());
  EXPECT_EQ(to_hex(registration->bytes), to_hex(from_hex(R"(
      00 00 00 02 00 00 00 46 00 00 00 3c 00 00 00 01 01 00 0a 1c 6e 72 69 2e 70 6b 67 2e 61 70 69 2e
      76 31 61 6c 70 68 61 31 2e 52 75 6e 74 69 6d 65 12 0e 52 65 67 69 73 74 65 72 50 6c 75 67 69 6e
      1a 0c 0a 06 63 70 75 70 69 6e 12 02 31 30)")));
  peer.send(from_hex(kConfigure));  // before the answer to RegisterPlugin
  const std::optional<WireMessage> configured = peer.receive();
  ASSERT_TRUE(configured.has_value());
  EXPECT_EQ(to_hex(configured->bytes),
            to_hex(from_hex("00 00 00 01 00 00 00 0f 00 00 00 05 00 00 00 01 02 00 12 03 10 88 0d")));
  peer.send(from_hex(kRegistered));
  peer.request(3, "Synchronize");
  const std::optional<WireMessage> synchronized = peer.receive();
  ASSERT_TRUE(synchronized.has_value());
  EXPECT_EQ(to_hex(synchronized->bytes),
            to_hex(from_hex("00 00 00 01 00 00 00 0a 00 00 00 00 00 00 00 03 02 00")));
  EXPECT_TRUE(handler_.saw("synchronized"));
  EXPECT_EQ(handler_.runtime().name, "containerd");
  EXPECT_EQ(handler_.runtime().version, "v2.1.4");
  EXPECT_EQ(plugin_->connections(), 1U);
}

TEST_F(PluginWire, Check04BytesOneByOne) {
  Peer peer = runtime_.accept();
  peer.expect_register();
  for (const char byte : from_hex(kRegistered) + from_hex(kConfigure)) peer.send({&byte, 1});
  EXPECT_EQ(peer.reply_to(1).code, 0);
}

TEST_F(PluginWire, Check05MessageOverThreeFramesWithAnotherBetween) {
  Peer peer = introduced();
  const std::string message = ttrpc_message(5, 1, request_data("RemoveContainer", container_request("c1")));
  peer.send(frame(1, message.substr(0, 4)) + frame(1, message.substr(4, 30)) +
            frame(2, ttrpc_message(99, 2, {})) + frame(1, message.substr(34)));
  EXPECT_EQ(peer.reply_to(5).code, 0);
  EXPECT_EQ(handler_.count("remove c1"), 1U);
}

TEST_F(PluginWire, Check06TwoMessagesInOneFrame) {
  Peer peer = introduced();
  peer.send(frame(1, ttrpc_message(5, 1, request_data("RemoveContainer", container_request("c1"))) +
                         ttrpc_message(7, 1, request_data("RemoveContainer", container_request("c2")))));
  EXPECT_EQ(peer.reply_to(5).code, 0);
  EXPECT_EQ(peer.reply_to(7).code, 0);
}

TEST_F(PluginWire, Check07And08And16NoiseIsIgnored) {
  Peer peer = introduced();
  struct Case {
    const char* about;
    std::string bytes;
  };
  std::uint32_t stream = 5;
  for (const Case& c : std::initializer_list<Case>{
           {"connection 7", frame(7, "noise")},
           {"connection 0", frame(0, "noise")},
           {"an empty frame", frame(1, "")},
           {"type 9", frame(1, ttrpc_message(3, 9, "x"))},
           {"type 3", frame(1, ttrpc_message(3, 3, "x"))},
           {"a response on connection 1", frame(1, ttrpc_message(3, 2, ""))},
           {"a request on connection 2", frame(2, ttrpc_message(3, 1, request_data("Shutdown")))},
           {"an answer that nobody waits for", frame(2, ttrpc_message(77, 2, ""))},
       }) {
    SCOPED_TRACE(c.about);
    peer.send(c.bytes);
    peer.request(stream, "Shutdown");
    EXPECT_EQ(peer.reply_to(stream).code, 0);
    stream += 2;
  }
}

TEST_F(PluginWire, Check09HugeFrameClosesTheConnection) {
  Peer peer = introduced();
  peer.send(from_hex("00 00 00 01 40 00 00 00"));
  EXPECT_TRUE(peer.at_end());
  EXPECT_TRUE(handler_.saw("disconnect"));
}

TEST_F(PluginWire, Check10To12ReplySizesFollowTheCut) {
  Peer peer = introduced();
  handler_.stop = [this](const ContainerInfo&, Deadline) { return updates_; };
  // Peer::receive() checks the cut of every message; here the sizes around the borders are brought about.
  struct Case {
    std::size_t count;
    std::size_t id;  // length of the ids
  };
  std::uint32_t stream = 5;
  for (const Case& c : std::initializer_list<Case>{{1, 80},
                                                   {1, 4050},
                                                   {1, 4060},
                                                   {1, 4064},
                                                   {1, 4065},
                                                   {1, 4066},
                                                   {1, 4067},
                                                   {1, 4100},
                                                   {1000, 64},
                                                   {35000, 64}}) {
    SCOPED_TRACE(c.count * c.id);
    updates_.clear();
    for (std::size_t i = 0; i < c.count; ++i) {
      updates_.push_back({ContainerId(fmt::format("{:0{}}", i, c.id)), CpuSet{0, 1}});
    }
    peer.request(stream, "StopContainer", container_request("c1"));
    const std::optional<WireMessage> message = peer.receive();
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->frames.size(), message->data.size() + 10 <= 4096 ? 1U : 2U);
    EXPECT_GT(message->data.size(), c.count * c.id) << "refused";
    stream += 2;
  }
}

TEST_F(PluginWire, Check13To15And17RefusalsLeaveTheConnectionUsable) {
  Peer peer = introduced();
  struct Case {
    const char* about;
    std::uint32_t stream;
    std::string data;
    int code;
    const char* text;
  };
  std::uint32_t next = 5;
  for (const Case& c : std::initializer_list<Case>{
           {"13: unknown method", 5, request_data("Foo"), 12, "method Foo"},
           {"14: unknown service", 9, request_data("Shutdown", {}, 0, "a.B"), 12, "service a.B"},
           {"15: even stream", 12, request_data("Shutdown"), 3,
            "StreamID must be odd for client initiated streams"},
           {"15: stream used before", 5, request_data("Shutdown"), 3,
            "StreamID cannot be re-used and must increment"},
           {"17: not protobuf", 21, from_hex("ff ff"), 3,
            "unmarshal request error: 2 bytes are not a ttrpc request"},
           {"17: payload is not the request", 25, request_data("CreateContainer", "\xff"), 3,
            "1 bytes are not a request about a container"},
       }) {
    SCOPED_TRACE(c.about);
    peer.send(frame(1, ttrpc_message(c.stream, 1, c.data)));
    const Reply reply = peer.reply_to(c.stream);
    EXPECT_EQ(reply.code, c.code);
    EXPECT_EQ(reply.text, c.text);
    EXPECT_EQ(reply.payload, "");
    next += 2;
    if (next <= c.stream) next = c.stream + 2;
    peer.request(next, "Shutdown");
    EXPECT_EQ(peer.reply_to(next).code, 0);
  }
}

TEST_F(PluginWire, Check18And19And20FieldsAndIds) {
  Peer peer = introduced();
  const std::string metadata =
      field(5, field(1, "traceparent") + field(2, "00-1")) + field(15, "x") + field(100, "y");
  peer.send(
      frame(1, ttrpc_message(5, 1, request_data("RemoveContainer", container_request("c1")) + metadata)));
  EXPECT_EQ(peer.reply_to(5).code, 0);
  peer.request(9, "RemoveContainer");  // no payload, and a gap in the ids
  EXPECT_EQ(peer.reply_to(9).code, 0);
  EXPECT_EQ(handler_.count("remove "), 1U);
  peer.request(15, "StateChange");
  EXPECT_EQ(peer.reply_to(15).code, 0);
}

TEST_F(PluginWire, Check21LargeRequests) {
  Peer peer = introduced();
  std::uint32_t stream = 5;
  for (const std::size_t size : {4194304U, 4194305U, 16777216U}) {
    SCOPED_TRACE(size);
    // Padded with an unknown field to the exact size.
    std::string data = request_data("RemoveContainer", container_request("c1"));
    data += field(30, std::string(size - data.size() - 6, 'x'));
    ASSERT_EQ(data.size(), size);
    const std::string message = ttrpc_message(stream, 1, data);
    peer.send(frame(1, message.substr(0, 4096)) + frame(1, message.substr(4096)));
    EXPECT_EQ(peer.reply_to(stream).code, 0);
    stream += 2;
  }
  // 17 MiB in two frames: over our limit, refused, and the stream is still in step.
  const std::string message = ttrpc_message(stream, 1, std::string(std::size_t{17} << 20U, 'x'));
  peer.send(frame(1, message.substr(0, std::size_t{8} << 20U)) +
            frame(1, message.substr(std::size_t{8} << 20U)));
  EXPECT_EQ(peer.reply_to(stream).code, 8);
  peer.request(stream + 2, "Shutdown");
  EXPECT_EQ(peer.reply_to(stream + 2).code, 0);
}

TEST_F(PluginWire, Check22TooManyUpdatesAreCutAndReported) {
  Peer peer = introduced();
  CpuSet every_other;
  for (std::uint32_t cpu = 0; cpu < 1024; cpu += 2) every_other.insert(CpuId(cpu));
  handler_.create = [&](const ContainerInfo&, Deadline) {
    CreateAnswer answer{every_other, {}};
    for (int i = 0; i < 2500; ++i)
      answer.updates.push_back({ContainerId(fmt::format("{:064}", i)), every_other});
    return answer;
  };
  peer.request(5, "CreateContainer", container_request("c1"), 60'000'000'000);
  const Reply reply = peer.reply_to(5);
  EXPECT_EQ(reply.code, 0);
  EXPECT_GT(reply.payload.size(), 4'190'000U);
  peer.request(7, "Shutdown");
  EXPECT_EQ(peer.reply_to(7).code, 0);
  plugin_.reset();
  const std::vector<std::string> events = handler_.events();
  const auto told = std::find_if(events.begin(), events.end(),
                                 [](const std::string& e) { return e.starts_with("not applied"); });
  ASSERT_NE(told, events.end());
  EXPECT_NE(told->find(fmt::format("{:064}", 2499)), std::string::npos) << "the last ones are left out";
  EXPECT_EQ(told->find(fmt::format("{:064}", 0)), std::string::npos);
}

TEST_F(PluginWire, Check48ErrorTextsAreUtf8) {
  Peer peer = introduced();
  handler_.create = [](const ContainerInfo&, Deadline) { return Error{Errc::kNoCapacity, "bad \xff name"}; };
  peer.request(5, "CreateContainer", container_request("c1"));
  const Reply reply = peer.reply_to(5);
  EXPECT_EQ(reply.code, 8);
  EXPECT_EQ(reply.text, "bad ? name");
}

}  // namespace
}  // namespace dracpu::nri
