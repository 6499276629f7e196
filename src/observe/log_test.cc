// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "observe/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

#include "base/strings.h"

namespace dracpu::observe {
namespace {

using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class LogTest : public ::testing::Test {
 protected:
  void TearDown() override {
    set_log_level(0);
    set_log_format(LogFormat::kText);
    EXPECT_TRUE(set_log_modules("").ok());
  }
};

template <typename F>
std::string captured(F&& f) {
  ::testing::internal::CaptureStderr();
  f();
  return ::testing::internal::GetCapturedStderr();
}

TEST_F(LogTest, TextIsKlogs) {
  const std::string line = captured([] {
    log_info(0, "Claim prepared", {{"opID", "7f3a91c2"}, {"cpus", 4}, {"ok", true}});
  });
  EXPECT_THAT(line, ContainsRegex("^I[01][0-9][0-3][0-9] [0-9][0-9]:[0-9][0-9]:[0-9][0-9][.][0-9]+ +[0-9]+ "
                                  "log_test.cc:[0-9]+] "));
  EXPECT_EQ(line.find(']'), line.find("] \"")) << line;
  EXPECT_THAT(line, EndsWith("] \"Claim prepared\" opID=\"7f3a91c2\" cpus=4 ok=true\n"));
  // Severity, date, space, time with six digits, space, id in seven columns, space.
  ASSERT_GT(line.size(), 30U);
  EXPECT_EQ(line[5], ' ');
  EXPECT_EQ(line[14], '.');
  EXPECT_EQ(line[21], ' ');
}

TEST_F(LogTest, ErrorsAndWarningsAreAlwaysShown) {
  set_log_level(-1);
  EXPECT_EQ(captured([] { log_info(0, "hidden"); }), "");
  EXPECT_THAT(captured([] {
                log_warning("Pool is small", {{"cpus", "3"}});
              }),
              ::testing::AllOf(StartsWith("W"), EndsWith("] \"Pool is small\" cpus=\"3\"\n")));
  EXPECT_THAT(
      captured([] {
        log_error("Cannot bind", Error{Errc::kUnavailable, "port 8080: in use"}, {{"try", 2}});
      }),
      ::testing::AllOf(StartsWith("E"), EndsWith("] \"Cannot bind\" err=\"port 8080: in use\" try=2\n")));
}

TEST_F(LogTest, LevelsDecideWhatIsShown) {
  for (const int level : {0, 2, 4, 6}) {
    set_log_level(level);
    for (const int line : {0, 2, 4, 6, 7}) {
      SCOPED_TRACE(fmt::format("level {}, line {}", level, line));
      EXPECT_EQ(log_enabled(line), line <= level);
      EXPECT_EQ(captured([&] { log_info(line, "x"); }).empty(), line > level);
    }
  }
}

TEST_F(LogTest, ModuleRulesRaiseOneFile) {
  ASSERT_TRUE(set_log_modules("other=9,log_t*=4").ok());
  EXPECT_TRUE(log_enabled(4)) << "may be written";
  EXPECT_NE(captured([] { log_info(4, "x"); }), "");
  EXPECT_EQ(captured([] { log_info(5, "x"); }), "");
  ASSERT_TRUE(set_log_modules("lo?_test=2,log_test=6").ok());
  EXPECT_EQ(captured([] { log_info(3, "x"); }), "") << "the first match counts";
  ASSERT_TRUE(set_log_modules("test=6").ok());
  EXPECT_EQ(captured([] { log_info(3, "x"); }), "");
  for (const char* bad : {"x", "=3", "x=", "x=-1", "x=y", "a=1,b", "x=1 "}) {
    SCOPED_TRACE(bad);
    const Status s = set_log_modules(bad);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, Errc::kInvalidInput);
  }
}

TEST_F(LogTest, JsonIsOneObjectALine) {
  set_log_format(LogFormat::kJson);
  set_log_level(2);
  const std::string info = captured([] {
    log_info(2, "Claim \"a\"\nprepared", {{"n", 1.5}, {"yes", true}, {"text", "true"}, {"path", "C:\\x"}});
  });
  EXPECT_THAT(info,
              ContainsRegex("^.\"ts\":[0-9]+[.][0-9]+,\"caller\":\"log_test.cc:[0-9]+\",\"level\":\"info\","
                            "\"v\":2,\"msg\":"));
  EXPECT_THAT(info, EndsWith("\"msg\":\"Claim \\\"a\\\"\\nprepared\",\"n\":1.5,\"yes\":true,"
                             "\"text\":\"true\",\"path\":\"C:\\\\x\"}\n"));
  EXPECT_THAT(captured([] {
                log_error("e", Error{Errc::kInternal, "why"});
              }),
              HasSubstr("\"level\":\"error\",\"msg\":\"e\",\"err\":\"why\"}"));
  EXPECT_THAT(captured([] {
                log_warning("w", {{"x", std::numeric_limits<double>::infinity()}});
              }),
              EndsWith("\"msg\":\"w\",\"x\":\"inf\"}\n"));
}

TEST_F(LogTest, NoValueBeginsASecondLine) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    set_log_format(format);
    std::string every;
    for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
    const std::string out = captured([&] { log_info(0, every, {{every, every}}); });
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
    for (std::size_t i = 0; i + 1 < out.size(); ++i) {
      EXPECT_GE(static_cast<unsigned char>(out[i]), 0x20U) << i;
    }
  }
}

TEST_F(LogTest, LinesOfManyThreadsStayWhole) {
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  const std::string out = captured([] {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < kLines; ++i) {
          log_info(0, "line", {{"thread", t}, {"text", std::string(100, 'x')}});
          if (i % 10 == 0) set_log_level(i % 3);
        }
      });
    }
  });
  std::size_t whole = 0;
  const std::string end = fmt::format("text=\"{}\"", std::string(100, 'x'));
  for (const std::string_view line : split(out, '\n')) whole += line.ends_with(end) ? 1 : 0;
  EXPECT_EQ(whole, static_cast<std::size_t>(kThreads * kLines));
}

TEST_F(LogTest, OpIdsAreEightHexDigits) {
  const std::string id = new_op_id();
  EXPECT_EQ(id.size(), 8U);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(id, new_op_id());
}

}  // namespace
}  // namespace dracpu::observe
