// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/beneath.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/strings.h"

namespace dracpu {
namespace {

namespace fs = std::filesystem;

class Beneath : public ::testing::Test {
 protected:
  Beneath() {
    fs::create_directories(dir_ / "root/a/b");
    fs::create_directories(dir_ / "outside");
    for (const char* file : {"root/a/b/file", "outside/file"}) std::ofstream(dir_ / file) << "x";
    fs::create_directory_symlink(dir_ / "outside", dir_ / "root/out");
    fs::create_directory_symlink("b", dir_ / "root/a/inside");
    fs::create_symlink("file", dir_ / "root/a/b/link");
    root_ = UniqueFd(::open((dir_ / "root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  ~Beneath() override { fs::remove_all(dir_); }

  fs::path dir_ = fs::temp_directory_path() / ("dracpu-beneath-" + random_hex(6));
  UniqueFd root_;
};

TEST_F(Beneath, FollowsNoLinkAndStaysInside) {
  struct Case {
    const char* path;
    bool is_good;
    Errc why = Errc::kInvalidInput;
  };
  for (const auto open : {open_beneath, walk_beneath}) {
    for (const Case& c : std::initializer_list<Case>{
             {"a/b/file", true},
             {"a/b/none", false, Errc::kNotFound},
             {"a/b/file/x", false},
             {"../outside/file", false},
             {"a/../../outside/file", false},
             {"out/file", false},
             {"a/inside/file", false},
             {"a/b/link", false},
         }) {
      SCOPED_TRACE(c.path);
      const Result<UniqueFd> got = open(root_.get(), c.path, O_RDONLY);
      EXPECT_EQ(got.ok(), c.is_good);
      if (got.ok()) continue;
      EXPECT_EQ(got.error().code, c.why) << got.error().text;
    }
    EXPECT_TRUE(open(root_.get(), "a/b", O_RDONLY | O_DIRECTORY).ok());
  }
}

TEST_F(Beneath, AnotherFileSystemIsOutside) {
  const UniqueFd top(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const auto open : {open_beneath, walk_beneath}) {
    const Result<UniqueFd> got = open(top.get(), "proc/self/status", O_RDONLY);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::kInvalidInput) << got.error().text;
  }
}

}  // namespace
}  // namespace dracpu
