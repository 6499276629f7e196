// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The Status object that the API server sends with an error (spec kubelet-dra-wire 7.3).
//
// Errors  None: a body that is not a Status gives empty fields.
// Threads No state.

#ifndef DRACPU_KUBE_API_STATUS_H_
#define DRACPU_KUBE_API_STATUS_H_

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "kube/http_client.h"

namespace dracpu::kube {

struct ApiStatus {
  std::string message;
  std::string reason;  // "NotFound", "Conflict", "Expired", …
  int code = 0;
  std::optional<std::chrono::seconds> retry_after;  // details.retryAfterSeconds
};

ApiStatus parse_status(std::string_view body);

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_API_STATUS_H_
