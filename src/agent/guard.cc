// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/guard.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace dracpu::agent {
namespace {

bool same_file(int fd, const std::filesystem::path& path) {
  struct stat held {};
  struct stat there {};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &there) == 0 && held.st_ino == there.st_ino &&
         held.st_dev == there.st_dev;
}

}  // namespace

Result<bool> Guard::try_take() {
  std::error_code ec;
  std::filesystem::create_directories(path_.parent_path(), ec);
  if (ec) {
    return make_error(Errc::kUnavailable, "make folder \"{}\" for the lock: {}", path_.parent_path().string(),
                      ec.message());
  }
  constexpr int kTries = 10;  // each try means that somebody replaced the file in between
  for (int i = 0; i < kTries; ++i) {
    UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd.valid())
      return make_error(Errc::kUnavailable, "open lock \"{}\": {}", path_.string(), errno_text(errno));
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return false;
      if (errno == EINTR) continue;
      return make_error(Errc::kUnavailable, "lock \"{}\": {}", path_.string(), errno_text(errno));
    }
    if (same_file(fd.get(), path_)) {
      fd_ = std::move(fd);
      return true;
    }
  }
  return make_error(Errc::kUnavailable, "lock \"{}\": the file is replaced again and again", path_.string());
}

bool Guard::still_ours() const { return fd_.valid() && same_file(fd_.get(), path_); }

}  // namespace dracpu::agent
