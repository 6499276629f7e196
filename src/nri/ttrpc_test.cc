// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Numbers in test names are lines of the checklist in spec nri-wire section 7, letters its dumps in 2.7.

#include "nri/ttrpc.h"

#include <gtest/gtest.h>

#include <vector>

#include "nri/fake_runtime.h"
#include "nri/messages.h"
#include "nri/mux.h"

namespace dracpu::nri {
namespace {

using testing::from_hex;
using testing::to_hex;
using testing::ttrpc_message;

std::vector<Message> cut(std::string_view bytes, std::size_t step, std::size_t limit = kMaxReceiveData) {
  std::vector<Message> out;
  MessageAssembler assembler(limit);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    assembler.feed(bytes.substr(0, step), [&](Message m) { out.push_back(std::move(m)); });
  }
  return out;
}

TEST(Ttrpc, Check01DumpARegisterPlugin) {
  const Result<std::string> message = encode_request(
      1, Request{std::string(kRuntimeService), "RegisterPlugin", encode_register("cpupin", "10"), 0});
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(to_hex(encode_message(2, *message)), to_hex(from_hex(R"(
      00 00 00 02 00 00 00 46 00 00 00 3c 00 00 00 01 01 00 0a 1c 6e 72 69 2e 70 6b 67 2e 61 70 69 2e
      76 31 61 6c 70 68 61 31 2e 52 75 6e 74 69 6d 65 12 0e 52 65 67 69 73 74 65 72 50 6c 75 67 69 6e
      1a 0c 0a 06 63 70 75 70 69 6e 12 02 31 30)")));
}

TEST(Ttrpc, Check02DumpBEmptyResponseIsSuccess) {
  const std::vector<Message> got = cut(from_hex("00 00 00 00 00 00 00 01 02 00"), 1);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].type, MessageType::kResponse);
  EXPECT_EQ(got[0].stream, 1U);
  const Result<Response> response = parse_response(got[0].data);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->code, 0);
}

TEST(Ttrpc, DumpCConfigureRequest) {
  const std::vector<Message> got = cut(from_hex(R"(00 00 00 4a 00 00 00 01
      01 00 0a 1b 6e 72 69 2e 70 6b 67 2e 61 70 69 2e 76 31 61 6c 70 68 61 31 2e 50 6c 75 67 69 6e 12
      09 43 6f 6e 66 69 67 75 72 65 1a 1a 12 0a 63 6f 6e 74 61 69 6e 65 72 64 1a 06 76 32 2e 31 2e 34
      20 88 27 28 d0 0f 20 80 a8 d6 b9 07)"),
                                       5);
  ASSERT_EQ(got.size(), 1U);
  const Result<Request> request = parse_request(got[0].data);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->service, kPluginService);
  EXPECT_EQ(request->method, "Configure");
  EXPECT_EQ(request->timeout_nano, 2'000'000'000);
  const Result<RuntimeInfo> runtime = parse_configure(request->payload);
  ASSERT_TRUE(runtime.ok());
  EXPECT_EQ(runtime->name, "containerd");
  EXPECT_EQ(runtime->version, "v2.1.4");
  EXPECT_EQ(runtime->nri_version, "");
  EXPECT_EQ(runtime->request_timeout, std::chrono::milliseconds(2000));
}

TEST(Ttrpc, DumpsOfReplies) {
  struct Case {
    const char* about;
    std::string message;
    const char* hex;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"D and check 23: the mask", encode_response(1, encode_configure_reply(kEventMask)),
            "00 00 00 01 00 00 00 0f 00 00 00 05 00 00 00 01 02 00 12 03 10 88 0d"},
           {"F: unknown method", encode_error(7, Code::kUnimplemented, "method Foo"),
            "00 00 00 01 00 00 00 1a 00 00 00 10 00 00 00 07 02 00 0a 0e 08 0c 12 0a 6d 65 74 68 6f 64 20 46 "
            "6f 6f"},
           {"G: refusal", encode_error(7, Code::kResourceExhausted, "no free CPUs"),
            "00 00 00 01 00 00 00 1c 00 00 00 12 00 00 00 07 02 00 0a 10 08 08 12 0c 6e 6f 20 66 72 65 65 20 "
            "43 50 55 73"},
           {"H: more", encode_response(3, encode_sync_more()),
            "00 00 00 01 00 00 00 0e 00 00 00 04 00 00 00 03 02 00 12 02 10 01"},
           {"I: nothing to change", encode_response(3, {}),
            "00 00 00 01 00 00 00 0a 00 00 00 00 00 00 00 03 02 00"},
       }) {
    SCOPED_TRACE(c.about);
    EXPECT_EQ(to_hex(encode_message(1, c.message)), to_hex(from_hex(c.hex)));
  }
}

TEST(Ttrpc, Check05And06MessagesDoNotFollowPieces) {
  const std::string bytes =
      ttrpc_message(1, 1, "one") + ttrpc_message(3, 2, "") + ttrpc_message(5, 1, "three");
  for (const std::size_t step : {1U, 9U, 10U, 11U, 13U, 1000U}) {
    SCOPED_TRACE(step);
    const std::vector<Message> got = cut(bytes, step);
    ASSERT_EQ(got.size(), 3U);
    EXPECT_EQ(got[0].data, "one");
    EXPECT_EQ(got[1].data, "");
    EXPECT_EQ(got[1].type, MessageType::kResponse);
    EXPECT_EQ(got[2].data, "three");
    EXPECT_EQ(got[2].stream, 5U);
  }
}

