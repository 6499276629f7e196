// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// `dracpu gatherinfo`: one YAML document about the node's CPUs, its memory where that is on, and the running
// driver's configuration, layout v1 (spec driver-behaviours 17.1, memory-support 11.11).
//
// The driver is found in procfs by its name; its command line decides flags, its files are read through its
// own root and working directory. What cannot be read falls back to defaults.
// Returns the exit status: 0 done, 1 no driver runs on this node or the report cannot be written.
// Threads None; reads files of other processes.

#ifndef DRACPU_CLI_GATHERINFO_H_
#define DRACPU_CLI_GATHERINFO_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/node.h"
#include "config/config.h"
#include "config/load.h"
#include "topology/topology.h"

namespace dracpu::cli {

struct FoundDriver {
  int pid = 0;
  config::Flags flags;
  config::Env env;
};

// The driver with the lowest process number below `proc`, itself left out, subcommand runs too.
std::optional<FoundDriver> find_driver(const std::filesystem::path& proc, int self);

// Its effective configuration; defaults where its file cannot be read or is refused, with a line in `notes`.
config::Config config_of(const FoundDriver& driver, const std::filesystem::path& proc,
                         std::vector<std::string>& notes);

// The section `memoryDetails` (gather_memory.h): nothing where memory is off or cannot be read.
std::string memory_of(const FoundDriver& driver, const agent::Node& node, const std::filesystem::path& proc,
                      std::vector<std::string>& notes);

// The YAML document; `memory` is its section, or empty.
std::string report(const topology::Topology& topology, const config::Config& config,
                   const std::string& memory = {});

int run_gatherinfo(const std::string& output_dir, bool to_stdout);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_GATHERINFO_H_
