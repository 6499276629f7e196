// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "device/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "device/encodings.h"

namespace dracpu::device {
namespace {

// Limits of resource.k8s.io/v1 (spec kubelet-dra-wire section 5.10).
constexpr std::size_t kMaxDevices = 128;
constexpr std::size_t kMaxDevicesWithLists = 64;
constexpr std::size_t kMaxProperties = 32;  // attributes and capacities
constexpr std::size_t kMaxValues = 48;      // of attributes, list elements counted one by one

constexpr std::string_view kNumaNode = "resource.kubernetes.io/numaNode";
constexpr std::string_view kPcieRoot = "resource.kubernetes.io/pcieRoot";
constexpr std::string_view kLegacyNetNumaNode = "dra.net/numaNode";

// Puts devices together; one per build.
class Builder {
 public:
  Builder(const topology::Topology& topology, const CpuSet& reserved, const BuildOptions& options)
      : topology_(topology), reserved_(reserved), options_(options) {}

  Result<BuildResult> build() {
    if (options_.mode == config::DeviceMode::kIndividual) {
      add_individual();
    } else {
      if (options_.allocator == config::Allocator::kExternal) prepare_layout();
      switch (options_.group_by) {
        case config::GroupBy::kNumaNode:
          add_nodes();
          break;
        case config::GroupBy::kSocket:
          add_sockets();
          break;
        case config::GroupBy::kMachine:
          add_machine();
          break;
      }
    }
    for (Device& device : out_.devices) {
      fit_roots(device);
      if (Status s = check_limits(device); !s.ok()) return std::move(s).error();
    }
    return std::move(out_);
  }

 private:
  std::string own(std::string_view name) const { return fmt::format("{}/{}", options_.driver_name, name); }

  static void set(Device& device, std::string name, AttributeValue value) {
    device.attributes.insert_or_assign(std::move(name), std::move(value));
  }
  void set_int(Device& device, std::string_view name, std::int64_t value) const {
    set(device, own(name), value);
  }

  void warn(std::string path, std::string found, std::string assumed) {
    out_.warnings.push_back({std::move(path), std::move(found), std::move(assumed)});
  }

  void set_node(Device& device, std::optional<NumaNodeId> node) const {
    if (!node) return;
    const std::int64_t id = node->get();
    set(device, std::string(kNumaNode), id);
    set_int(device, "numaNodeID", id);
    set(device, std::string(kLegacyNetNumaNode), id);
  }

  void set_roots(Device& device) const {
    if (!options_.expose_pcie_roots) return;
    std::vector<std::string> roots;
    for (const topology::PcieRoot& root : topology_.pcie_roots) {
      if (root.cpus.intersects(device.cpus)) roots.push_back(root.name);
    }
    if (!roots.empty()) set(device, std::string(kPcieRoot), std::move(roots));
  }

  Device grouped(std::string name, const CpuSet& members) {
    out_.managed |= members;
    Device device;
    device.name = std::move(name);
    device.cpus = members - reserved_;
    device.allow_multiple_allocations = true;
    const auto count = static_cast<std::int64_t>(device.cpus.size());
    device.capacity.emplace(cpu_capacity_name(options_.driver_name), count);
    set_int(device, "numCPUs", count);
    set(device, own("smtEnabled"), topology_.smt_enabled);
    set_roots(device);
    if (options_.allocator == config::Allocator::kExternal) set_external(device);
    return device;
  }

  void set_external(Device& device) {
    if (layout_) set(device, own(layout_->is_version_2 ? "smtLayoutV2" : "smtLayout"), layout_->text);
    if (device.cpus.empty()) return;
    std::string ids = device.cpus.to_string();
    if (ids.size() <= kMaxStringValue) {
      set(device, own("cpuIDs"), std::move(ids));
      return;
    }
    std::string words = cpu_words(device.cpus);
    if (words.size() <= kMaxStringValue) {
      warn(device.name, fmt::format("the list of its CPUs has {} characters", ids.size()),
           "published as cpuIDsV2 instead of cpuIDs");
      set(device, own("cpuIDsV2"), std::move(words));
      return;
    }
    warn(device.name, fmt::format("the list of its CPUs has {} characters", ids.size()),
         "published without cpuIDs");
  }

