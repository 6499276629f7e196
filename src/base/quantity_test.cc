// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/quantity.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace dracpu {
namespace {

TEST(Quantity, Accepts) {
  struct Case {
    const char* text;
    std::optional<std::int64_t> whole;  // empty: has a fraction
    const char* canonical;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"0", 0, "0"},
           {"-0", 0, "0"},
           {"2048", 2048, "2048"},
           {"2Ki", 2048, "2Ki"},
           {"2e3", 2000, "2e3"},
           {"2E3", 2000, "2e3"},
           {"2e+3", 2000, "2e3"},
           {"20e2", 2000, "2e3"},
           {"5000e-3", 5, "5"},
           {"1e-3", std::nullopt, "1e-3"},
           {"1500m", std::nullopt, "1500m"},
           {"1.5", std::nullopt, "1500m"},
           {"0.5", std::nullopt, "500m"},
           {".5", std::nullopt, "500m"},
           {"5.", 5, "5"},
           {"4000m", 4, "4"},
           {"1k", 1000, "1k"},
           {"1000", 1000, "1k"},
           {"1024", 1024, "1024"},
           {"1024Ki", 1 << 20, "1Mi"},
           {"1.5Gi", 1610612736, "1536Mi"},
           {"0.5Ki", 512, "512"},
           {"+7", 7, "7"},
           {"-3", -3, "-3"},
           {"-2Ki", -2048, "-2Ki"},
           {"-1500m", std::nullopt, "-1500m"},
           {"1E", 1'000'000'000'000'000'000, "1E"},
           {"9223372036854775807", 9223372036854775807, "9223372036854775807"},
           {"7Ei", 7LL << 60, "7Ei"},
           {"1n", std::nullopt, "1n"},
           {"1u", std::nullopt, "1u"},
           {"0.1n", std::nullopt, "1n"},  // finer than nano rounds up
           {"0.1Ki", 103, "103"},         // binary fractions round up
           {"0.00000000000000000000001Ki", 1, "1"},
           {"000000000000000000000000000000000012", 12, "12"},
           {"0e999999", 0, "0"},
           {"1e-999999", std::nullopt, "1e-9"},
       }) {
    SCOPED_TRACE(c.text);
    const Result<Quantity> got = Quantity::parse(c.text);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(got->to_int64(), c.whole);
    EXPECT_EQ(got->is_whole(), c.whole.has_value());
    EXPECT_EQ(got->to_string(), c.canonical);
    const Result<Quantity> again = Quantity::parse(got->to_string());
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *got);
  }
}

TEST(Quantity, Refuses) {
  for (const char* text :
       {"",     "-",   "+",    ".",     "-.",  "x",     "1x",  "1ki",   "1KI",   "1 ",
        " 1",   "1 k", "1..2", "1.2.3", "e3",  "1e",    "1e+", "1e+-3", "1e--3", "1e3k",
        "1Ki3", "1kk", "0x10", "--1",   "+-1", "1,000", "nan", "inf",   "1K",    "1e99999999999"}) {
    SCOPED_TRACE(text);
    const Result<Quantity> got = Quantity::parse(text);
    ASSERT_FALSE(got.ok()) << got->to_string();
    EXPECT_EQ(got.error().code, Errc::kInvalidInput);
  }
  EXPECT_FALSE(Quantity::parse(std::string(1000, '1')).ok());
  for (const char* text : {"8Ei", "10E", "9223372036854775808", "-9223372036854775808", "1e40",
                           "99999999999999999999999999999999Ki", "9223372036854775808Ki"}) {
    const Result<Quantity> got = Quantity::parse(text);
    ASSERT_FALSE(got.ok()) << got->to_string();
    EXPECT_EQ(got.error().code, Errc::kUnsupported) << text;
  }
}

TEST(Quantity, BytesHaveBinarySuffixes) {
  for (const auto& [bytes, text] :
       std::initializer_list<std::pair<std::int64_t, const char*>>{{0, "0"},
                                                                   {1000, "1000"},
                                                                   {536870912, "512Mi"},
                                                                   {33332322304, "32551096Ki"},
                                                                   {8589934592, "8Gi"},
                                                                   {1000000000, "1000000000"}}) {
    EXPECT_EQ(Quantity::of_bytes(bytes).to_string(), text);
  }
}

TEST(Quantity, ComparesByValue) {
  EXPECT_EQ(*Quantity::parse("1000"), *Quantity::parse("1k"));
  EXPECT_EQ(*Quantity::parse("2Ki"), Quantity(2048));
  EXPECT_LT(*Quantity::parse("1500m"), Quantity(2));
  EXPECT_GT(Quantity(0), *Quantity::parse("-1m"));
  EXPECT_TRUE(Quantity::parse("-1m")->is_negative());
}

}  // namespace
}  // namespace dracpu
