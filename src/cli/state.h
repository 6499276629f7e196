// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// `dracpu state show|verify`: the state file, read without the driver (RULINGS 13).
//
// Exit    kOk; kBadInput: the file or the configuration cannot be read; kRefused: the file is damaged, or
//         verify found something.
// Threads Any. Changes nothing.

#ifndef DRACPU_CLI_STATE_H_
#define DRACPU_CLI_STATE_H_

#include "cli/command_line.h"

namespace dracpu::cli {

int run_state(const CommandLine& line);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_STATE_H_
