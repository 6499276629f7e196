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
#include "memory/devices.h"
#include "memory/discovery.h"
#include "topology/memory.h"
#include "topology/reader.h"

namespace dracpu::agent {

struct Node {
  config::Config config;
  std::string name;             // final: the configuration's, else the host name, trimmed and lower-cased
  topology::ReadOptions files;  // where the machine's description is read
};

// The memory of the node as it was read at one moment, and what claims can have of it.
struct MemoryView {
  topology::MachineMemory machine;
  memory::Inventory inventory;
  memory::Published published;
};

struct Machine {
  topology::Topology topology;
  std::shared_ptr<const alloc::Layout> layout;
  std::vector<device::Device> devices;
  CpuSet managed;                            // reserved ones included
  std::vector<std::string> warnings;         // for the log
  std::shared_ptr<const MemoryView> memory;  // only if the configuration says so
};

// Files below `root` (empty: "/"), behind those of a sysfs overlay file (empty: none).
Result<topology::ReadOptions> machine_files(const std::filesystem::path& root,
                                            const std::filesystem::path& overlay);
// Of the running kernel, new with each boot; empty if it cannot be read.
std::string boot_id();
Result<Node> build_node(const config::Config& config);
Result<std::shared_ptr<const Machine>> read_machine(const Node& node);
// Memory is on, and offered with the CPUs' devices.
bool comes_with_memory(const config::Config& config);
// The memory alone; topology and devices of the machine are as known. Only if the configuration has memory
// on.
Result<std::shared_ptr<const MemoryView>> read_memory_view(const Node& node, const Machine& machine);
// What is published as the driver of the CPUs: with `memory`, which is null where there is none or it has
// devices of its own.
std::vector<device::Slice> cpu_slices(const Node& node, const Machine& machine,
                                      const memory::Inventory* memory);
// What is to hold at the start: settings that fit the machine (check_memory_settings()), and a kernel that
// can enforce them. Success where memory is off.
Status check_memory_settings(const Node& node, const Machine& machine);
Status check_memory(const Node& node, const Machine& machine);
// How claims of this node get their CPUs; keeps the layout alive.
ledger::Picker picker_for(const Node& node, const Machine& machine);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_NODE_H_
