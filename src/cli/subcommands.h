// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Subcommands of one form: perhaps a word that says what to do, then flags.
//
// Errors  Kind::kFailed, see command_line.h.
// Threads Any; no state that changes.

#ifndef DRACPU_CLI_SUBCOMMANDS_H_
#define DRACPU_CLI_SUBCOMMANDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"

namespace dracpu::cli {

// False if the subcommand has another form, or is not known.
bool is_subcommand(std::string_view word);
// Of a word that is one; `rest` is what follows it.
CommandLine parse_subcommand(std::string_view word, std::vector<std::string> rest);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_SUBCOMMANDS_H_
