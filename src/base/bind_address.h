// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The forms of an address that our HTTP endpoints listen on.
//
// Errors  kInvalidInput, naming the address and the forms that work.
// Threads A value.

#ifndef DRACPU_BASE_BIND_ADDRESS_H_
#define DRACPU_BASE_BIND_ADDRESS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dracpu {

// Bytes of a unix socket's path: sun_path has 108, one of them for the terminating zero (unix(7)).
inline constexpr std::size_t kMaxSocketPath = 107;

struct BindAddress {
  std::string host;  // a literal IP address; empty: every address of the node
  std::uint16_t port = 0;
  std::string unix_path;  // not empty: a unix socket, and the rest does not count
  // Only processes of this machine can reach it.
  bool is_local() const { return !unix_path.empty() || host == "::1" || host.starts_with("127."); }
};

// ":8080", "127.0.0.1:8080", "[::1]:8080", "localhost:8080", "unix:/run/dracpu.sock". No names but localhost:
// what listens must not depend on a resolver.
Result<BindAddress> parse_bind_address(std::string_view text);

// Two listeners cannot have both. Port 0 is any port, so it never collides.
bool collide(const BindAddress& a, const BindAddress& b);

}  // namespace dracpu

#endif  // DRACPU_BASE_BIND_ADDRESS_H_
