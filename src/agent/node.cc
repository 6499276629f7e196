// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/node.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "alloc/pick.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/strings.h"
#include "config/overlay.h"
#include "device/build.h"
#include "topology/reader.h"

namespace dracpu::agent {
namespace {

Result<std::string> node_name(const config::Config& config) {
  if (!config.node.name.empty()) return config.node.name;
  std::array<char, 256> buffer{};
  if (::gethostname(buffer.data(), buffer.size() - 1) != 0) {
    return make_error(Errc::kUnavailable, "reading the host name: {}; set node.name or --hostname-override",
                      errno_text(errno));
  }
  std::string name(trim(buffer.data()));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.empty())
    return make_error(Errc::kInvalidInput, "the host name is empty; set node.name or --hostname-override");
  if (!is_dns_subdomain(name)) {
    return make_error(Errc::kInvalidInput,
                      "the host name {} cannot be a node's name; set node.name or --hostname-override",
                      in_quotes(name));
  }
  return name;
}

}  // namespace

Result<topology::ReadOptions> machine_files(const std::filesystem::path& root,
                                            const std::filesystem::path& overlay) {
  topology::ReadOptions out;
  if (!root.empty()) out.root = root;
  if (!overlay.empty()) {
    Result<config::OverlayFiles> files = config::read_overlay(overlay);
    if (!files.ok()) return std::move(files).error();
    out.overlay = *std::move(files);
  }
  return out;
}

std::string boot_id() {
  Result<std::string> id = read_file("/proc/sys/kernel/random/boot_id");
  return id.ok() ? std::string(trim(*id)) : std::string();
}

Result<Node> build_node(const config::Config& config) {
  Node out;
  out.config = config;
  Result<std::string> name = node_name(config);
  if (!name.ok()) return std::move(name).error();
  out.name = *std::move(name);
  Result<topology::ReadOptions> files = machine_files(config.node.host_root, config.node.sysfs_overlay);
  if (!files.ok()) return std::move(files).error();
  out.files = *std::move(files);
  return out;
}

Result<std::shared_ptr<const Machine>> read_machine(const Node& node) {
  Result<topology::Topology> topology = topology::read_topology(node.files);
  if (!topology.ok()) return std::move(topology).error();
  auto out = std::make_shared<Machine>();
  out->topology = *std::move(topology);
  device::BuildOptions options;
  options.mode = node.config.cpu.devices;
  options.group_by = node.config.cpu.group_by;
  options.allocator = node.config.cpu.allocator;
  options.expose_pcie_roots = node.config.publish.pcie_roots;
  options.driver_name = node.config.publish.driver_name;
  Result<device::BuildResult> built =
      device::build_devices(out->topology, node.config.node.reserved_cpus, options);
  if (!built.ok()) return std::move(built).error().while_doing("building the devices");
  out->devices = std::move(built->devices);
  out->managed = std::move(built->managed);
  for (const std::vector<topology::Warning>* list : {&out->topology.warnings, &built->warnings}) {
    for (const topology::Warning& w : *list) {
      out->warnings.push_back(fmt::format("{}: {}; {}", w.path, w.found, w.assumed));
    }
  }
  out->layout = std::make_shared<const alloc::Layout>(out->topology);
  if (node.config.memory.enabled) {
    Result<std::shared_ptr<const MemoryView>> memory = read_memory_view(node, *out);
    if (!memory.ok()) return std::move(memory).error();
    out->memory = *std::move(memory);
    for (const auto* list : {&out->memory->inventory.warnings, &out->memory->published.warnings}) {
      for (const topology::Warning& w : *list)
        out->warnings.push_back(fmt::format("{}: {}; {}", w.path, w.found, w.assumed));
    }
  }
  return std::shared_ptr<const Machine>(std::move(out));
}

ledger::Picker picker_for(const Node& node, const Machine& machine) {
  alloc::Options options;
  options.prefer_caches = node.config.cpu.prefer_l3;
  return [layout = machine.layout, options](const CpuSet& free, std::size_t n) {
    return alloc::pick(*layout, free, n, options);
  };
}

}  // namespace dracpu::agent
