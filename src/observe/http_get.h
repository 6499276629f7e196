// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One GET or PUT to our own endpoint, for probes: plain sockets, so that a probe links and loads nothing
// heavy.
//
// Input   An address as in base/bind_address.h; one without a host means this machine.
// Errors  kInvalidInput for the address, kUnavailable when nobody answers within `timeout`, kCorrupt when the
//         answer is no HTTP.
// Threads Any; no state.

#ifndef DRACPU_OBSERVE_HTTP_GET_H_
#define DRACPU_OBSERVE_HTTP_GET_H_

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dracpu::observe {

struct HttpReply {
  int status = 0;
  std::string body;
};

// The body is cut at 64 KiB.
Result<HttpReply> http_get(std::string_view address, std::string_view path,
                           std::chrono::milliseconds timeout);
// The same with PUT and no body.
Result<HttpReply> http_put(std::string_view address, std::string_view path,
                           std::chrono::milliseconds timeout);

}  // namespace dracpu::observe

#endif  // DRACPU_OBSERVE_HTTP_GET_H_
