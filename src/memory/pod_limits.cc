// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/pod_limits.h"

#include "base/strings.h"

namespace dracpu::memory {

std::optional<Bytes> pod_limit(const std::optional<Bytes>& baseline,
                               const std::vector<ContainerShare>& containers) {
  if (!baseline) return std::nullopt;
  Bytes out = *baseline;
  for (const ContainerShare& container : containers) out += container.claimed - container.own_limit;
  return out;
}

Result<std::string> path_below_mount(std::string_view cgroup_parent) {
  std::string out;
  for (const std::string_view part : split(cgroup_parent, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == ".." || part.find('\0') != std::string_view::npos) {
      return make_error(Errc::kInvalidInput, "cgroup parent \"{}\" leads out of the cgroup mount",
                        cgroup_parent);
    }
    if (!out.empty()) out += '/';
    out += part;
  }
  if (out.empty()) return make_error(Errc::kInvalidInput, "the pod has no cgroup parent");
  return out;
}

}  // namespace dracpu::memory
