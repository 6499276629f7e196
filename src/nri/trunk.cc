// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "nri/trunk.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/strings.h"
#include "nri/mux.h"

namespace dracpu::nri {
namespace {

Error socket_error(std::string_view step, int err) {
  return make_error(Errc::kUnavailable, "{}: {}", step, errno_text(err));
}

Status send_frame(int socket, const Frame& frame) {
  std::string_view head(frame.header.data(), frame.header.size());
  std::string_view body = frame.payload;
  while (!head.empty() || !body.empty()) {
    // sendmsg() does not write through the pointers; iovec has no const form.
    std::array<iovec, 2> parts{iovec{const_cast<char*>(head.data()), head.size()},
                               iovec{const_cast<char*>(body.data()), body.size()}};
    msghdr message{};
    message.msg_iov = head.empty() ? &parts[1] : parts.data();
    message.msg_iovlen = head.empty() ? 1 : 2;
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return Error{Errc::kUnavailable, "the peer does not read"};
      return socket_error("sendmsg", errno);
    }
    auto done = static_cast<std::size_t>(sent);
    const std::size_t of_head = std::min(done, head.size());
    head.remove_prefix(of_head);
    body.remove_prefix(done - of_head);
  }
  return ok_status();
}

}  // namespace

Result<UniqueFd> dial(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& text = path.native();
  if (text.empty() || text.size() >= sizeof(address.sun_path)) {
    return make_error(Errc::kInvalidInput, "socket path \"{}\": must have 1 to {} bytes", text,
                      sizeof(address.sun_path) - 1);
  }
  std::memcpy(address.sun_path, text.data(), text.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return socket_error("socket", errno);
  // Non-blocking, because connect() on a full backlog would otherwise wait without a limit.
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int err = errno;
    return make_error(err == ENOENT || err == ENOTDIR ? Errc::kNotFound : Errc::kUnavailable,
                      "connect \"{}\": {}", text, errno_text(err));
  }
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) return socket_error("fcntl", errno);
  return fd;
}

Result<UniqueFd> adopt_inherited(std::string_view number) {
  const std::optional<int> fd = parse_number<int>(number);
  struct stat info {};
  if (!fd || *fd < 0 || ::fstat(*fd, &info) != 0 || !S_ISSOCK(info.st_mode)) {
    return make_error(Errc::kInvalidInput, "NRI_PLUGIN_SOCKET \"{}\" does not name a socket",
                      number.substr(0, 40));
  }
  if (::fcntl(*fd, F_SETFD, FD_CLOEXEC) != 0) return socket_error("fcntl", errno);
  return UniqueFd(*fd);
}

Status set_send_timeout(int socket, std::chrono::milliseconds timeout) {
  timeval value{};
  value.tv_sec = timeout.count() / 1000;
  value.tv_usec = timeout.count() % 1000 * 1000;
  if (::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof(value)) == 0) return ok_status();
  return socket_error("SO_SNDTIMEO", errno);
}

Status send_message(int socket, std::uint32_t connection, std::string_view message) {
  const MessageFrames cut(connection, message);
  for (const Frame& frame : cut.frames()) {
    if (Status ok = send_frame(socket, frame); !ok) return ok;
  }
  return ok_status();
}

void SocketWatch::arm() {
  std::error_code ec;
  const std::filesystem::path whole = std::filesystem::absolute(path_, ec);
  if (ec) return;
  // A directory may appear between the look and the watch: look again below it until nothing is new.
  for (int tries = 0; tries < 16; ++tries) {
    std::filesystem::path below = whole;
    while (below.has_relative_path() && !std::filesystem::is_directory(below.parent_path(), ec)) {
      below = below.parent_path();
    }
    inotify_ = UniqueFd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!inotify_.valid()) return;
    if (::inotify_add_watch(inotify_.get(), below.parent_path().c_str(),
                            IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR) < 0) {
      continue;
    }
    awaited_ = below.filename().native();
    if (below == whole || !std::filesystem::is_directory(below, ec)) return;
  }
  inotify_.reset();
}

bool SocketWatch::read_events() {
  alignas(inotify_event) std::array<char, 4096> buffer;
  bool ours = false;
  for (;;) {
    const ssize_t got = ::read(inotify_.get(), buffer.data(), buffer.size());
    if (got <= 0) return ours;
    for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(got);) {
      inotify_event event;
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      const char* const name = buffer.data() + at + sizeof(event);
      constexpr std::uint32_t kAlways = IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_Q_OVERFLOW;
      ours = ours || (event.mask & kAlways) != 0 || (event.len > 0 && awaited_ == name);
      at += sizeof(event) + event.len;
    }
  }
}

SocketWatch::Woke SocketWatch::wait(std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point until = Clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    std::array<pollfd, 2> fds{pollfd{stop_fd_, POLLIN, 0}, pollfd{inotify_.get(), POLLIN, 0}};
    const int ready =
        ::poll(fds.data(), fds.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready > 0 && fds[0].revents != 0) return Woke::kStop;
    if (ready > 0 && fds[1].revents != 0 && read_events()) return Woke::kChange;
    if (Clock::now() >= until) return Woke::kTime;
  }
}

}  // namespace dracpu::nri