  void prepare_layout() {
    layout_ = smt_layout(topology_);
    if (!layout_) {
      warn("smtLayout", "threads of a core are not evenly spaced", "published without smtLayout");
    } else if (layout_->text.empty()) {
      layout_.reset();
    } else if (layout_->text.size() > kMaxStringValue) {
      warn("smtLayout", fmt::format("the text has {} characters", layout_->text.size()),
           "published without smtLayout");
      layout_.reset();
    }
  }

  // Devices of one grouping: by number, or all CPUs as 000 if the kernel tells no number at all.
  template <typename IdOf>
  std::map<std::optional<std::int64_t>, CpuSet> members_by(IdOf&& id_of) const {
    std::map<std::optional<std::int64_t>, CpuSet> out;
    for (const auto& [id, cpu] : topology_.cpus) out[id_of(cpu)].insert(id);
    return out;
  }

  void add_nodes() {
    auto groups = members_by([](const topology::Cpu& cpu) {
      return cpu.node ? std::optional<std::int64_t>(cpu.node->get()) : std::nullopt;
    });
    drop_unknown(groups, "sys/devices/system/node/node*/cpulist", "in no NUMA node", "cpudevnuma000");
    for (const auto& [id, members] : groups) {
      Device device = grouped(fmt::format("cpudevnuma{:03}", id.value_or(0)), members);
      if (device.cpus.empty()) continue;
      if (id) set_node(device, NumaNodeId(static_cast<std::int32_t>(*id)));
      set_socket_of_lowest(device);
      out_.devices.push_back(std::move(device));
    }
  }

  void add_sockets() {
    auto groups = members_by([](const topology::Cpu& cpu) {
      return cpu.socket ? std::optional<std::int64_t>(cpu.socket->get()) : std::nullopt;
    });
    drop_unknown(groups, "sys/devices/system/cpu/cpu*/topology/physical_package_id", "in no known socket",
                 "cpudevsocket000");
    for (const auto& [id, members] : groups) {
      Device device = grouped(fmt::format("cpudevsocket{:03}", id.value_or(0)), members);
      if (device.cpus.empty()) continue;
      if (id) set_int(device, "socketID", *id);
      out_.devices.push_back(std::move(device));
    }
  }

  void add_machine() { out_.devices.push_back(grouped("cpudevmachine", topology_.usable)); }

  void drop_unknown(std::map<std::optional<std::int64_t>, CpuSet>& groups, std::string_view path,
                    std::string_view what, std::string_view only_name) {
    const auto unknown = groups.find(std::nullopt);
    if (unknown == groups.end()) return;
    std::string found = fmt::format("CPUs {} are {}", unknown->second.to_string(), what);
    if (groups.size() == 1) {
      warn(std::string(path), std::move(found), fmt::format("one device {} without that number", only_name));
      return;
    }
    groups.erase(unknown);
    warn(std::string(path), std::move(found), "they are left out of all devices");
  }

  // A node is taken to lie in one socket; that of its lowest CPU is published.
  void set_socket_of_lowest(Device& device) {
    std::set<std::int64_t> sockets;
    std::optional<std::int64_t> first;
    device.cpus.for_each([&](CpuId id) {
      const std::optional<SocketId> socket = topology_.cpus.at(id).socket;
      if (!socket) return;
      if (!first) first = socket->get();
      sockets.insert(socket->get());
    });
    if (!first) return;
    set_int(device, "socketID", *first);
    if (sockets.size() > 1) {
      warn(device.name, fmt::format("its CPUs lie in {} sockets", sockets.size()),
           fmt::format("socketID {}, that of the lowest CPU", *first));
    }
  }

