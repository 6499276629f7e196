// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What must hold before memory is served: settings that fit each other, and a kernel that can enforce them.
//
// Input   Texts of /proc/self/mountinfo and of cgroup.controllers in the unified mount.
// Rules   The unified hierarchy is a mount of type cgroup2 while no version 1 hierarchy has one of the
//         controllers that memory needs. All mounts of cgroup2 share one superblock, so it does not matter
//         how many of them are visible.
// Errors  kInvalidInput  settings
//         kUnsupported   the kernel or how it was set up
// Threads Pure.

#ifndef DRACPU_MEMORY_PREFLIGHT_H_
#define DRACPU_MEMORY_PREFLIGHT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "config/config.h"

namespace dracpu::memory {

// memory.mode against the CPU's settings.
Status check_mode(config::MemoryMode mode, config::DeviceMode devices, config::GroupBy group_by);
// memory.rescanSeconds.
Status check_rescan_seconds(std::int64_t seconds);

// The mount point of the unified hierarchy, if memory can be served on it.
Result<std::string> find_cgroup_mount(std::string_view mountinfo);

// memory.hugetlbEnforcement against the controllers of the kernel. Only where a hugepage device is published.
Status check_hugetlb(config::HugetlbEnforcement enforcement, std::string_view controllers);

}  // namespace dracpu::memory

#endif  // DRACPU_MEMORY_PREFLIGHT_H_
