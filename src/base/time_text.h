// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Points of time as Kubernetes writes them: RFC 3339, UTC, whole seconds.
//
// Threads Any; no state.

#ifndef DRACPU_BASE_TIME_TEXT_H_
#define DRACPU_BASE_TIME_TEXT_H_

#include <fmt/format.h>

#include <ctime>
#include <string>

namespace dracpu {

// "2026-12-02T14:18:18Z".
inline std::string utc_text(std::time_t at) {
  std::tm t{};
  ::gmtime_r(&at, &t);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday,
                     t.tm_hour, t.tm_min, t.tm_sec);
}

}  // namespace dracpu

#endif  // DRACPU_BASE_TIME_TEXT_H_
