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
  const std::string reserved = c.node.reserved_cpus.empty() ? "none" : c.node.reserved_cpus.to_string();
  std::string out = fmt::format("apiVersion: {}\nkind: DriverConfiguration\n", kV1Beta1);
  out += fmt::format("node:\n  name: {}\n  reservedCPUs: {}\n  sysfsOverlay: {}\n", yaml_quoted(c.node.name),
                     yaml_quoted(reserved), quoted(c.node.sysfs_overlay));
  out +=
      fmt::format("cpu:\n  devices: {}\n  groupBy: {}\n  allocator: {}\n  preferL3: {}\n",
                  name_of(c.cpu.devices), name_of(c.cpu.group_by), name_of(c.cpu.allocator), c.cpu.prefer_l3);
  out += fmt::format("publish:\n  driverName: {}\n  pcieRoots: {}\n  nodeAllocatableMapping: {}\n",
                     yaml_quoted(c.publish.driver_name), c.publish.pcie_roots,
                     c.publish.node_allocatable_mapping);
  out += "memory:\n  enabled: false\n";
  out += fmt::format("state:\n  file: {}\n", quoted(state_file(c)));
  out += fmt::format(
      "runtime:\n  kubeletRootDir: {}\n  nriSocket: {}\n  cdiDir: {}\n  kubeconfig: {}\n  growPool: {}\n",
      quoted(c.runtime.kubelet_root_dir), quoted(c.runtime.nri_socket), quoted(c.runtime.cdi_dir),
      quoted(c.runtime.kubeconfig), name_of(c.runtime.grow_pool));
  out += fmt::format(
      "observe:\n  bindAddress: {}\n  statusPage: {}\n  events: {}\n  logFormat: {}\n  verbosity: {}\n",
      yaml_quoted(c.observe.bind_address), yaml_quoted(c.observe.status_page), c.observe.events,
      name_of(c.observe.log_format), c.observe.verbosity);
  return out;
}

}  // namespace

std::string to_yaml(const Config& config) {
  return config.format == Format::kV1Beta1 ? print_nested(config) : print_flat(config);
}

}  // namespace dracpu::config
