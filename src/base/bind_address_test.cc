// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/bind_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dracpu {
namespace {

using ::testing::HasSubstr;

TEST(BindAddress, Accepts) {
  struct Case {
    const char* text;
    const char* host;
    std::uint16_t port;
    const char* path;
  };
  for (const Case& c : std::initializer_list<Case>{{":8080", "", 8080, ""},
                                                   {":0", "", 0, ""},
                                                   {"127.0.0.1:80", "127.0.0.1", 80, ""},
                                                   {"0.0.0.0:65535", "0.0.0.0", 65535, ""},
                                                   {"[::1]:8080", "::1", 8080, ""},
                                                   {"[::]:1", "::", 1, ""},
                                                   {"localhost:8080", "127.0.0.1", 8080, ""},
                                                   {"unix:/run/a.sock", "", 0, "/run/a.sock"}}) {
    SCOPED_TRACE(c.text);
    const Result<BindAddress> got = parse_bind_address(c.text);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(got->host, c.host);
    EXPECT_EQ(got->port, c.port);
    EXPECT_EQ(got->unix_path, c.path);
  }
}

TEST(BindAddress, Refuses) {
  using namespace std::string_view_literals;
  const std::string long_path = "unix:/" + std::string(107, 'x');
  for (const std::string_view text : {""sv,
                                      "8080"sv,
                                      ":"sv,
                                      ":http"sv,
                                      ":65536"sv,
                                      ":-1"sv,
                                      ": 80"sv,
                                      "127.0.0.1"sv,
                                      "127.0.0.1:"sv,
                                      "256.0.0.1:80"sv,
                                      "127.1:80"sv,
                                      "::1:80"sv,
                                      "[::1:80"sv,
                                      "[127.0.0.1]:80"sv,
                                      "[]:80"sv,
                                      "[::1]80"sv,
                                      "example.com:80"sv,
                                      "http://127.0.0.1:80"sv,
                                      "127.0.0.1:80/"sv,
                                      "unix:"sv,
                                      "unix:relative"sv,
                                      "unix:/run/"sv,
                                      ":80\0"sv,
                                      std::string_view(long_path)}) {
    SCOPED_TRACE(text);
    const Result<BindAddress> got = parse_bind_address(text);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::kInvalidInput);
    EXPECT_THAT(got.error().text, HasSubstr("use \":8080\""));
  }
}

TEST(BindAddress, Collide) {
  struct Case {
    const char* a;
    const char* b;
    bool both;
  };
  for (const Case& c : std::initializer_list<Case>{{":8080", ":8080", true},
                                                   {":8080", ":8081", false},
                                                   {":8080", "127.0.0.1:8080", true},
                                                   {"[::]:8080", "10.0.0.1:8080", true},
                                                   {"0.0.0.0:8080", "[::1]:8080", true},
                                                   {"127.0.0.1:8080", "10.0.0.1:8080", false},
                                                   {"localhost:8080", "127.0.0.1:8080", true},
                                                   {":0", ":0", false},
                                                   {"unix:/a", "unix:/a", true},
                                                   {"unix:/a", "unix:/b", false},
                                                   {"unix:/a", ":8080", false}}) {
    SCOPED_TRACE(fmt::format("{} {}", c.a, c.b));
    const BindAddress a = parse_bind_address(c.a).value();
    const BindAddress b = parse_bind_address(c.b).value();
    EXPECT_EQ(collide(a, b), c.both);
    EXPECT_EQ(collide(b, a), c.both);
  }
}

}  // namespace
}  // namespace dracpu
