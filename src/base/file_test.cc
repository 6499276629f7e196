// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "base/unique_fd.h"

namespace dracpu {
namespace {

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("dracpu-file-test-" + random_hex(6));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::filesystem::path dir_;
};

// Fails at the n-th call (0: never) and passes the others on.
class FailingOps final : public FileOps {
 public:
  explicit FailingOps(int at) : at_(at) {}
  Status write_and_sync(const std::filesystem::path& p, std::string_view d, mode_t m) override {
    return due() ? failure() : real_file_ops().write_and_sync(p, d, m);
  }
  Status rename(const std::filesystem::path& a, const std::filesystem::path& b) override {
    return due() ? failure() : real_file_ops().rename(a, b);
  }
  Status remove(const std::filesystem::path& p) override {
    return due() ? failure() : real_file_ops().remove(p);
  }
  Status sync_dir(const std::filesystem::path& d) override {
    return due() ? failure() : real_file_ops().sync_dir(d);
  }

 private:
  bool due() { return ++calls_ == at_; }
  static Status failure() { return make_error(Errc::kUnavailable, "no space left"); }
  int at_;
  int calls_ = 0;
};

TEST_F(FileTest, ReplaceIsOldOrNew) {
  const std::filesystem::path target = dir_ / "x.json";
  ASSERT_TRUE(replace_file(real_file_ops(), target, "old", 0644).ok());
  struct Case {
    const char* about;
    int fail_at;
    const char* content;
  };
  for (const Case& c :
       std::initializer_list<Case>{{"write fails", 1, "old"},
                                   {"rename fails", 2, "old"},
                                   {"directory sync fails: new content, reported", 3, "new"}}) {
    SCOPED_TRACE(c.about);
    ASSERT_TRUE(replace_file(real_file_ops(), target, "old", 0644).ok());
    FailingOps ops(c.fail_at);
    EXPECT_FALSE(replace_file(ops, target, "new", 0644).ok());
    EXPECT_EQ(read_file(target).value(), c.content);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_), {}), 1) << "nothing left beside it";
  }
}

TEST_F(FileTest, ModeIsSetAlsoOnAnExistingFile) {
  const std::filesystem::path target = dir_ / "secret";
  ASSERT_TRUE(replace_file(real_file_ops(), target, "a", 0644).ok());
  ASSERT_TRUE(replace_file(real_file_ops(), target, "b", 0600).ok());
  struct stat st {};
  ASSERT_EQ(::stat(target.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777U, 0600U);
}

TEST_F(FileTest, RemoveOfNothingIsSuccess) {
  EXPECT_TRUE(remove_file(real_file_ops(), dir_ / "nothing").ok());
  FailingOps ops(1);
  EXPECT_FALSE(remove_file(ops, dir_ / "nothing").ok());
}

TEST_F(FileTest, ReadNamesThePathAndTheReason) {
  const Result<std::string> missing = read_file(dir_ / "absent");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, Errc::kNotFound);
  EXPECT_NE(missing.error().text.find("absent"), std::string::npos);
  std::ofstream(dir_ / "long") << std::string(100, 'x');
  EXPECT_EQ(read_file(dir_ / "long", 99).error().code, Errc::kInvalidInput);
  EXPECT_EQ(read_file(dir_ / "long", 100)->size(), 100U);
  EXPECT_FALSE(read_file(dir_).ok()) << "a directory is not a file";
}

TEST(Strings, TrimSplitNumbers) {
  EXPECT_EQ(trim("  a b\n"), "a b");
  EXPECT_EQ(trim(" \n\t"), "");
  EXPECT_EQ(split("a,,b", ',').size(), 3U);
  EXPECT_EQ(split("", ',').size(), 1U);
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_FALSE(parse_number<int>("12x").has_value());
  EXPECT_FALSE(parse_number<std::uint8_t>("256").has_value());
  EXPECT_FALSE(parse_number<int>("").has_value());
  EXPECT_EQ(random_hex(4).size(), 8U);
  EXPECT_NE(random_hex(8), random_hex(8));
}

// A FIFO would keep the reader, and with it the whole start, until somebody writes.
TEST_F(FileTest, ReadingDoesNotWaitForAFifo) {
  const std::filesystem::path path = dir_ / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const Result<std::string> got = read_file(path);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, Errc::kUnavailable);
  EXPECT_NE(got.error().text.find("is a FIFO"), std::string::npos) << got.error().text;
}

// What a shell hands over with <(command) is a pipe, and meant.
TEST(FileTestOfDescriptors, ReadsAGivenPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const UniqueFd reading(ends[0]);
  std::jthread writer([end = ends[1]] {
    const UniqueFd writing(end);
    EXPECT_EQ(::write(writing.get(), "late", 4), 4);
  });
  EXPECT_EQ(read_file(fmt::format("/dev/fd/{}", reading.get())).value(), "late");
}

}  // namespace
}  // namespace dracpu
