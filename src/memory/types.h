// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What memory is counted in, and how its kinds are spelled.
//
// A kind is base memory or the hugepages of one size. The same size has several spellings:
//
//   Kubernetes resource, attribute values   hugepages-2Mi, 2Mi
//   device name                             hugepages-2mi-numa000
//   DeviceClass of the chart                dra.hugepages-2m
//   environment, capacity of a CPU device   hugepages_2Mi
//   sysfs                                   hugepages-2048kB (topology/memory.h)
//   runtimes and cgroup files               2MB
//
// Errors  Readers of names give nothing for a text that no writer here would write.
// Threads Values and functions without state.

#ifndef DRACPU_MEMORY_TYPES_H_
#define DRACPU_MEMORY_TYPES_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/ids.h"

namespace dracpu::memory {

// The driver that serves memory beside the CPUs; the domain of its attributes and capacities.
inline constexpr std::string_view kDriverName = "dra.memory";

struct Bytes {
  std::uint64_t count = 0;
  friend constexpr auto operator<=>(const Bytes&, const Bytes&) = default;
};

// The API counts in signed 64-bit numbers; larger amounts are refused where they come in.
inline constexpr Bytes kMostBytes{INT64_MAX};

// Sums stop at the largest number instead of starting over.
constexpr Bytes operator+(Bytes a, Bytes b) {
  return {a.count > UINT64_MAX - b.count ? UINT64_MAX : a.count + b.count};
}
constexpr Bytes& operator+=(Bytes& a, Bytes b) { return a = a + b; }
// Nothing is less than nothing.
constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count > b.count ? a.count - b.count : 0}; }
constexpr bool is_multiple(Bytes amount, Bytes of) { return of.count != 0 && amount.count % of.count == 0; }

// "512Mi": binary suffixes while the number stays whole.
std::string text_of(Bytes amount);

class Kind {
 public:
  constexpr Kind() = default;  // base memory
  static constexpr Kind hugepages(Bytes page) { return Kind(page); }

  constexpr bool is_hugepages() const { return page_.count != 0; }
  // Of hugepages; base memory has the machine's page size, which is no part of its name.
  constexpr Bytes page() const { return page_; }
  // Base memory first, then hugepages by ascending size: the order in which they are published.
  friend constexpr auto operator<=>(const Kind&, const Kind&) = default;

 private:
  constexpr explicit Kind(Bytes page) : page_(page) {}
  Bytes page_;
};

// An amount per kind and node: what a claim holds, or what a configuration reserves.
using Amounts = std::map<Kind, std::map<NumaNodeId, Bytes>>;

// All nodes of all kinds.
std::set<NumaNodeId> nodes_of(const Amounts& amounts);
Bytes total_of(const Amounts& amounts, Kind kind);

// "memory", "hugepages-2Mi".
std::string resource_name(Kind kind);
std::optional<Kind> kind_of_resource(std::string_view name);
// "memory", "hugepages_2Mi".
std::string variable_name(Kind kind);
std::optional<Kind> kind_of_variable(std::string_view name);
// "memory-numa000", "hugepages-2mi-numa000".
std::string device_name(Kind kind, NumaNodeId node);
// "dra.memory", "dra.hugepages-2m".
std::string class_name(Kind kind);
std::optional<Kind> kind_of_class(std::string_view name);
// "size", the capacity of a memory device; on a device that has CPUs, too: "dra.memory/hugepages_2Mi".
inline constexpr std::string_view kSizeKey = "size";
std::string combined_key(Kind kind);
// Whether a capacity is of memory on a device that has CPUs, known or not.
bool is_combined_key(std::string_view key);
// "2MB": whole GB, MB or KB in powers of 1024, as the kernel names cgroup files.
std::string runtime_page_size(Bytes page);

// "0-1,4", the kernel's list form; the same set back, or nothing for what is not one.
std::string list_of(const std::set<NumaNodeId>& nodes);
std::optional<std::set<NumaNodeId>> nodes_in_list(std::string_view text);

}  // namespace dracpu::memory

#endif  // DRACPU_MEMORY_TYPES_H_
