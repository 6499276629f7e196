// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "config/load.h"
#include "config/parts.h"

namespace dracpu::config {

std::string_view name_of(DeviceMode mode) { return mode == DeviceMode::kGrouped ? "grouped" : "individual"; }

std::string_view name_of(GroupBy group_by) {
  switch (group_by) {
    case GroupBy::kNumaNode:
      return "numanode";
    case GroupBy::kSocket:
      return "socket";
    case GroupBy::kMachine:
      return "machine";
  }
  return "numanode";
}

std::string_view name_of(Allocator allocator) {
  return allocator == Allocator::kCpuManager ? "cpumanager" : "external";
}

std::string_view name_of(GrowPool grow_pool) { return grow_pool == GrowPool::kAuto ? "auto" : "nextHook"; }

std::string_view name_of(LogFormat format) { return format == LogFormat::kText ? "text" : "json"; }

std::string_view name_of(MemoryMode mode) { return mode == MemoryMode::kSeparate ? "separate" : "combined"; }

std::string_view name_of(HugetlbEnforcement enforcement) {
  switch (enforcement) {
    case HugetlbEnforcement::kNone:
      return "none";
    case HugetlbEnforcement::kContainer:
      return "container";
    case HugetlbEnforcement::kPod:
      return "pod";
  }
  return "container";
}

std::string_view name_of(MemoryLimitPolicy policy) {
  return policy == MemoryLimitPolicy::kNone ? "none" : "whenUnset";
}

std::string_view name_of(Format format) {
  switch (format) {
    case Format::kFlagsOnly:
      return "flags";
    case Format::kV1Alpha1:
      return kV1Alpha1;
    case Format::kV1Beta1:
      return kV1Beta1;
  }
  return "flags";
}

std::filesystem::path registrar_socket(const Config& config, std::string_view driver) {
  return config.runtime.kubelet_root_dir / "plugins_registry" / fmt::format("{}-reg.sock", driver);
}

std::filesystem::path state_file(const Config& config) {
  if (!config.state.file.empty()) return config.state.file;
  return config.runtime.kubelet_root_dir / "plugins" / "dracpu" / "state.json";
}

}  // namespace dracpu::config
