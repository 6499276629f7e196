// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the parsers of all subcommands share.
//
// Errors  Kind::kFailed, see command_line.h.
// Threads Any; no state.

#ifndef DRACPU_CLI_PARSE_PARTS_H_
#define DRACPU_CLI_PARSE_PARTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/go_flags.h"

namespace dracpu::cli {

// kFailed, as release 0.3.0, for a subcommand or topic that is not known; otherwise kBadInput.
CommandLine failed(int status, std::string text);
CommandLine print(std::string_view text);
// kBadInput, with the usage behind the error.
CommandLine bad_line(std::string_view error, std::string_view usage);

bool has_help(const SplitLine& line);
// Takes a leading word that is no flag.
std::string take_word(std::vector<std::string>& args);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_PARSE_PARTS_H_
