// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Brings a command line written for Go's flag package into the one form that has no second reading.

#ifndef DRACPU_CLI_GO_FLAGS_H_
#define DRACPU_CLI_GO_FLAGS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dracpu::cli {

enum class FlagKind { kValue, kBool };

struct KnownFlag {
  std::string_view name;  // without dashes
  FlagKind kind = FlagKind::kValue;
};

struct GivenFlag {
  std::string name;
  std::string value;  // "true" for a bare boolean
};

struct SplitLine {
  std::vector<GivenFlag> flags;   // before the first word that is no flag
  std::vector<std::string> rest;  // from that word on
};

// Errors  kInvalidInput: a flag that is not known, or one that lacks its value. "-h" and "--help" are known.
Result<SplitLine> split_flags(const std::vector<std::string>& args, std::span<const KnownFlag> known);

// As Go's strconv.ParseBool.
std::optional<bool> parse_go_bool(std::string_view text);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_GO_FLAGS_H_
