// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "config/parts.h"

namespace dracpu::config {
namespace {

std::string quoted(const std::filesystem::path& path) { return yaml_quoted(path.string()); }

// In the words of release 0.3.0, with the three settings that only have flags, since its users look for them.
std::string print_flat(const Config& c) {
  std::string out = fmt::format("apiVersion: {}\n", kV1Alpha1);
  out += fmt::format("allocator: {}\n", name_of(c.cpu.allocator));
  out += fmt::format("bindAddress: {}\n", yaml_quoted(c.observe.bind_address));
  out += fmt::format("cpuDeviceMode: {}\n", name_of(c.cpu.devices));
  out += fmt::format("exposePCIeRoots: {}\n", c.publish.pcie_roots);
  out += fmt::format("groupBy: {}\n", name_of(c.cpu.group_by));
  out += fmt::format("hostnameOverride: {}\n", yaml_quoted(c.node.name));
  out += fmt::format("kubeconfig: {}\n", quoted(c.runtime.kubeconfig));
  out += fmt::format("kubeletRootDir: {}\n", quoted(c.runtime.kubelet_root_dir));
  out += fmt::format("publishNodeAllocatableResourceMapping: {}\n", c.publish.node_allocatable_mapping);
  out += fmt::format("reservedCPUs: {}\n", yaml_quoted(c.node.reserved_cpus.to_string()));
  out += fmt::format("sysfsOverlay: {}\n", quoted(c.node.sysfs_overlay));
  return out;
}

std::string print_nested(const Config& c) {
  std::string out = fmt::format("apiVersion: {}\nkind: DriverConfiguration\n", kV1Beta1);
  std::string_view section;
  for (const FieldText& field : fields_of(c)) {
    if (field.section != section) out += fmt::format("{}:\n", field.section);
    section = field.section;
    out += fmt::format("  {}: {}\n", field.key, field.value);
  }
  return out;
}

}  // namespace

std::vector<FieldText> fields_of(const Config& c) {
  const Config d;
  const auto reserved = [](const CpuSet& cpus) {
    return yaml_quoted(cpus.empty() ? "none" : cpus.to_string());
  };
  const auto yes = [](bool b) { return std::string(b ? "true" : "false"); };
  const auto word = [](auto e) { return std::string(name_of(e)); };
  // Where the state lies follows from the kubelet's root unless it is stated.
  Config unstated = c;
  unstated.state.file.clear();
  return {
      {"node", "name", "hostnameOverride", yaml_quoted(c.node.name), yaml_quoted(d.node.name)},
      {"node", "reservedCPUs", "reservedCPUs", reserved(c.node.reserved_cpus), ""},  // has to be stated
      {"node", "sysfsOverlay", "sysfsOverlay", quoted(c.node.sysfs_overlay), quoted(d.node.sysfs_overlay)},
      {"cpu", "devices", "cpuDeviceMode", word(c.cpu.devices), word(d.cpu.devices)},
      {"cpu", "groupBy", "groupBy", word(c.cpu.group_by), word(d.cpu.group_by)},
      {"cpu", "allocator", "allocator", word(c.cpu.allocator), word(d.cpu.allocator)},
      {"cpu", "preferL3", "", yes(c.cpu.prefer_l3), yes(d.cpu.prefer_l3)},
      {"publish", "driverName", "", yaml_quoted(c.publish.driver_name), yaml_quoted(d.publish.driver_name)},
      {"publish", "pcieRoots", "", yes(c.publish.pcie_roots), yes(d.publish.pcie_roots)},
      {"publish", "nodeAllocatableMapping", "publishNodeAllocatableResourceMapping",
       yes(c.publish.node_allocatable_mapping), yes(d.publish.node_allocatable_mapping)},
      {"memory", "enabled", "", yes(c.memory.enabled), yes(d.memory.enabled)},
      {"memory", "mode", "", word(c.memory.mode), word(d.memory.mode)},
      {"memory", "nodes", "", yaml_quoted(c.memory.nodes), yaml_quoted(d.memory.nodes)},
      {"memory", "reserved", "", yaml_quoted(c.memory.reserved), yaml_quoted(d.memory.reserved)},
      {"memory", "hugetlbEnforcement", "", word(c.memory.hugetlb), word(d.memory.hugetlb)},
      {"memory", "limitPolicy", "", word(c.memory.limit), word(d.memory.limit)},
      {"memory", "verifyFreeHugepages", "", yes(c.memory.verify_free_hugepages),
       yes(d.memory.verify_free_hugepages)},
      {"memory", "rescanSeconds", "", fmt::format("{}", c.memory.rescan_seconds),
       fmt::format("{}", d.memory.rescan_seconds)},
      {"state", "file", "", quoted(state_file(c)), quoted(state_file(unstated))},
      {"runtime", "kubeletRootDir", "", quoted(c.runtime.kubelet_root_dir),
       quoted(d.runtime.kubelet_root_dir)},
      {"runtime", "nriSocket", "", quoted(c.runtime.nri_socket), quoted(d.runtime.nri_socket)},
      {"runtime", "cdiDir", "", quoted(c.runtime.cdi_dir), quoted(d.runtime.cdi_dir)},
      {"runtime", "kubeconfig", "kubeconfig", quoted(c.runtime.kubeconfig), quoted(d.runtime.kubeconfig)},
      {"runtime", "growPool", "", word(c.runtime.grow_pool), word(d.runtime.grow_pool)},
      {"observe", "bindAddress", "", yaml_quoted(c.observe.bind_address),
       yaml_quoted(d.observe.bind_address)},
      {"observe", "statusPage", "", yaml_quoted(c.observe.status_page), yaml_quoted(d.observe.status_page)},
      {"observe", "events", "", yes(c.observe.events), yes(d.observe.events)},
      {"observe", "logFormat", "", word(c.observe.log_format), word(d.observe.log_format)},
      {"observe", "verbosity", "", fmt::format("{}", c.observe.verbosity),
       fmt::format("{}", d.observe.verbosity)},
  };
}

std::string to_yaml(const Config& config) {
  return config.format == Format::kV1Beta1 ? print_nested(config) : print_flat(config);
}

}  // namespace dracpu::config
