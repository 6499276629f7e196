// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/utf8.h"

#include <gtest/gtest.h>

namespace dracpu::kubelet {
namespace {

TEST(ToUtf8, ReplacesWhatIsNoCharacter) {
  struct Case {
    const char* about;
    std::string_view text;
    const char* out;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"plain", "cpu 3 is taken", "cpu 3 is taken"},
           {"empty", "", ""},
           {"two, three and four bytes", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
            "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
           {"the borders of each length",
            "\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf",
            "\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"},
           {"a stray continuation", "a\x80z", "a?z"},
           {"cut off", "a\xe2\x82", "a??"},
           {"longer than needed", "\xc0\xaf", "??"},
           {"longer than needed, three bytes", "\xe0\x80\xaf", "???"},
           {"a surrogate", "\xed\xa0\x80", "???"},
           {"beyond the last character", "\xf4\x90\x80\x80", "????"},
           {"never a first byte", "\xff\xfe", "??"},
       }) {
    SCOPED_TRACE(c.about);
    EXPECT_EQ(to_utf8(c.text), c.out);
  }
}

TEST(ToUtf8, CutsBetweenCharacters) {
  EXPECT_EQ(to_utf8("abc", 3), "abc");
  EXPECT_EQ(to_utf8("abc", 2), "ab");
  EXPECT_EQ(to_utf8("abc", 0), "");
  EXPECT_EQ(to_utf8("ab\xe2\x82\xac", 5), "ab\xe2\x82\xac");
  EXPECT_EQ(to_utf8("ab\xe2\x82\xac", 4), "ab");
  EXPECT_EQ(to_utf8("ab\xe2\x82\xac", 3), "ab");
}

}  // namespace
}  // namespace dracpu::kubelet
