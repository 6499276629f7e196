// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// `dracpu topology`: what the driver sees of a machine, for people and for programs.
//
// JSON    gatherinfo's field names (spec driver-behaviours 17.1) and the facts that it lacks. A list of CPUs
// is
//         one text in Linux list form. A number that the machine does not tell is -1 where gatherinfo has the
//         field, null elsewhere.
// Exit    0 done, 2 the folder or the overlay cannot be used.
// Threads None; reads files.

#ifndef DRACPU_CLI_TOPOLOGY_H_
#define DRACPU_CLI_TOPOLOGY_H_

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "topology/topology.h"

namespace dracpu::cli {

// Where a machine's description lies, for every read-only subcommand.
struct MachineFiles {
  std::string sysfs_root;  // holds sys/; empty: $HOST_ROOT or "/"
  std::string overlay;     // a sysfs overlay file; empty: none
};

Result<topology::Topology> read_machine(const MachineFiles& files);

std::string topology_json(const topology::Topology& topology);

// `output`: text, json or svg.
int run_topology(const MachineFiles& files, std::string_view output);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_TOPOLOGY_H_
