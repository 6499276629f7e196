// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Subcommands about the configuration, and questions to the driver that runs in this container.
//
// Exit    kOk; kFailed: nobody answered; kBadInput; kRefused: the answer is no (health).
// Threads Any.

#ifndef DRACPU_CLI_ASK_H_
#define DRACPU_CLI_ASK_H_

#include "cli/command_line.h"

namespace dracpu::cli {

int run_health(const CommandLine& line);
int run_config(const CommandLine& line);
int run_log_level(const CommandLine& line);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_ASK_H_