  // One device per CPU, siblings side by side. The number runs over what is published and is not the CPU's.
  void add_individual() {
    out_.managed = topology_.usable;
    std::size_t number = 0;
    for (const topology::Core& core : topology_.cores) {
      (core.cpus - reserved_).for_each([&](CpuId id) {
        out_.devices.push_back(individual(number++, topology_.cpus.at(id)));
      });
    }
  }

  Device individual(std::size_t number, const topology::Cpu& cpu) const {
    Device device;
    device.name = fmt::format("cpudev{:03}", number);
    device.cpus.insert(cpu.id);
    set_int(device, "cpuID", cpu.id.get());
    if (cpu.core_label) set_int(device, "coreID", *cpu.core_label);
    if (cpu.socket) set_int(device, "socketID", cpu.socket->get());
    set_node(device, cpu.node);
    set_int(device, "cacheL3ID", cpu.l3 ? topology_.l3_groups[*cpu.l3].label : -1);  // -1 as 0.3.0 has it
    set(device, own("coreType"), std::string(public_core_type(topology_, cpu)));
    set(device, own("smtEnabled"), topology_.smt_enabled);
    set_roots(device);
    return device;
  }

  // A list is an aid to choose; the node must not stay away for one that is too long.
  void fit_roots(Device& device) {
    const auto found = device.attributes.find(std::string(kPcieRoot));
    if (found == device.attributes.end()) return;
    auto& roots = std::get<std::vector<std::string>>(found->second);
    const std::size_t room = kMaxValues - std::min(kMaxValues, device.attributes.size() - 1);
    if (roots.size() <= room) return;
    warn(device.name,
         fmt::format("{} PCIe roots are near, the API takes {} with what else is told", roots.size(), room),
         fmt::format("the last {} are left out, from {} on", roots.size() - room, roots[room]));
    roots.resize(room);
  }

  const topology::Topology& topology_;
  const CpuSet& reserved_;
  const BuildOptions& options_;
  std::optional<SmtLayout> layout_;
  BuildResult out_;
};

bool has_list(const Device& device) {
  return std::any_of(device.attributes.begin(), device.attributes.end(), [](const auto& attribute) {
    return std::holds_alternative<std::vector<std::string>>(attribute.second);
  });
}

}  // namespace

Status check_limits(const Device& device) {
  const std::size_t properties = device.attributes.size() + device.capacity.size();
  if (properties > kMaxProperties) {
    return make_error(Errc::kUnsupported, "device \"{}\" has {} attributes and capacities; the API takes {}",
                      device.name, properties, kMaxProperties);
  }
  return ok_status();
}

std::string_view public_core_type(const topology::Topology& topology, const topology::Cpu& cpu) {
  const bool is_public = topology.core_type_source == topology::CoreTypeSource::kPmuDevices;
  return topology::name_of(is_public ? cpu.type : topology::CoreType::kStandard);
}

Result<BuildResult> build_devices(const topology::Topology& topology, const CpuSet& reserved,
                                  const BuildOptions& options) {
  return Builder(topology, reserved, options).build();
}

std::vector<Slice> cut_into_slices(const std::vector<Device>& devices) {
  const bool has_lists = std::any_of(devices.begin(), devices.end(), has_list);
  const std::size_t most = has_lists ? kMaxDevicesWithLists : kMaxDevices;
  std::vector<Slice> out;
  for (std::size_t begin = 0; begin < devices.size(); begin += most) {
    const std::size_t end = std::min(begin + most, devices.size());
    const auto at = [&](std::size_t i) { return devices.begin() + static_cast<std::ptrdiff_t>(i); };
    out.push_back({std::vector<Device>(at(begin), at(end))});
  }
  return out;
}

const Device* device_by_name(const std::vector<Device>& devices, std::string_view name) {
  const auto it =
      std::find_if(devices.begin(), devices.end(), [&](const Device& d) { return d.name == name; });
  return it == devices.end() ? nullptr : &*it;
}

std::string cpu_capacity_name(std::string_view driver_name) { return fmt::format("{}/cpu", driver_name); }

}  // namespace dracpu::device
