// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// From a machine to the devices that the node publishes.
//
// Source   spec driver-behaviours sections 5 and 6 (names, attributes, limits), RULINGS 20 (the driver's name
// is
//          the domain of attributes and capacities) and 21 (the long forms of two attributes).
// Rules    A device holds usable CPUs that are not reserved. A CPU whose node (or socket) the kernel does not
//          tell is left out of the grouping that needs it, with a warning; if the kernel tells none at all,
//          all CPUs make one device 000 without the attribute. Unknown is never published as -1 or 0.
// Errors   kUnsupported  a device would break a limit of the API, as in too many PCIe roots
// Threads  Pure.

#ifndef DRACPU_DEVICE_BUILD_H_
#define DRACPU_DEVICE_BUILD_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpuset.h"
#include "base/result.h"
#include "config/config.h"
#include "device/device.h"
#include "topology/topology.h"

namespace dracpu::device {

struct BuildOptions {
  config::DeviceMode mode = config::DeviceMode::kGrouped;
  config::GroupBy group_by = config::GroupBy::kNumaNode;
  config::Allocator allocator = config::Allocator::kCpuManager;
  bool expose_pcie_roots = false;
  std::string driver_name = "dra.cpu";
};

struct BuildResult {
  std::vector<Device> devices;  // in published order
  CpuSet managed;               // CPUs that the grouping can place, reserved ones included
  std::vector<topology::Warning> warnings;
};

Result<BuildResult> build_devices(const topology::Topology& topology, const CpuSet& reserved,
                                  const BuildOptions& options = {});

// kUnsupported if the device has more attributes and capacities than the API takes.
Status check_limits(const Device& device);

// At most 128 devices a slice, 64 if any device has a list-valued attribute. No devices, no slices.
std::vector<Slice> cut_into_slices(const std::vector<Device>& devices);

// Null if there is no device of that name. Valid as long as `devices` is.
const Device* device_by_name(const std::vector<Device>& devices, std::string_view name);

// The type of a CPU's core as release 0.3.0 tells it. Only monitoring devices make a type public; strength
// alone does not (driver-behaviours section 4).
std::string_view public_core_type(const topology::Topology& topology, const topology::Cpu& cpu);

// "dra.cpu/cpu": the capacity that a claim consumes.
std::string cpu_capacity_name(std::string_view driver_name);

}  // namespace dracpu::device

#endif  // DRACPU_DEVICE_BUILD_H_
