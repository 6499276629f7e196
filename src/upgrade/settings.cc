// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "upgrade/settings.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace dracpu::upgrade {
namespace {

using config::YamlNode;

// What the flat form could be thought to have: the section, and the names that were once planned for it.
constexpr std::array<std::string_view, 9> kMemoryKeys = {"memory",
                                                         "memoryEnabled",
                                                         "memoryDeviceMode",
                                                         "memoryNodes",
                                                         "reservedMemory",
                                                         "hugetlbEnforcement",
                                                         "memoryLimitPolicy",
                                                         "verifyFreeHugepages",
                                                         "memoryRescanSeconds"};

void take(const YamlNode& root, std::initializer_list<std::string_view> path, std::string& out) {
  const YamlNode* node = scalar_at(root, path);
  if (node != nullptr && !node->text.empty()) out = node->text;
}

void take(const YamlNode& root, std::initializer_list<std::string_view> path, bool& out) {
  const YamlNode* node = scalar_at(root, path);
  if (node != nullptr) out = node->text == "true";
}

void take(const std::optional<std::string>& flag, std::string& out) {
  if (flag) out = *flag;
}

}  // namespace

const YamlNode* scalar_at(const YamlNode& root, std::initializer_list<std::string_view> path) {
  const YamlNode* node = &root;
  for (const std::string_view key : path) {
    node = node->find(key);
    if (node == nullptr) return nullptr;
  }
  return node->kind == YamlNode::Kind::kScalar ? node : nullptr;
}

Settings read_settings(std::string object, const YamlNode* file, const config::Flags& flags) {
  Settings out;
  out.object = std::move(object);
  if (file != nullptr) {
    const YamlNode* version = scalar_at(*file, {"apiVersion"});
    out.is_nested = version != nullptr && version->text == "dracpu/v1beta1";
    if (out.is_nested) {
      take(*file, {"cpu", "devices"}, out.devices);
      take(*file, {"cpu", "groupBy"}, out.group_by);
      take(*file, {"cpu", "allocator"}, out.allocator);
      take(*file, {"publish", "driverName"}, out.driver_name);
      take(*file, {"publish", "pcieRoots"}, out.pcie_roots);
      take(*file, {"publish", "nodeAllocatableMapping"}, out.node_allocatable_mapping);
      take(*file, {"memory", "enabled"}, out.memory);
      take(*file, {"memory", "mode"}, out.memory_mode);
      take(*file, {"memory", "hugetlbEnforcement"}, out.hugetlb);
    } else {
      take(*file, {"cpuDeviceMode"}, out.devices);
      take(*file, {"groupBy"}, out.group_by);
      take(*file, {"allocator"}, out.allocator);
      take(*file, {"publishNodeAllocatableResourceMapping"}, out.node_allocatable_mapping);
      for (const config::YamlKey& key : file->keys) {
        if (std::find(kMemoryKeys.begin(), kMemoryKeys.end(), key.text) != kMemoryKeys.end())
          out.misplaced.push_back(key.text);
      }
    }
  }
  take(flags.cpu_device_mode, out.devices);
  take(flags.group_by, out.group_by);
  if (flags.expose_pcie_roots) out.pcie_roots = *flags.expose_pcie_roots;
  return out;
}

Settings read_settings(const StatedConfig& stated) {
  if (!stated.file) return read_settings(stated.object, nullptr, stated.flags);
  const Result<YamlNode> root = config::parse_yaml(stated.file->text);
  return read_settings(stated.object, root.ok() ? &*root : nullptr, stated.flags);
}

}  // namespace dracpu::upgrade
