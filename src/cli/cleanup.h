// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// `dracpu cleanup`: what this node keeps after the last uninstall, listed, and removed with --apply.
//
// Exit    0 listed or removed; 3 a driver works here, or claims are on record and --with-claims is not given;
//         1 something could not be read or removed; 2 bad input.
// Threads One call at a time.

#ifndef DRACPU_CLI_CLEANUP_H_
#define DRACPU_CLI_CLEANUP_H_

#include "cli/command_line.h"

namespace dracpu::cli {

int run_cleanup(const CommandLine& line);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_CLEANUP_H_
