// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "observe/http_get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/bind_address.h"
#include "base/deadline.h"
#include "base/strings.h"
#include "base/unique_fd.h"

namespace dracpu::observe {
namespace {

constexpr std::size_t kReplyLimit = std::size_t{64} << 10U;

Error unavailable(std::string_view address, std::string_view step, int err) {
  return make_error(Errc::kUnavailable, "asking \"{}\": {}: {}", address, step, errno_text(err));
}

// False when the time is over.
bool wait_for(int fd, short events, const Deadline& deadline) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left());
    ::pollfd p{fd, events, 0};
    const int n = ::poll(&p, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60000)));
    if (n > 0) return true;
    if (deadline.passed() || (n < 0 && errno != EINTR)) return false;
  }
}

template <typename Address>
int connect_to(int fd, const Address& address) {
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

Result<UniqueFd> open_connection(std::string_view text, const BindAddress& at, const Deadline& deadline) {
  const bool is_unix = !at.unix_path.empty();
  const bool is_v6 = at.host.find(':') != std::string::npos;
  UniqueFd fd(::socket(is_unix ? AF_UNIX : (is_v6 ? AF_INET6 : AF_INET),
                       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return unavailable(text, "socket", errno);
  int err = 0;
  if (is_unix) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(at.unix_path.begin(), at.unix_path.end(), std::begin(address.sun_path));
    err = connect_to(fd.get(), address);
  } else if (is_v6) {
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(at.port);
    ::inet_pton(AF_INET6, at.host == "::" ? "::1" : at.host.c_str(), &address.sin6_addr);
    err = connect_to(fd.get(), address);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(at.port);
    const bool any = at.host.empty() || at.host == "0.0.0.0";
    ::inet_pton(AF_INET, any ? "127.0.0.1" : at.host.c_str(), &address.sin_addr);
    err = connect_to(fd.get(), address);
  }
  if (err == EINPROGRESS) {
    if (!wait_for(fd.get(), POLLOUT, deadline)) return unavailable(text, "connect", ETIMEDOUT);
    socklen_t size = sizeof(err);
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &err, &size) != 0) err = errno;
  }
  if (err != 0) return unavailable(text, "connect", err);
  return fd;
}

Result<std::string> exchange(int fd, std::string_view address, std::string_view request,
                             const Deadline& deadline) {
  while (!request.empty()) {
    if (!wait_for(fd, POLLOUT, deadline)) return unavailable(address, "send", ETIMEDOUT);
    const ssize_t n = ::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return unavailable(address, "send", errno);
    if (n > 0) request.remove_prefix(static_cast<std::size_t>(n));
  }
  std::string reply;
  std::array<char, 4096> chunk{};
  while (reply.size() < kReplyLimit) {
    if (!wait_for(fd, POLLIN, deadline)) return unavailable(address, "receive", ETIMEDOUT);
    const ssize_t n = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (n == 0) break;
    if (n < 0 && errno != EAGAIN && errno != EINTR) return unavailable(address, "receive", errno);
    if (n > 0) reply.append(chunk.data(), static_cast<std::size_t>(n));
  }
  return reply;
}

Result<HttpReply> ask(std::string_view method, std::string_view address, std::string_view path,
                      std::chrono::milliseconds timeout) {
  const Deadline deadline = Deadline::after(timeout);
  Result<BindAddress> at = parse_bind_address(address);
  if (!at) return std::move(at).error();
  Result<UniqueFd> fd = open_connection(address, *at, deadline);
  if (!fd) return std::move(fd).error();
  const std::string request =
      fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", method, path);
  Result<std::string> reply = exchange(fd->get(), address, request, deadline);
  if (!reply) return std::move(reply).error();
  // "HTTP/1.1 200 OK"
  const std::string_view text = *reply;
  const std::size_t end = text.find("\r\n\r\n");
  const std::optional<int> status = text.size() > 12 ? parse_number<int>(text.substr(9, 3)) : std::nullopt;
  if (!text.starts_with("HTTP/1.") || !status || end == std::string_view::npos) {
    return make_error(Errc::kCorrupt, "asking \"{}\": what answers does not speak HTTP", address);
  }
  return HttpReply{*status, std::string(text.substr(end + 4))};
}

}  // namespace

Result<HttpReply> http_get(std::string_view address, std::string_view path,
                           std::chrono::milliseconds timeout) {
  return ask("GET", address, path, timeout);
}

Result<HttpReply> http_put(std::string_view address, std::string_view path,
                           std::chrono::milliseconds timeout) {
  return ask("PUT", address, path, timeout);
}

}  // namespace dracpu::observe