TEST(Ttrpc, Check15StreamIds) {
  StreamIdCheck check;
  EXPECT_FALSE(check.refuse(1).has_value());
  EXPECT_EQ(check.refuse(1), "StreamID cannot be re-used and must increment");
  EXPECT_EQ(check.refuse(2), "StreamID must be odd for client initiated streams");
  EXPECT_EQ(check.refuse(0), "StreamID must be odd for client initiated streams");
  EXPECT_FALSE(check.refuse(7).has_value()) << "gaps are allowed";
  EXPECT_EQ(check.refuse(5), "StreamID cannot be re-used and must increment");
  EXPECT_FALSE(check.refuse(0xffffffff).has_value());
}

TEST(Ttrpc, Check16OtherTypesAreSkipped) {
  const std::string bytes = ttrpc_message(1, 9, "x") + ttrpc_message(1, 3, "") + ttrpc_message(1, 0, "abc") +
                            ttrpc_message(3, 1, "kept");
  const std::vector<Message> got = cut(bytes, 4);
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].data, "kept");
}

TEST(Ttrpc, Check17And18Envelopes) {
  EXPECT_FALSE(parse_request(from_hex("ff ff ff")).ok());
  EXPECT_FALSE(parse_request(from_hex("0a 05 61")).ok()) << "cut short";
  EXPECT_FALSE(parse_request(from_hex("0a 02 c3 28")).ok()) << "not UTF-8";
  EXPECT_FALSE(parse_response(from_hex("ff")).ok());
  const std::string extra = testing::request_data("Shutdown") +
                            testing::field(5, testing::field(1, "traceparent")) + testing::field(15, "new") +
                            testing::field(100, "newer") + from_hex("a0 06 01");
  const Result<Request> request = parse_request(extra);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->method, "Shutdown");
  EXPECT_EQ(request->payload, "");
}

TEST(Ttrpc, Check21OversizedMessagesKeepTheStreamInStep) {
  const std::string bytes = ttrpc_message(1, 1, std::string(100, 'a')) +
                            ttrpc_message(3, 1, std::string(101, 'b')) + ttrpc_message(5, 1, "c");
  for (const std::size_t step : {1U, 64U, 1000U}) {
    const std::vector<Message> got = cut(bytes, step, 100);
    ASSERT_EQ(got.size(), 3U);
    EXPECT_FALSE(got[0].oversized());
    EXPECT_TRUE(got[1].oversized());
    EXPECT_EQ(got[1].announced, 101U);
    EXPECT_EQ(got[1].data, "");
    EXPECT_EQ(got[2].data, "c");
  }
}

TEST(Ttrpc, Check22NeverMoreThanFourMebibytes) {
  for (const std::size_t payload : {std::size_t{0}, std::size_t{1}, std::size_t{127}, std::size_t{128},
                                    std::size_t{16383}, std::size_t{16384}, std::size_t{4194299}}) {
    SCOPED_TRACE(payload);
    const std::string message = encode_response(1, std::string(payload, 'x'));
    EXPECT_EQ(message.size(), 10 + response_size(payload));
    EXPECT_LE(message.size(), 10 + kMaxSendData);
    EXPECT_EQ(parse_response(std::string_view(message).substr(10))->payload.size(), payload);
  }
  const std::string refused = encode_response(1, std::string(4194300, 'x'));
  const Result<Response> response = parse_response(std::string_view(refused).substr(10));
  EXPECT_EQ(response->code, 8);
  EXPECT_EQ(response->text, "message length 4194305 exceed maximum message size of 4194304");
  EXPECT_FALSE(encode_request(1, Request{"s", "m", std::string(kMaxSendData, 'x'), 0}).ok());
}

TEST(Ttrpc, Check48TextIsRepaired) {
  struct Case {
    const char* about;
    std::string in;
    std::string out;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"plain", "CPU 3", "CPU 3"},
           {"two, three and four bytes", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
            "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
           {"a lone byte",
            "a\xff"
            "b",
            "a?b"},
           {"cut short", "a\xe2\x82", "a??"},
           {"overlong", "\xc0\xaf", "??"},
           {"overlong of three", "\xe0\x80\x80", "???"},
           {"a surrogate", "\xed\xa0\x80", "???"},
           {"above the last character", "\xf4\x90\x80\x80", "????"},
       }) {
    SCOPED_TRACE(c.about);
    EXPECT_EQ(valid_utf8(c.in), c.out);
    EXPECT_EQ(is_utf8(c.in), c.in == c.out);
    const std::string message = encode_error(1, Code::kInternal, c.in);
    EXPECT_EQ(parse_response(std::string_view(message).substr(10))->text, c.out);
  }
  EXPECT_LT(encode_error(1, Code::kInternal, std::string(1 << 20, 'x')).size(), 5000U);
}

}  // namespace
}  // namespace dracpu::nri
