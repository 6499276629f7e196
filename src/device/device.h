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
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/cpuset.h"

namespace dracpu::device {

// int, bool, string or list of strings, as resource.k8s.io/v1 has them.
using AttributeValue = std::variant<std::int64_t, bool, std::string, std::vector<std::string>>;

// How much of a capacity that counts bytes one request may take.
struct ByteRange {
  std::int64_t fallback = 0;  // for a request that names no amount: the API's `default`
  std::int64_t min = 0;
  std::optional<std::int64_t> step;  // requests are rounded up to min + n · step
  std::int64_t max = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

struct Device {
  std::string name;                                  // DNS label
  bool allow_multiple_allocations = false;           // grouped devices are shared by capacity
  std::map<std::string, AttributeValue> attributes;  // qualified name → value
  std::map<std::string, std::int64_t> capacity;      // qualified name → whole amount
  std::map<std::string, ByteRange> byte_ranges{};  // of the capacities that count bytes; the others are plain
  // Resource of the node's allocatable → capacity that is counted against it. Beside a mapping that all
  // devices of a publisher have.
  std::map<std::string, std::string> node_allocatable{};
  CpuSet cpus;  // allocatable CPUs behind it; not published

  friend bool operator==(const Device&, const Device&) = default;
};

// The devices of one ResourceSlice, in published order.
struct Slice {
  std::vector<Device> devices;
  friend bool operator==(const Slice&, const Slice&) = default;
};

}  // namespace dracpu::device

#endif  // DRACPU_DEVICE_DEVICE_H_
