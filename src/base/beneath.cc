// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include "base/strings.h"

namespace dracpu {
namespace {

Error failure(const std::string& path, int err) {
  const bool is_outside = err == ELOOP || err == EXDEV || err == ENOTDIR;
  return make_error(err == ENOENT ? Errc::kNotFound
                    : is_outside  ? Errc::kInvalidInput
                                  : Errc::kUnavailable,
                    "open \"{}\": {}", path,
                    is_outside ? "it leads over a link, or out of its folder" : errno_text(err));
}

Result<dev_t> device_of(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return failure(path, errno);
  return info.st_dev;
}

}  // namespace

Result<UniqueFd> walk_beneath(int folder, const std::string& path, int flags) {
  const Result<dev_t> home = device_of(folder, path);
  if (!home.ok()) return home.error();
  const std::vector<std::string_view> parts = split(path, '/');
  UniqueFd at;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty() || parts[i] == "..") return failure(path, EXDEV);
    const bool is_last = i + 1 == parts.size();
    const int how = (is_last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW | O_CLOEXEC;
    UniqueFd next(::openat(at.valid() ? at.get() : folder, std::string(parts[i]).c_str(), how));
    if (!next.valid()) return failure(path, errno);
    const Result<dev_t> device = device_of(next.get(), path);
    if (!device.ok()) return device.error();
    if (*device != *home) return failure(path, EXDEV);
    at = std::move(next);
  }
  return at;
}

Result<UniqueFd> open_beneath(int folder, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  const long fd = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how);
  if (fd >= 0) return UniqueFd(static_cast<int>(fd));
  // A filter of system calls from before it answers with either.
  if (errno == ENOSYS || errno == EPERM) return walk_beneath(folder, path, flags);
  return failure(path, errno);
}

}  // namespace dracpu
