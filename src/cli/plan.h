// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// `dracpu devices` and `dracpu plan`: what this node would publish, and what claims would get on it, without
// a cluster.
//
// Exit    devices: 0 done, 2 bad input. plan: 0 every claim fits, 3 one was refused, 2 bad input.
// Threads None; reads files.

#ifndef DRACPU_CLI_PLAN_H_
#define DRACPU_CLI_PLAN_H_

#include <string>
#include <string_view>

#include "agent/node.h"
#include "agent/plan.h"
#include "cli/command_line.h"

namespace dracpu::cli {

// ResourceSlices as a List. `form`: yaml or json.
std::string devices_text(const agent::Node& node, const agent::Machine& machine, std::string_view form);

// `form`: text or json.
std::string plan_text(const agent::Plan& plan, const agent::Machine& machine, std::string_view form);

int run_devices(const CommandLine& line);
int run_plan(const CommandLine& line);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_PLAN_H_
