// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// `dracpu upgrade check`: what would break in a cluster on the move to this driver. Reads only.
// `dracpu upgrade identity`: the move to another driver name. Reads only, unless --apply is given.
//
// Exit    0 nothing that breaks, or done; 3 findings of severity error, or refused; 1 something could not be
//         removed; 2 bad input or no answer from the cluster.
// Threads One call at a time.

#ifndef DRACPU_CLI_UPGRADE_H_
#define DRACPU_CLI_UPGRADE_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command_line.h"
#include "config/load.h"

namespace dracpu::cli {

int run_upgrade(const CommandLine& line);

// The command line of a driver in the cluster, without the program's name. kInvalidInput: it is none of a
// driver.
Result<config::Flags> read_driver_flags(const std::vector<std::string>& words);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_UPGRADE_H_
