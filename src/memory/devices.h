// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// From spans to what is published, in one of two modes.
//
// Separate  A device per span, in a pool of the driver "dra.memory". It is shared by the capacity "size", in
//           bytes: a request is rounded up to whole pages, one without an amount gets 1 MiB or one hugepage.
//           Slices come by kind, devices in them by node number.
// Combined  The CPU device of a NUMA node has the memory of the node as further capacities, of which a
// request
//           that names none gets nothing.
//
// Names     Made of kind and node number, so a restart publishes the same.
// Checks    The API server refuses a slice as a whole, and then the pool is incomplete and of no use. What
// would
//           break a rule of it is left out, with a warning.
// Threads   Pure.

#ifndef DRACPU_MEMORY_DEVICES_H_
#define DRACPU_MEMORY_DEVICES_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "memory/discovery.h"
#include "memory/types.h"

namespace dracpu::memory {

// A span as a claim's result names it: capacity `key` of `device`.
struct Offer {
  std::string device;
  std::string key;
  Kind kind;
  NumaNodeId node;
  Bytes page;
  Bytes capacity;

  friend bool operator==(const Offer&, const Offer&) = default;
};

struct Published {
  std::vector<device::Slice> slices;
  std::vector<Offer> offers;
  std::vector<topology::Warning> warnings;

  friend bool operator==(const Published&, const Published&) = default;
};

struct DeviceOptions {
  std::string cpu_driver_name = "dra.cpu";  // the domain of an attribute that CPU devices have, too
  bool node_allocatable_mapping = false;
};

Published separate_devices(const Inventory& inventory, const DeviceOptions& options);

// `cpu_slices` with the memory added to the devices of NUMA nodes; nodes without one are told in a warning.
// The mapping of CPUs is not ours to add.
Published combined_devices(const Inventory& inventory, std::vector<device::Slice> cpu_slices,
                           const DeviceOptions& options);

// What resource.k8s.io/v1 wants of a capacity with a range; the text says which rule is broken.
Status check_range(std::int64_t capacity, const device::ByteRange& range);

}  // namespace dracpu::memory

#endif  // DRACPU_MEMORY_DEVICES_H_
