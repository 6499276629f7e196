// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the node publishes: devices with names, attributes and capacities, cut into slices.
//
// Source  spec driver-behaviours sections 5 and 6; limits: spec kubelet-dra-wire sections 5.4 and 5.10.
// Threads Values; no shared state.

#ifndef DRACPU_DEVICE_DEVICE_H_
#define DRACPU_DEVICE_DEVICE_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/cpuset.h"

namespace dracpu::device {

// int, bool, string or list of strings, as resource.k8s.io/v1 has them.
using AttributeValue = std::variant<std::int64_t, bool, std::string, std::vector<std::string>>;

struct Device {
  std::string name;                                  // DNS label
  bool allow_multiple_allocations = false;           // grouped devices are shared by capacity
  std::map<std::string, AttributeValue> attributes;  // qualified name → value
  std::map<std::string, std::int64_t> capacity;      // qualified name → whole amount
  CpuSet cpus;                                       // allocatable CPUs behind it; not published

  friend bool operator==(const Device&, const Device&) = default;
};

// The devices of one ResourceSlice, in published order.
struct Slice {
  std::vector<Device> devices;
  friend bool operator==(const Slice&, const Slice&) = default;
};

}  // namespace dracpu::device

#endif  // DRACPU_DEVICE_DEVICE_H_
