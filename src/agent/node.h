// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the driver knows of its node before it talks to anybody: configuration, machine, devices.
//
// Errors  kUnsupported  this build cannot serve the configuration, or the machine has no CPU to hand out
//         others        from the topology reader, with the file
// Threads Immutable after build_node().

#ifndef DRACPU_AGENT_NODE_H_
#define DRACPU_AGENT_NODE_H_

#include <memory>
#include <string>
#include <vector>

#include "alloc/layout.h"
#include "base/cpuset.h"
#include "base/result.h"
#include "config/config.h"
#include "device/device.h"
#include "topology/topology.h"

namespace dracpu::agent {

struct Node {
  config::Config config;
  std::string name;  // final: the configuration's, else the host name, trimmed and lower-cased
  topology::Topology topology;
  std::shared_ptr<const alloc::Layout> layout;
  std::vector<device::Device> devices;
  CpuSet managed;  // reserved ones included
  CpuSet reserved;
  std::vector<std::string> warnings;  // for the log
};

Result<Node> build_node(const config::Config& config);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_NODE_H_
