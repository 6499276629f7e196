// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/socket_file.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/unique_fd.h"

namespace dracpu::kubelet {
namespace {

namespace fs = std::filesystem;

Error path_error(std::string_view step, const fs::path& path, int err) {
  return make_error(err == ENOENT ? Errc::kNotFound : Errc::kUnavailable, "{} \"{}\": {}", step,
                    path.string(), errno_text(err));
}

}  // namespace

SocketFile::SocketFile(fs::path path, const std::string& hidden_name)
    : path_(std::move(path)), hidden_(path_.parent_path() / hidden_name) {}

Status SocketFile::clear_hidden() const {
  if (::unlink(hidden_.c_str()) != 0 && errno != ENOENT) return path_error("remove stale", hidden_, errno);
  return ok_status();
}

Status SocketFile::publish() {
  if (::chmod(hidden_.c_str(), 0600) != 0) return path_error("set mode of", hidden_, errno);
  struct stat st {};
  if (::lstat(hidden_.c_str(), &st) != 0) return path_error("look at", hidden_, errno);
  if (std::rename(hidden_.c_str(), path_.c_str()) != 0) {
    const Error error = path_error("put socket at", path_, errno);
    (void)::unlink(hidden_.c_str());
    return error;
  }
  file_ = FileId(st);
  published_ = true;
  return ok_status();
}

bool SocketFile::still_ours() const {
  struct stat st {};
  return published_ && ::lstat(path_.c_str(), &st) == 0 && FileId(st) == file_;
}

void SocketFile::remove() {
  if (still_ours()) (void)::unlink(path_.c_str());
  published_ = false;
}

Status check_nobody_listens(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& text = path.native();
  if (text.size() > kMaxSocketPath) return ok_status();  // nobody can
  std::memcpy(address.sun_path, text.data(), text.size());
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return path_error("make a socket to ask at", path, errno);
  // A full queue (EAGAIN) belongs to somebody too, only to a slow one.
  const int rc = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (rc != 0 && errno != EAGAIN) return ok_status();
  ucred peer{};
  socklen_t size = sizeof(peer);
  const bool known =
      rc == 0 && ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0;
  return make_error(Errc::kConflict, "another driver listens on \"{}\"{}", path.string(),
                    known ? fmt::format(" (process {})", peer.pid) : std::string());
}

Status ensure_folder(const fs::path& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) {
    if (::chmod(path.c_str(), mode) != 0) return path_error("set mode of", path, errno);  // umask
    return ok_status();
  }
  const int err = errno;
  struct stat st {};
  if (err == EEXIST && ::stat(path.c_str(), &st) == 0) {
    if (S_ISDIR(st.st_mode)) return ok_status();
    return path_error("make folder", path, ENOTDIR);
  }
  return path_error("make folder", path, err);
}

}  // namespace dracpu::kubelet
