// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "device/build.h"

namespace dracpu::memory {
namespace {

using device::ByteRange;
using device::Device;

constexpr std::string_view kNumaNode = "resource.kubernetes.io/numaNode";
constexpr Bytes kDefaultRequest{std::uint64_t{1} << 20U};

// Amounts of spans are at most kMostBytes.
std::int64_t number(Bytes amount) { return static_cast<std::int64_t>(amount.count); }

std::string own(std::string_view name) { return fmt::format("{}/{}", kDriverName, name); }

ByteRange range_of(const Span& span) {
  const Bytes fallback = span.kind.is_hugepages() ? span.page : kDefaultRequest;
  ByteRange out{.fallback = number(fallback),
                .min = number(span.page),
                .step = number(span.page),
                .max = number(span.capacity)};
  // The API wants room for one step above the minimum.
  if (span.capacity == span.page) out.step.reset();
  return out;
}

ByteRange optional_range_of(const Span& span) {
  return {.fallback = 0, .min = 0, .step = number(span.page), .max = number(span.capacity)};
}

Device device_of(const Span& span, const NodeFacts& facts, const DeviceOptions& options) {
  const std::int64_t node = span.node.get();
  const std::string page = text_of(span.page);
  const bool is_hugetlb = span.kind.is_hugepages();
  Device out;
  out.name = device_name(span.kind, span.node);
  out.allow_multiple_allocations = true;
  out.attributes = {{std::string(kNumaNode), node},
                    {"resource.kubernetes.io/pageSize", page},
                    {"resource.kubernetes.io/hugeTLB", is_hugetlb},
                    {own("pageSize"), page},
                    {own("hugeTLB"), is_hugetlb},
                    {own("hasCPU"), facts.has_cpus},
                    {fmt::format("{}/numaNodeID", options.cpu_driver_name), node},
                    {"dra.net/numaNode", node}};
  if (facts.socket) out.attributes.emplace(own("socketID"), std::int64_t{facts.socket->get()});
  out.capacity.emplace(kSizeKey, number(span.capacity));
  out.byte_ranges.emplace(kSizeKey, range_of(span));
  if (options.node_allocatable_mapping) out.node_allocatable.emplace(resource_name(span.kind), kSizeKey);
  return out;
}

Status check(const Device& device) {
  for (const auto& [key, range] : device.byte_ranges) {
    if (Status s = check_range(device.capacity.at(key), range); !s.ok()) return s;
  }
  return device::check_limits(device);
}

topology::Warning left_out(std::string what, const Error& why) {
  return {std::move(what), why.text, "it is left out, because the API server would refuse the whole slice"};
}

// The node whose CPUs the device has; nothing for other devices.
std::optional<NumaNodeId> node_of(const Device& device, const Inventory& inventory) {
  if (!inventory.has_numa) return NumaNodeId(0);
  const auto found = device.attributes.find(std::string(kNumaNode));
  const auto* id = found == device.attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  if (id == nullptr) return std::nullopt;
  return NumaNodeId(static_cast<std::int32_t>(*id));
}

// On an error the device is as before.
Status add_capacity(Device& device, const Span& span, const DeviceOptions& options) {
  Device with = device;
  const std::string key = combined_key(span.kind);
  with.capacity.emplace(key, number(span.capacity));
  with.byte_ranges.emplace(key, optional_range_of(span));
  if (options.node_allocatable_mapping) with.node_allocatable.emplace(resource_name(span.kind), key);
  if (Status s = check(with); !s.ok()) return s;
  device = std::move(with);
  return ok_status();
}

}  // namespace

Status check_range(std::int64_t capacity, const ByteRange& range) {
  const auto broken = [&](std::string_view rule) {
    return make_error(Errc::kUnsupported, "capacity {} with minimum {}, default {}, maximum {}: {}", capacity,
                      range.min, range.fallback, range.max, rule);
  };
  if (range.min < 0 || range.min > capacity) return broken("the minimum is outside of it");
  if (range.max > capacity) return broken("the maximum is above it");
  if (range.fallback < range.min || range.fallback > range.max) return broken("the default is out of range");
  if (!range.step) return ok_status();
  if (*range.step <= 0) return broken("the step is not positive");
  if (range.min > capacity - *range.step) return broken("there is no room for one step");
  if ((range.fallback - range.min) % *range.step != 0) return broken("the default is not a number of steps");
  if ((range.max - range.min) % *range.step != 0) return broken("the maximum is not a number of steps");
  return ok_status();
}

Published separate_devices(const Inventory& inventory, const DeviceOptions& options) {
  Published out;
  std::map<Kind, std::vector<Device>> by_kind;
  for (const Span& span : inventory.spans) {
    Device device = device_of(span, inventory.nodes.at(span.node), options);
    if (Status s = check(device); !s.ok()) {
      out.warnings.push_back(left_out(device.name, s.error()));
      continue;
    }
    out.offers.push_back(
        {device.name, std::string(kSizeKey), span.kind, span.node, span.page, span.capacity});
    by_kind[span.kind].push_back(std::move(device));
  }
  for (const auto& [kind, devices] : by_kind) {
    for (device::Slice& slice : device::cut_into_slices(devices)) out.slices.push_back(std::move(slice));
  }
  return out;
}

Published combined_devices(const Inventory& inventory, std::vector<device::Slice> cpu_slices,
                           const DeviceOptions& options) {
  Published out;
  std::set<NumaNodeId> lonely;
  for (const Span& span : inventory.spans) lonely.insert(span.node);
  for (device::Slice& slice : cpu_slices) {
    for (Device& device : slice.devices) {
      const std::optional<NumaNodeId> node = node_of(device, inventory);
      if (node) lonely.erase(*node);
      for (const Span& span : inventory.spans) {
        if (span.node != node) continue;
        const std::string key = combined_key(span.kind);
        if (Status s = add_capacity(device, span, options); !s.ok()) {
          out.warnings.push_back(left_out(fmt::format("{} of {}", key, device.name), s.error()));
          continue;
        }
        out.offers.push_back({device.name, key, span.kind, span.node, span.page, span.capacity});
      }
    }
  }
  for (const NumaNodeId node : lonely) {
    out.warnings.push_back(
        {fmt::format("NUMA node {}", node.get()), "no device with CPUs is published of it",
         "its memory is not offered, because memory.mode \"combined\" offers it with CPUs"});
  }
  out.slices = std::move(cpu_slices);
  return out;
}

}  // namespace dracpu::memory
