// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "base/unique_fd.h"

namespace dracpu {
namespace {

Error file_error(std::string_view step, const std::filesystem::path& path, int err) {
  return make_error(err == ENOENT ? Errc::kNotFound : Errc::kUnavailable, "{} \"{}\": {}", step,
                    path.string(), errno_text(err));
}

Result<UniqueFd> open_file(const std::filesystem::path& path, int flags, mode_t mode = 0) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return file_error("open", path, errno);
  return UniqueFd(fd);
}

// Opened by whoever started this process, who may mean a pipe.
bool is_given_descriptor(const std::filesystem::path& path) {
  const std::string& name = path.native();
  return name == "/dev/stdin" || name.starts_with("/dev/fd/") || name.starts_with("/proc/self/fd/");
}

class RealFileOps final : public FileOps {
 public:
  explicit RealFileOps(bool is_synced) : is_synced_(is_synced) {}

  Status write_and_sync(const std::filesystem::path& path, std::string_view data, mode_t mode) override {
    Result<UniqueFd> fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    if (!fd.ok()) return std::move(fd).error();
    if (::fchmod(fd->get(), mode) != 0) return file_error("set mode of", path, errno);  // umask, old file
    while (!data.empty()) {
      const ssize_t n = ::write(fd->get(), data.data(), data.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return file_error("write", path, errno);
      data.remove_prefix(static_cast<std::size_t>(n));
    }
    if (is_synced_ && ::fsync(fd->get()) != 0) return file_error("sync", path, errno);
    return ok_status();
  }

  Status rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    if (std::rename(from.c_str(), to.c_str()) != 0) return file_error("rename to", to, errno);
    return ok_status();
  }

  Status remove(const std::filesystem::path& path) override {
    if (::unlink(path.c_str()) != 0) return file_error("remove", path, errno);
    return ok_status();
  }

  Status sync_dir(const std::filesystem::path& dir) override {
    if (!is_synced_) return ok_status();
    Result<UniqueFd> fd = open_file(dir, O_RDONLY | O_DIRECTORY);
    if (!fd.ok()) return std::move(fd).error();
    if (::fsync(fd->get()) != 0) return file_error("sync", dir, errno);
    return ok_status();
  }

 private:
  bool is_synced_;
};

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, std::size_t limit) {
  const bool is_given = is_given_descriptor(path);
  Result<UniqueFd> fd = open_file(path, is_given ? O_RDONLY : O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!fd.ok()) return std::move(fd).error();
  struct stat st {};
  if (!is_given && ::fstat(fd->get(), &st) == 0 && S_ISFIFO(st.st_mode))
    return make_error(Errc::kUnavailable, "read \"{}\": it is a FIFO, not a regular file", path.string());
  std::string out;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t n = ::read(fd->get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error("read", path, errno);
    if (n == 0) return out;
    out.append(buffer.data(), static_cast<std::size_t>(n));
    if (out.size() > limit) {
      return make_error(Errc::kInvalidInput, "read \"{}\": longer than {} bytes", path.string(), limit);
    }
  }
}

FileOps& real_file_ops() {
  static RealFileOps ops(true);
  return ops;
}

FileOps& unsynced_file_ops() {
  static RealFileOps ops(false);
  return ops;
}

Status replace_file(FileOps& ops, const std::filesystem::path& target, std::string_view data, mode_t mode) {
  const std::filesystem::path beside = target.parent_path() / ("." + target.filename().string() + ".new");
  if (Status s = ops.write_and_sync(beside, data, mode); !s.ok()) {
    (void)ops.remove(beside);
    return s;
  }
  if (Status s = ops.rename(beside, target); !s.ok()) {
    (void)ops.remove(beside);
    return s;
  }
  return ops.sync_dir(target.parent_path());
}

Status remove_file(FileOps& ops, const std::filesystem::path& target) {
  if (Status s = ops.remove(target); !s.ok()) {
    if (s.error().code == Errc::kNotFound) return ok_status();
    return s;
  }
  return ops.sync_dir(target.parent_path());
}

}  // namespace dracpu
