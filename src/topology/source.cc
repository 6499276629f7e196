// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "topology/source.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace dracpu::topology {
namespace {

// Longer than any file of the tree: a list of 65536 alternating CPUs has 380 kB.
constexpr std::size_t kMaxFile = std::size_t{4} << 20U;

Found why_not(int err) { return err == ENOENT || err == ENOTDIR ? Found::kAbsent : Found::kUnreadable; }

bool is_fifo(int fd) {
  struct stat st {};
  return ::fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

class DirStream {
 public:
  explicit DirStream(UniqueFd fd) : dir_(::fdopendir(fd.get())) {
    if (dir_ != nullptr) fd.release();  // closedir() closes it
  }
  ~DirStream() {
    if (dir_ != nullptr) ::closedir(dir_);
  }
  DirStream(const DirStream&) = delete;
  DirStream& operator=(const DirStream&) = delete;
  DIR* get() const { return dir_; }

 private:
  DIR* dir_;
};

}  // namespace

Result<DirectorySource> DirectorySource::open(const std::filesystem::path& root) {
  UniqueFd fd(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    const int err = errno;
    return make_error(err == ENOENT ? Errc::kNotFound : Errc::kUnavailable, "open \"{}\": {}", root.string(),
                      errno_text(err));
  }
  return DirectorySource(std::move(fd));
}

UniqueFd DirectorySource::open_below(const std::string& path, int flags, Found& why) {
  for (;;) {
    long fd = -1;
    if (has_openat2_) {
      open_how how{};
      how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
      how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
      fd = ::syscall(SYS_openat2, root_.get(), path.c_str(), &how, sizeof how);
      if (fd < 0 &&
          (errno == ENOSYS || errno == EPERM)) {  // old kernel, or a seccomp filter that does not know it
        has_openat2_ = false;
        continue;
      }
    } else {
      fd = ::openat(root_.get(), path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW);
    }
    if (fd >= 0) {
      why = Found::kYes;
      return UniqueFd(static_cast<int>(fd));
    }
    if (errno == EINTR || errno == EAGAIN) continue;  // EAGAIN: a rename raced with the check for ".."
    why = why_not(errno);
    return {};
  }
}

Found DirectorySource::read(const std::string& path, std::string& into) {
  into.clear();
  Found found = Found::kYes;
  // A FIFO, in a tree that is a copy of /sys, must not keep us waiting for a writer: it reads as empty.
  const UniqueFd fd = open_below(path, O_RDONLY | O_NONBLOCK, found);
  if (found != Found::kYes) return found;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Found::kUnreadable;  // as in EIO of a CPU that went off line
    if (n == 0) return into.empty() && is_fifo(fd.get()) ? Found::kUnreadable : Found::kYes;
    into.append(buffer.data(), static_cast<std::size_t>(n));
    if (into.size() > kMaxFile) return Found::kUnreadable;
  }
}

Found DirectorySource::list(const std::string& path, std::vector<std::string>& into) {
  into.clear();
  Found found = Found::kYes;
  UniqueFd fd = open_below(path, O_RDONLY | O_DIRECTORY, found);
  if (found != Found::kYes) return found;
  const DirStream stream(std::move(fd));
  if (stream.get() == nullptr) return Found::kUnreadable;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) return errno == 0 ? Found::kYes : Found::kUnreadable;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") into.emplace_back(name);
  }
}

Found DirectorySource::link(const std::string& path, std::string& into) {
  into.clear();
  Found found = Found::kYes;
  const UniqueFd fd = open_below(path, O_PATH | O_NOFOLLOW, found);
  if (found != Found::kYes) return found;
  std::array<char, 4096> buffer;
  const ssize_t n = ::readlinkat(fd.get(), "", buffer.data(), buffer.size());
  if (n < 0) return why_not(errno);
  into.assign(buffer.data(), static_cast<std::size_t>(n));
  return Found::kYes;
}

Found MemorySource::read(const std::string& path, std::string& into) {
  const auto it = files_.find(path);
  if (it == files_.end()) return Found::kAbsent;
  into = it->second;
  return Found::kYes;
}

Found MemorySource::list(const std::string& path, std::vector<std::string>& into) {
  into.clear();
  const std::string prefix = path + "/";
  for (auto it = files_.lower_bound(prefix); it != files_.end() && it->first.starts_with(prefix); ++it) {
    const std::string_view rest = std::string_view(it->first).substr(prefix.size());
    const std::string_view name = rest.substr(0, rest.find('/'));
    if (into.empty() || into.back() != name) into.emplace_back(name);
  }
  return into.empty() ? Found::kAbsent : Found::kYes;
}

Found MemorySource::link(const std::string& path, std::string& into) { return read(path, into); }

}  // namespace dracpu::topology
