// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "store/state_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "base/strings.h"

namespace dracpu::store {
namespace {

class StateFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("dracpu-state-test-" + random_hex(6));
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::filesystem::path dir_;
};

TEST_F(StateFileTest, WhatWasSavedIsLoaded) {
  StateFile file(dir_ / "deep" / "state.json");
  EXPECT_EQ(file.load().error().code, Errc::kNotFound);
  for (const std::string& payload :
       {std::string(), std::string("{}"), std::string("a\0b\n", 4), std::string(100000, 'x')}) {
    ASSERT_TRUE(file.save(payload).ok());
    ASSERT_TRUE(file.load().ok());
    EXPECT_EQ(*file.load(), payload);
  }
  struct stat st {};
  ASSERT_EQ(::stat(file.path().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777U, 0600U);
}

TEST_F(StateFileTest, EveryCutAndEveryFlippedByteIsNoticed) {
  const std::string good = seal("{\"claims\":[]}");
  ASSERT_TRUE(unseal(good).ok());
  for (std::size_t n = 0; n < good.size(); ++n) {
    EXPECT_FALSE(unseal(std::string_view(good).substr(0, n)).ok()) << "cut at " << n;
    std::string flipped = good;
    flipped[n] = static_cast<char>(flipped[n] ^ 1);
    const Result<Unsealed> got = unseal(flipped);
    // The minor version may differ: a later release of the same format is read.
    if (n != std::string_view("dracpu-state 1.").size()) {
      EXPECT_FALSE(got.ok()) << "flipped at " << n;
    }
  }
  EXPECT_FALSE(unseal(good + "x").ok());
  EXPECT_FALSE(unseal("").ok());
}

TEST_F(StateFileTest, AnotherMajorVersionIsToldApartFromDamage) {
  std::string other = seal("{}");
  other.replace(other.find("1.0"), 3, "2.0");
  EXPECT_EQ(unseal(other).error().code, Errc::kUnsupported);
}

TEST_F(StateFileTest, ALaterMinorVersionIsReadAndKept) {
  StateFile file(dir_ / "state.json");
  ASSERT_TRUE(file.save("old").ok());
  EXPECT_EQ(file.version(), Version{});
  std::ofstream(file.path(), std::ios::trunc) << seal("new", {1, 7});
  ASSERT_TRUE(file.load().ok());
  EXPECT_EQ(*file.load(), "new");
  ASSERT_TRUE(file.save("newer").ok());
  EXPECT_EQ(unseal(*read_file(file.path()))->version, (Version{1, 7}));
  for (const char* bad : {"dracpu-state 1.x", "dracpu-state 1", "dracpu-state 1.-2", "dracpu-state 1.2.3"}) {
    std::string text = seal("x");
    text.replace(0, text.find(' ', 13), bad);
    EXPECT_EQ(unseal(text).error().code, Errc::kCorrupt) << bad;
  }
}

TEST_F(StateFileTest, UnreadableFileIsKeptAside) {
  StateFile file(dir_ / "state.json");
  ASSERT_TRUE(file.save("x").ok());
  std::ofstream(file.path()) << "garbage";
  const Result<std::string> got = file.load();
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, Errc::kCorrupt);
  EXPECT_NE(got.error().text.find("state.json"), std::string::npos);
  const Result<std::filesystem::path> aside = file.set_aside();
  ASSERT_TRUE(aside.ok());
  EXPECT_EQ(*read_file(*aside), "garbage");
  EXPECT_EQ(file.load().error().code, Errc::kNotFound);
}

TEST_F(StateFileTest, AFolderThatCannotBeWrittenIsToldBeforehand) {
  EXPECT_TRUE(StateFile(dir_ / "not/yet/there/state.json").can_save().ok());
  const Status s = StateFile("/proc/sys/state.json").can_save();  // read-only for root too
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Errc::kUnavailable);
  EXPECT_NE(s.error().text.find("folder \"/proc/sys\""), std::string::npos) << s.error().text;
}

TEST_F(StateFileTest, ASecondUnreadableFileDoesNotReplaceTheFirst) {
  StateFile file(dir_ / "state.json");
  ASSERT_TRUE(file.save("x").ok());
  std::vector<std::filesystem::path> kept;
  for (const char* text : {"one", "two", "three"}) {  // well within a second, the unit of the names
    std::ofstream(file.path()) << text;
    const Result<std::filesystem::path> aside = file.set_aside();
    ASSERT_TRUE(aside.ok());
    kept.push_back(*aside);
  }
  EXPECT_EQ(*read_file(kept[0]), "one");
  EXPECT_EQ(*read_file(kept[1]), "two");
  EXPECT_EQ(*read_file(kept[2]), "three");
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(file.kept_aside(), kept);
}

}  // namespace
}  // namespace dracpu::store
