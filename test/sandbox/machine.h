// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A machine that does not exist, as the kernel would describe it.
//
// Writes what spec topology-sysfs reads: sys/devices/system/cpu and node below a root that becomes HOST_ROOT.
// CPU n of thread t is n + t * cores, as on most servers; every node is one socket with one L3.
// Threads No state.

#ifndef DRACPU_SANDBOX_MACHINE_H_
#define DRACPU_SANDBOX_MACHINE_H_

#include <cstddef>
#include <filesystem>

#include "base/result.h"

namespace dracpu::sandbox {

struct MachineShape {
  std::size_t sockets = 1;
  std::size_t cores = 4;  // per socket
  std::size_t threads = 2;
  std::size_t hugepages = 0;  // of 2 MiB per node, all free

  std::size_t cpus() const { return sockets * cores * threads; }
};

Status write_machine(const std::filesystem::path& root, const MachineShape& shape);

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_MACHINE_H_
