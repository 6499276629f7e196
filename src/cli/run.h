// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The command line: flags, subcommands, help, and what they end with.
//
// Exit codes of the daemon: 0 clean stop, 1 a file, validation or start problem or a fault that cannot be
// recovered from, 2 a command line that does not parse. Read-only subcommands: 0 done, 1 could not be asked,
// 2 bad input.

#ifndef DRACPU_CLI_RUN_H_
#define DRACPU_CLI_RUN_H_

#include "config/config.h"

namespace dracpu::cli {

// The daemon: called with the resolved configuration, log level and format set, warnings logged.
using DaemonMain = int (*)(const config::Config&);

int run(int argc, char** argv, DaemonMain daemon);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_RUN_H_
