// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/socket_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <fstream>

#include "base/strings.h"
#include "base/unique_fd.h"

namespace dracpu::kubelet {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

UniqueFd listen_at(const fs::path& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.native().size());
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(::listen(fd.get(), 4), 0);
  return fd;
}

class SocketFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("dracpu-socket-test-" + random_hex(6));
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  fs::path final_path() const { return dir_ / "x.sock"; }
  fs::path dir_;
};

TEST_F(SocketFileTest, GetsItsNameByRenameAndKeepsAnswering) {
  SocketFile file(final_path(), ".x.new");
  EXPECT_FALSE(file.still_ours());
  const UniqueFd fd = listen_at(file.hidden_path());
  ASSERT_TRUE(file.publish().ok());
  EXPECT_TRUE(file.still_ours());
  EXPECT_FALSE(fs::exists(file.hidden_path()));
  EXPECT_EQ(fs::status(final_path()).permissions(), fs::perms{0600});
  const Status s = check_nobody_listens(final_path());
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Errc::kConflict);
  EXPECT_THAT(s.error().text,
              HasSubstr(fmt::format("\"{}\" (process {})", final_path().string(), ::getpid())));
  file.remove();
  EXPECT_FALSE(fs::exists(final_path()));
}

TEST_F(SocketFileTest, TakesThePlaceOfWhateverWasThere) {
  { const UniqueFd crashed = listen_at(final_path()); }
  EXPECT_TRUE(check_nobody_listens(final_path()).ok()) << "nobody behind it";
  SocketFile file(final_path(), ".x.new");
  std::ofstream(file.hidden_path()) << "left behind";
  ASSERT_TRUE(file.clear_hidden().ok());
  ASSERT_TRUE(file.clear_hidden().ok());
  const UniqueFd fd = listen_at(file.hidden_path());
  ASSERT_TRUE(file.publish().ok());
  EXPECT_TRUE(file.still_ours());
}

TEST_F(SocketFileTest, LeavesAnothersSocketAlone) {
  SocketFile file(final_path(), ".x.new");
  const UniqueFd fd = listen_at(file.hidden_path());
  ASSERT_TRUE(file.publish().ok());
  fs::remove(final_path());
  EXPECT_FALSE(file.still_ours());
  const UniqueFd other = listen_at(final_path());
  EXPECT_FALSE(file.still_ours());
  file.remove();
  EXPECT_TRUE(fs::exists(final_path()));
}

TEST_F(SocketFileTest, AFolderInTheWayIsAnError) {
  fs::create_directories(final_path() / "full");
  SocketFile file(final_path(), ".x.new");
  const UniqueFd fd = listen_at(file.hidden_path());
  const Status s = file.publish();
  ASSERT_FALSE(s.ok());
  EXPECT_THAT(s.error().text, HasSubstr(final_path().string()));
  EXPECT_FALSE(file.still_ours());
  EXPECT_FALSE(fs::exists(file.hidden_path()));
}

TEST_F(SocketFileTest, NobodyListensWhereNothingIs) {
  EXPECT_TRUE(check_nobody_listens(final_path()).ok());
  EXPECT_TRUE(check_nobody_listens("/" + std::string(200, 'x')).ok());
  std::ofstream(final_path()) << "a file";
  EXPECT_TRUE(check_nobody_listens(final_path()).ok());
}

TEST_F(SocketFileTest, ASlowListenerIsAListener) {
  const UniqueFd fd = listen_at(final_path());
  ASSERT_EQ(::listen(fd.get(), 0), 0);
  std::vector<Status> answers;
  for (int i = 0; i < 3; ++i) answers.push_back(check_nobody_listens(final_path()));
  for (const Status& s : answers) EXPECT_FALSE(s.ok());
}

TEST_F(SocketFileTest, FoldersAreMadeOnce) {
  const mode_t old_umask = ::umask(0077);
  ASSERT_TRUE(ensure_folder(dir_ / "a", 0755).ok());
  ::umask(old_umask);
  EXPECT_EQ(fs::status(dir_ / "a").permissions(), fs::perms{0755});
  ASSERT_TRUE(ensure_folder(dir_ / "a", 0700).ok());
  EXPECT_EQ(fs::status(dir_ / "a").permissions(), fs::perms{0755}) << "not ours to change";
  EXPECT_EQ(ensure_folder(dir_ / "b" / "c", 0755).error().code, Errc::kNotFound);
  std::ofstream(dir_ / "f") << "a file";
  const Status s = ensure_folder(dir_ / "f", 0755);
  ASSERT_FALSE(s.ok());
  EXPECT_THAT(s.error().text, HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace dracpu::kubelet
