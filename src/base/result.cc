// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/result.h"

#include <system_error>

namespace dracpu {

std::string_view name_of(Errc code) {
  switch (code) {
    case Errc::kInvalidInput:
      return "invalid-input";
    case Errc::kNotFound:
      return "not-found";
    case Errc::kNoCapacity:
      return "no-capacity";
    case Errc::kConflict:
      return "conflict";
    case Errc::kUnavailable:
      return "unavailable";
    case Errc::kCorrupt:
      return "corrupt";
    case Errc::kUnsupported:
      return "unsupported";
    case Errc::kInternal:
      return "internal";
  }
  return "internal";
}

std::string errno_text(int err) { return std::generic_category().message(err); }

}  // namespace dracpu
