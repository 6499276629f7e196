// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/escape.h"

#include <gtest/gtest.h>

#include "base/strings.h"

namespace dracpu {
namespace {

TEST(Escape, QuotedAndJson) {
  struct Case {
    const char* about;
    std::string_view in;
    std::string_view quoted;
    std::string_view json;
  };
  using namespace std::string_view_literals;
  for (const Case& c : std::initializer_list<Case>{
           {"empty", "", R"("")", R"("")"},
           {"plain", "abc", R"("abc")", R"("abc")"},
           {"quote and backslash", R"(a"b\c)", R"("a\"b\\c")", R"("a\"b\\c")"},
           {"line ends", "a\r\n\tb", R"("a\r\n\tb")", R"("a\r\n\tb")"},
           {"zero byte", "a\0b"sv, R"("a\x00b")", R"("a\u0000b")"},
           {"terminal escape", "\x1b[31m", R"("\x1b[31m")", R"("\u001b[31m")"},
           {"delete", "\x7f", R"("\x7f")", R"("\u007f")"},
           {"UTF-8 stays", "ü€😀", "\"ü€😀\"", "\"ü€😀\""},
           {"C1 control", "\xc2\x9b", R"("\u009b")", R"("\u009b")"},
           {"line separator", "\xe2\x80\xa8", R"("\u2028")", R"("\u2028")"},
           {"lone continuation", "\x80", R"("\x80")", R"("\ufffd")"},
           {"overlong", "\xc0\xaf", R"("\xc0\xaf")", R"("\ufffd\ufffd")"},
           {"surrogate", "\xed\xa0\x80", R"("\xed\xa0\x80")", R"("\ufffd\ufffd\ufffd")"},
           {"cut short", "a\xe2\x82", R"("a\xe2\x82")", R"("a\ufffd\ufffd")"},
           {"above the last code point", "\xf4\x90\x80\x80", R"("\xf4\x90\x80\x80")",
            R"("\ufffd\ufffd\ufffd\ufffd")"},
       }) {
    SCOPED_TRACE(c.about);
    std::string out;
    append_quoted(out, c.in);
    EXPECT_EQ(out, c.quoted);
    out.clear();
    append_json_string(out, c.in);
    EXPECT_EQ(out, c.json);
  }
}

TEST(Escape, KeysAndHtml) {
  std::string out;
  append_key(out, "claimUID");
  append_key(out, "");
  append_key(out, "a b");
  EXPECT_EQ(out, "claimUID\"\"\"a b\"");
  out.clear();
  append_html(out, "<a href=\"x\">'&'</a>");
  EXPECT_EQ(out, "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
}

TEST(Escape, MessagesAreCutBetweenCharacters) {
  EXPECT_EQ(in_quotes("a\nb"), R"("a\nb")");
  EXPECT_EQ(in_quotes("abcdef", 6), R"("abcdef")");
  EXPECT_EQ(in_quotes("abcdef", 5), "\"abcde\"… (6 bytes)");
  EXPECT_EQ(in_quotes("ab€d", 4), "\"ab\"… (6 bytes)");
  EXPECT_EQ(in_quotes("ab€d", 5), "\"ab€\"… (6 bytes)");
  EXPECT_EQ(in_quotes("\x80\x80\x80\x80", 2), "\"\\x80\\x80\"… (4 bytes)");
}

TEST(Escape, PrintableKeepsLinesAndQuotes) {
  EXPECT_EQ(printable("a \"b\"\n\\c ü€"), "a \"b\"\n\\c ü€");
  EXPECT_EQ(printable("\x1b[31mred\r\a\xff"), R"(\x1b[31mred\r\x07\xff)");
  EXPECT_EQ(printable("abcdef", 4), "abcd… (2 bytes more)");
}

}  // namespace
}  // namespace dracpu
