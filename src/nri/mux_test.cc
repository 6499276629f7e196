// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Numbers in test names are lines of the checklist in spec nri-wire section 7.

#include "nri/mux.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <vector>

#include "nri/fake_runtime.h"

namespace dracpu::nri {
namespace {

using testing::frame;
using testing::from_hex;

std::map<std::uint32_t, std::string> feed_in_steps(std::string_view bytes, std::size_t step) {
  std::map<std::uint32_t, std::string> out;
  FrameParser parser;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    EXPECT_TRUE(
        parser
            .feed(bytes.substr(0, step), [&](std::uint32_t id, std::string_view piece) { out[id] += piece; })
            .ok());
  }
  return out;
}

TEST(Mux, Check04FramesInPiecesOfAnySize) {
  const std::string bytes = frame(1, "hello") + frame(2, std::string(5000, 'x')) + frame(1, " world");
  const std::map<std::uint32_t, std::string> whole = {{1, "hello world"}, {2, std::string(5000, 'x')}};
  for (const std::size_t step : {1U, 2U, 3U, 7U, 8U, 9U, 100U, 100000U}) {
    SCOPED_TRACE(step);
    EXPECT_EQ(feed_in_steps(bytes, step), whole);
  }
}

TEST(Mux, Check07And08OtherIdsAndEmptyFramesAreIgnored) {
  const std::string bytes =
      frame(7, "lost") + frame(1, "") + frame(0, "lost") + frame(0xffffffff, "") + frame(1, "a");
  EXPECT_EQ(feed_in_steps(bytes, 3), (std::map<std::uint32_t, std::string>{{1, "a"}}));
  FrameParser parser;
  EXPECT_TRUE(parser.feed(bytes, [](std::uint32_t, std::string_view) {}).ok());
  EXPECT_EQ(parser.dropped_bytes(), 8U);
}

TEST(Mux, Check09RefusesHugeFramesForGood) {
  struct Case {
    const char* about;
    std::uint32_t length;
    bool good;
  };
  for (const Case& c : std::initializer_list<Case>{{"the limit", 16777226, true},
                                                   {"one more", 16777227, false},
                                                   {"1 GiB", 1U << 30U, false},
                                                   {"all bits", 0xffffffff, false}}) {
    SCOPED_TRACE(c.about);
    FrameParser parser;
    const auto sink = [](std::uint32_t, std::string_view) { ADD_FAILURE(); };
    const Status first = parser.feed(testing::big_endian(1) + testing::big_endian(c.length), sink);
    ASSERT_EQ(first.ok(), c.good);
    if (c.good) continue;
    EXPECT_EQ(first.error().code, Errc::kCorrupt);
    EXPECT_FALSE(parser.feed(frame(1, "a"), sink).ok());
  }
}

TEST(Mux, Check10To12CutsMessagesAsGoDemands) {
  struct Case {
    std::size_t message;
    std::vector<std::size_t> frames;
  };
  for (const Case& c : std::initializer_list<Case>{{10, {10}},
                                                   {110, {110}},
                                                   {4095, {4095}},
                                                   {4096, {4096}},
                                                   {4097, {4096, 1}},
                                                   {8192, {4096, 4096}},
                                                   {8193, {4096, 4097}},
                                                   {3000010, {4096, 2995914}},
                                                   {4194314, {4096, 4190218}}}) {
    SCOPED_TRACE(c.message);
    std::string message(c.message, '\0');
    std::iota(message.begin(), message.end(), '\0');
    std::string expected;
    std::size_t at = 0;
    for (const std::size_t size : c.frames) {
      expected += frame(2, std::string_view(message).substr(at, size));
      at += size;
    }
    EXPECT_TRUE(encode_message(2, message) == expected);
  }
}

TEST(Mux, BigEndian) {
  std::array<char, 4> bytes{};
  put_u32(bytes.data(), 0xa1b2c3d4);
  EXPECT_EQ(std::string(bytes.data(), 4), from_hex("a1 b2 c3 d4"));
  EXPECT_EQ(get_u32(bytes.data()), 0xa1b2c3d4U);
}

}  // namespace
}  // namespace dracpu::nri
