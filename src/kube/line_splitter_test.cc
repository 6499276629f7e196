// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/line_splitter.h"

#include <gtest/gtest.h>

#include <vector>

namespace dracpu::kube {
namespace {

std::vector<std::string> lines_of(const std::vector<std::string>& pieces, std::size_t limit = 1000) {
  LineSplitter splitter(limit);
  std::vector<std::string> out;
  for (const std::string& piece : pieces) {
    const Status status = splitter.push(piece, [&](std::string_view line) {
      out.emplace_back(line);
      return true;
    });
    if (!status.ok()) out.push_back("error");
  }
  return out;
}

// Checklist 77.
TEST(LineSplitter, DoesNotCareHowReadsFall) {
  using V = std::vector<std::string>;
  EXPECT_EQ(lines_of({"a\nb\nc\n"}), (V{"a", "b", "c"}));
  EXPECT_EQ(lines_of({"a", "b", "\n", "c\nd", "\n"}), (V{"ab", "c", "d"}));
  EXPECT_EQ(lines_of({"a\r", "\nb\r\n"}), (V{"a", "b"}));
  EXPECT_EQ(lines_of({"\n\n", "a\n\n"}), (V{"a"}));
  EXPECT_EQ(lines_of({"a\nrest"}), (V{"a"}));
  EXPECT_EQ(lines_of({}), V{});
  const std::string text = "one\ntwo\n\nthree\n";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(lines_of({text.substr(0, cut), text.substr(cut)}), (V{"one", "two", "three"}));
  }
}

TEST(LineSplitter, StopsAtTheLimit) {
  EXPECT_EQ(lines_of({"12345\n"}, 5), std::vector<std::string>{"12345"});
  EXPECT_EQ(lines_of({"123456\n"}, 5), std::vector<std::string>{"error"});
  EXPECT_EQ(lines_of({"123", "456"}, 5), std::vector<std::string>{"error"});
}

TEST(LineSplitter, StopsWhenTold) {
  LineSplitter splitter(100);
  int calls = 0;
  EXPECT_TRUE(splitter.push("a\nb\nc\n", [&](std::string_view) { return ++calls < 2; }).ok());
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace dracpu::kube
