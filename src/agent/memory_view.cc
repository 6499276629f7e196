// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include <unistd.h>

#include <algorithm>

#include "agent/node.h"
#include "agent/pod_cgroups.h"
#include "base/file.h"
#include "device/build.h"
#include "memory/preflight.h"
#include "memory/reserved.h"

namespace dracpu::agent {
namespace {

Result<memory::Selection> selection_of(const config::Config::Memory& config) {
  memory::Selection out;
  Result<std::set<NumaNodeId>> nodes = memory::parse_nodes(config.nodes);
  if (!nodes.ok()) return std::move(nodes).error();
  Result<memory::Amounts> reserved = memory::parse_reserved(config.reserved);
  if (!reserved.ok()) return std::move(reserved).error();
  out.nodes = *std::move(nodes);
  out.reserved = *std::move(reserved);
  if (const long page = ::sysconf(_SC_PAGESIZE); page > 0) out.base_page = {static_cast<std::uint64_t>(page)};
  return out;
}

// Of the unified hierarchy, if memory can be served on it.
Result<std::filesystem::path> cgroup_mount(const Node& node) {
  const Result<std::string> mounts = read_file(node.files.root / "proc/self/mountinfo");
  if (!mounts.ok()) return mounts.error();
  const Result<std::string> mount = memory::find_cgroup_mount(*mounts);
  if (!mount.ok()) return mount.error();
  return node.files.root / std::filesystem::path(*mount).relative_path();
}

memory::DeviceOptions device_options(const Node& node) {
  return {.cpu_driver_name = node.config.publish.driver_name,
          .node_allocatable_mapping = node.config.publish.node_allocatable_mapping};
}

}  // namespace

bool comes_with_memory(const config::Config& config) {
  return config.memory.enabled && config.memory.mode == config::MemoryMode::kCombined;
}

std::vector<device::Slice> cpu_slices(const Node& node, const Machine& machine,
                                      const memory::Inventory* memory) {
  std::vector<device::Slice> out = device::cut_into_slices(machine.devices);
  if (memory == nullptr || !comes_with_memory(node.config)) return out;
  return memory::combined_devices(*memory, std::move(out), device_options(node)).slices;
}

Result<std::shared_ptr<const MemoryView>> read_memory_view(const Node& node, const Machine& machine) {
  const Result<memory::Selection> selection = selection_of(node.config.memory);
  if (!selection.ok()) return selection.error();
  Result<topology::MachineMemory> read = topology::read_memory(node.files);
  if (!read.ok()) return std::move(read).error();
  auto out = std::make_shared<MemoryView>();
  out->machine = *std::move(read);
  Result<memory::Inventory> inventory = memory::take_inventory(out->machine, machine.topology, *selection);
  if (!inventory.ok()) return std::move(inventory).error();
  out->inventory = *std::move(inventory);
  out->published = comes_with_memory(node.config)
                       ? memory::combined_devices(out->inventory, device::cut_into_slices(machine.devices),
                                                  device_options(node))
                       : memory::separate_devices(out->inventory, device_options(node));
  return std::shared_ptr<const MemoryView>(std::move(out));
}

Status check_memory_settings(const Node& node, const Machine& machine) {
  if (!machine.memory) return ok_status();
  const Result<memory::Selection> selection = selection_of(node.config.memory);
  if (!selection.ok()) return selection.error();
  if (Status s = memory::check_nodes(selection->nodes, machine.memory->machine); !s.ok()) return s;
  return memory::check_reserved(selection->reserved, machine.memory->machine);
}

Result<PodCgroups> open_pod_cgroups(const Node& node) {
  const Result<std::filesystem::path> mount = cgroup_mount(node);
  if (!mount.ok()) return mount.error();
  return PodCgroups::open(*mount);
}

Status check_memory(const Node& node, const Machine& machine) {
  if (!machine.memory) return ok_status();
  if (Status s = check_memory_settings(node, machine); !s.ok()) return s;
  const Result<std::filesystem::path> mount = cgroup_mount(node);
  if (!mount.ok()) return mount.error();
  if (node.config.memory.hugetlb == config::HugetlbEnforcement::kPod) {
    if (const Result<PodCgroups> cgroups = open_pod_cgroups(node); !cgroups.ok()) return cgroups.error();
  }
  const std::vector<memory::Span>& spans = machine.memory->inventory.spans;
  if (std::none_of(spans.begin(), spans.end(), [](const auto& s) { return s.kind.is_hugepages(); }))
    return ok_status();
  const Result<std::string> controllers = read_file(*mount / "cgroup.controllers");
  if (!controllers.ok()) return controllers.error();
  return memory::check_hugetlb(node.config.memory.hugetlb, *controllers);
}

}  // namespace dracpu::agent
