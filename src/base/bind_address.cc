// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/bind_address.h"

#include <arpa/inet.h>

#include <array>
#include <optional>

#include "base/strings.h"

namespace dracpu {
namespace {

bool is_address(int family, const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> raw{};
  return ::inet_pton(family, text.c_str(), raw.data()) == 1;
}

Error refuse(std::string_view text, std::string_view why) {
  return make_error(Errc::kInvalidInput,
                    "address \"{}\": {}; use \":8080\", \"127.0.0.1:8080\", \"[::1]:8080\" or \"unix:/path\"",
                    text, why);
}

}  // namespace

Result<BindAddress> parse_bind_address(std::string_view text) {
  BindAddress out;
  if (text.find('\0') != std::string_view::npos) return refuse(text, "holds a zero byte");
  if (text.starts_with("unix:")) {
    out.unix_path = text.substr(5);
    if (!out.unix_path.starts_with('/')) return refuse(text, "the socket's path must be absolute");
    if (out.unix_path.ends_with('/')) return refuse(text, "the socket's path names a directory");
    if (out.unix_path.size() > kMaxSocketPath) {
      return refuse(text, fmt::format("the socket's path has {} bytes, at most {} are possible",
                                      out.unix_path.size(), kMaxSocketPath));
    }
    return out;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return refuse(text, "the port is missing");
  const std::optional<std::uint16_t> port = parse_number<std::uint16_t>(text.substr(colon + 1));
  if (!port) return refuse(text, "the port is not a number up to 65535");
  out.port = *port;
  const std::string_view host = text.substr(0, colon);
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return refuse(text, "\"[\" without \"]\"");
    out.host = host.substr(1, host.size() - 2);
    if (!is_address(AF_INET6, out.host)) return refuse(text, "no IPv6 address between the brackets");
  } else if (host == "localhost") {
    out.host = "127.0.0.1";
  } else {
    out.host = host;
    if (!host.empty() && !is_address(AF_INET, out.host)) return refuse(text, "the host is not an IP address");
  }
  return out;
}

bool collide(const BindAddress& a, const BindAddress& b) {
  if (!a.unix_path.empty() || !b.unix_path.empty()) return a.unix_path == b.unix_path;
  const auto is_any = [](const std::string& host) {
    return host.empty() || host == "0.0.0.0" || host == "::";
  };
  return a.port != 0 && a.port == b.port && (a.host == b.host || is_any(a.host) || is_any(b.host));
}

}  // namespace dracpu
