// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// PCI host bridges and the CPUs near them: spec topology-sysfs section 8.

#include <algorithm>
#include <string>
#include <utility>

#include "base/strings.h"
#include "topology/parts.h"

namespace dracpu::topology {
namespace {

constexpr std::string_view kDevices = "sys/devices";

bool is_hex(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// "0000:5d", "10000:00": the domain has four digits or more.
bool is_bus_name(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon == std::string_view::npos || colon < 4) return false;
  return is_hex(name.substr(0, colon)) && name.size() == colon + 3 && is_hex(name.substr(colon + 1));
}

bool is_root_name(std::string_view name) { return name.starts_with("pci") && is_bus_name(name.substr(3)); }

// "0000:5d:05.5", a function on the bus of the root.
bool is_function_of(std::string_view name, std::string_view bus) {
  return name.size() == bus.size() + 5 && name.starts_with(bus) && name[bus.size()] == ':' &&
         name[bus.size() + 3] == '.' && is_hex(name.substr(bus.size() + 1, 2)) &&
         is_hex(name.substr(bus.size() + 4));
}

// The directory of the root that a link of class pci_bus leads to, if it is the outermost bridge and no
// function lies between it and the bus. A bridge made by a volume-management device lies inside another root
// and belongs to that one.
std::optional<std::string> root_of_link(std::string_view target) {
  std::string dir(kDevices);
  bool is_below_devices = false;
  for (const std::string_view part : split(target, '/')) {
    if (!is_below_devices) {
      is_below_devices = part == "devices";
      continue;
    }
    dir += '/';
    dir += part;
    if (is_root_name(part)) {
      return target.find(std::string(part) + "/pci_bus/") != std::string_view::npos ? std::optional(dir)
                                                                                    : std::nullopt;
    }
  }
  return std::nullopt;
}

// Bridges described by a device tree, for captures that lack the class directory.
void find_below(Files& files, const std::string& dir, int depth, std::map<std::string, std::string>& out) {
  const auto names = files.names(dir);
  if (!names) return;
  for (const std::string& name : *names) {
    if (is_root_name(name)) {
      out.emplace(name, fmt::format("{}/{}", dir, name));
    } else if (depth > 1) {
      find_below(files, fmt::format("{}/{}", dir, name), depth - 1, out);
    }
  }
}

// Name of the root → its directory.
std::map<std::string, std::string> find_roots(Files& files) {
  std::map<std::string, std::string> out;
  if (const auto names = files.names(std::string(kDevices))) {
    for (const std::string& name : *names) {
      if (is_root_name(name)) out.emplace(name, std::string(kDevices) + "/" + name);
    }
  }
  const std::string by_class = "sys/class/pci_bus";
  const auto buses = files.names(by_class);
  if (!buses) {
    find_below(files, std::string(kDevices) + "/platform", 3, out);
    return out;
  }
  for (const std::string& bus : *buses) {
    const std::optional<std::string> target = files.link(fmt::format("{}/{}", by_class, bus));
    if (!target) continue;
    if (const std::optional<std::string> dir = root_of_link(*target)) {
      out.emplace(dir->substr(dir->rfind('/') + 1), *dir);
    }
  }
  return out;
}

// What most say; of equally many, the lowest. Nothing for no votes.
template <typename T>
std::optional<T> majority(const std::map<T, std::size_t>& votes) {
  std::optional<T> best;
  std::size_t most = 0;
  for (const auto& [value, count] : votes) {
    if (count > most) {
      most = count;
      best = value;
    }
  }
  return best;
}

PcieRoot read_root(Files& files, const std::string& name, const std::string& dir, const Topology& machine) {
  PcieRoot out;
  out.name = name;
  const std::string bus = name.substr(3);
  std::vector<std::string> functions;
  if (const auto names = files.names(dir)) {
    for (const std::string& entry : *names) {
      if (is_function_of(entry, bus)) functions.push_back(entry);
    }
  }
  std::sort(functions.begin(), functions.end());

  std::map<std::int64_t, std::size_t> nodes;
  for (const std::string& function : functions) {
    if (const auto node = files.number(fmt::format("{}/{}", dir, function), "numa_node")) ++nodes[*node];
  }
  if (nodes.size() > 1) files.warn(dir, "functions name different NUMA nodes", "what most of them say");
  const std::optional<std::int64_t> node = majority(nodes);
  if (node && *node >= 0 && *node <= kMaxCpu) out.node = NumaNodeId(static_cast<std::int32_t>(*node));

  std::optional<CpuSet> cpus = files.cpus(fmt::format("{}/pci_bus/{}", dir, bus),
                                          {{.list = "cpulistaffinity", .mask = "cpuaffinity"}});
  if (!cpus) {
    std::map<CpuSet, std::size_t> sets;
    for (const std::string& function : functions) {
      if (auto set = files.cpus(fmt::format("{}/{}", dir, function),
                                {{.list = "local_cpulist", .mask = "local_cpus"}})) {
        ++sets[*set & machine.online];
      }
    }
    if (sets.size() > 1) files.warn(dir, "functions name different local CPUs", "what most of them say");
    cpus = majority(sets);
  }
  if (!cpus && out.node) {
    if (const auto it = machine.nodes.find(*out.node); it != machine.nodes.end()) cpus = it->second.cpus;
  }
  out.cpus = cpus ? *cpus & machine.online : machine.online;  // no node: local to every CPU
  return out;
}

}  // namespace

void read_pcie_roots(Files& files, Topology& out) {
  for (const auto& [name, dir] : find_roots(files))
    out.pcie_roots.push_back(read_root(files, name, dir, out));
  // By domain and bus: a longer domain is a larger one.
  std::sort(out.pcie_roots.begin(), out.pcie_roots.end(), [](const PcieRoot& a, const PcieRoot& b) {
    return std::pair(a.name.size(), a.name) < std::pair(b.name.size(), b.name);
  });
}

}  // namespace dracpu::topology
