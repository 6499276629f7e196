// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/guard.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <system_error>
#include <utility>

#include "base/file_id.h"

namespace dracpu::agent {
namespace {

bool same_file(int fd, const std::filesystem::path& path) {
  struct stat held {};
  struct stat there {};
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &there) == 0 && FileId(held) == FileId(there);
}

Error failed(std::string_view step, const std::filesystem::path& path, int err) {
  const std::string_view advice =
      err == EROFS || err == EACCES || err == EPERM
          ? "; the driver needs to write there: mount the folder read-write, or set runtime.cdiDir"
          : "";
  return make_error(Errc::kUnavailable, "{} \"{}\": {}{}", step, path.string(), errno_text(err), advice);
}

Result<UniqueFd> open_lock(const std::filesystem::path& path) {
  std::error_code ec;
  std::filesystem::create_directories(path.parent_path(), ec);
  if (ec) return failed("make folder for the lock", path.parent_path(), ec.value());
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return failed("open lock", path, errno);
  struct statfs where {};
  if (::fstatfs(fd.get(), &where) != 0) return failed("look at the file system of lock", path, errno);
  if (const std::string_view name = network_file_system(static_cast<std::uint64_t>(where.f_type));
      !name.empty()) {
    return make_error(Errc::kUnavailable,
                      "lock \"{}\" lies on a network file system ({}), where a lock does not prove that no "
                      "other driver runs; keep the folder on a local disk or tmpfs, or set runtime.cdiDir",
                      path.string(), name);
  }
  return fd;
}

void ignore_signal(int /*number*/) {}

}  // namespace

std::string_view network_file_system(std::uint64_t type) {
  struct Known {
    std::uint64_t type;
    std::string_view name;
  };
  // linux/magic.h, and statfs(2) for those that it lacks.
  static constexpr std::array kKnown = {
      Known{NFS_SUPER_MAGIC, "NFS"},  Known{SMB_SUPER_MAGIC, "SMB"},   Known{CIFS_SUPER_MAGIC, "CIFS"},
      Known{SMB2_SUPER_MAGIC, "SMB"}, Known{AFS_SUPER_MAGIC, "AFS"},   Known{CEPH_SUPER_MAGIC, "Ceph"},
      Known{V9FS_MAGIC, "9P"},        Known{CODA_SUPER_MAGIC, "Coda"}, Known{OCFS2_SUPER_MAGIC, "OCFS2"},
      Known{0x01161970, "GFS2"},      Known{0x0BD00BD0, "Lustre"},     Known{FUSE_SUPER_MAGIC, "FUSE"},
  };
  for (const Known& k : kKnown) {
    if (k.type == (type & 0xffffffffU)) return k.name;
  }
  return {};
}

Result<bool> Guard::try_take() {
  constexpr int kTries = 10;  // each try means that somebody replaced the file in between
  for (int i = 0; i < kTries; ++i) {
    Result<UniqueFd> fd = open_lock(path_);
    if (!fd.ok()) return std::move(fd).error();
    if (::flock(fd->get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return false;
      if (errno == EINTR) continue;
      return failed("lock", path_, errno);
    }
    if (same_file(fd->get(), path_)) {
      fd_ = *std::move(fd);
      return true;
    }
  }
  return make_error(Errc::kUnavailable, "lock \"{}\": the file is replaced again and again", path_.string());
}

Result<bool> Guard::take(LockWait& wait) {
  if (!wait.held_.ok()) return wait.held_.error();
  UniqueFd fd = std::move(*wait.held_);
  if (!fd.valid() || !same_file(fd.get(), path_)) return false;
  fd_ = std::move(fd);
  return true;
}

bool Guard::still_ours() const { return fd_.valid() && same_file(fd_.get(), path_); }

LockWait::LockWait(const Guard& guard, std::function<void()> done) : tell_(std::move(done)) {
  struct sigaction action {};
  action.sa_handler = ignore_signal;  // without SA_RESTART, so that it ends flock()
  ::sigaction(SIGUSR1, &action, nullptr);
  thread_ = std::thread([this, path = guard.path()] {
    wait(path);
    done_ = true;
    tell_();
    ended_ = true;
  });
}

LockWait::~LockWait() {
  stop_ = true;
  // Again until it has ended: the first signal may come just before the call that it is to interrupt.
  while (!ended_) {
    ::pthread_kill(thread_.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  thread_.join();
}

void LockWait::wait(const std::filesystem::path& path) {
  Result<UniqueFd> fd = open_lock(path);
  while (fd.ok() && !stop_ && ::flock(fd->get(), LOCK_EX) != 0) {
    if (errno != EINTR) {
      held_ = failed("lock", path, errno);
      return;
    }
  }
  held_ = std::move(fd);
}

}  // namespace dracpu::agent
