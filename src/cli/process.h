// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the subcommands share of the process: its environment, its output, and what they end with.
//
// Threads Any.

#ifndef DRACPU_CLI_PROCESS_H_
#define DRACPU_CLI_PROCESS_H_

#include <cstdio>
#include <string>
#include <string_view>

#include "config/load.h"

namespace dracpu::cli {

// Read-only subcommands (RULINGS 23).
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kRefused = 3;

config::Env environment();

// Writes and flushes; false if that failed.
bool put(std::FILE* stream, std::string_view text);

// The path of a FILE argument: "-" is standard input.
std::string input_name(const std::string& file);

// Prints a result on standard output: `status`, or kFailed if it cannot be written.
int print_result(std::string_view text, int status);

// "dracpu: TEXT" on standard error.
void complain(std::string_view text);
// The same for an error of what was given: kBadInput.
int bad_input(const Error& error);

// As the driver would read it; without a file if `file` is empty.
Result<config::Loaded> load_config(const std::string& file);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_PROCESS_H_
