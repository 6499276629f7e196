// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the driver knows of its node before it talks to anybody: configuration, and the machine with its
// devices.
//
// Errors  from the topology reader or the overlay file, with the file
// Threads Values. A Machine never changes; hotplug makes a new one.

#ifndef DRACPU_AGENT_NODE_H_
#define DRACPU_AGENT_NODE_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "alloc/layout.h"
#include "base/cpuset.h"
#include "base/result.h"
#include "config/config.h"
#include "device/device.h"
#include "ledger/ledger.h"
#include "topology/reader.h"

namespace dracpu::agent {

struct Node {
  config::Config config;
  std::string name;             // final: the configuration's, else the host name, trimmed and lower-cased
  topology::ReadOptions files;  // where the machine's description is read
};

struct Machine {
  topology::Topology topology;
  std::shared_ptr<const alloc::Layout> layout;
  std::vector<device::Device> devices;
  CpuSet managed;                     // reserved ones included
  std::vector<std::string> warnings;  // for the log
};

// Files below `root` (empty: "/"), behind those of a sysfs overlay file (empty: none).
Result<topology::ReadOptions> machine_files(const std::filesystem::path& root,
                                            const std::filesystem::path& overlay);
// Of the running kernel, new with each boot; empty if it cannot be read.
std::string boot_id();
Result<Node> build_node(const config::Config& config);
Result<std::shared_ptr<const Machine>> read_machine(const Node& node);
// How claims of this node get their CPUs; keeps the layout alive.
ledger::Picker picker_for(const Node& node, const Machine& machine);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_NODE_H_
