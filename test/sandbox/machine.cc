// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "machine.h"

#include <string>

#include "base/cpuset.h"
#include "child.h"

namespace dracpu::sandbox {
namespace {

namespace fs = std::filesystem;

class Writer {
 public:
  explicit Writer(fs::path root) : root_(std::move(root)) {}

  void put(const std::string& path, const std::string& text) {
    if (!failed_.ok()) return;
    failed_ = write_text(root_ / path, text + "\n");
  }
  Status done() { return std::move(failed_); }

 private:
  fs::path root_;
  Status failed_ = ok_status();
};

CpuSet all_of(const MachineShape& shape) {
  CpuSet out;
  for (std::uint32_t cpu = 0; cpu < shape.cpus(); ++cpu) out.insert(CpuId(cpu));
  return out;
}

}  // namespace

Status write_machine(const fs::path& root, const MachineShape& shape) {
  Writer w(root);
  const std::string all = all_of(shape).to_string();
  const std::string cpu_dir = "sys/devices/system/cpu/";
  for (const char* list : {"online", "present", "possible"}) w.put(cpu_dir + list, all);
  w.put(cpu_dir + "offline", "");
  w.put(cpu_dir + "isolated", "");
  w.put(cpu_dir + "smt/control", shape.threads > 1 ? "on" : "notsupported");
  w.put(cpu_dir + "smt/active", shape.threads > 1 ? "1" : "0");
  w.put("proc/sys/kernel/random/boot_id", "5a4d0b1e-0000-4000-8000-00000000b007");

  const std::size_t cores = shape.sockets * shape.cores;
  for (std::size_t socket = 0; socket < shape.sockets; ++socket) {
    CpuSet package;
    for (std::size_t core = socket * shape.cores; core < (socket + 1) * shape.cores; ++core) {
      for (std::size_t t = 0; t < shape.threads; ++t)
        package.insert(CpuId(static_cast<std::uint32_t>(core + t * cores)));
    }
    for (std::size_t core = socket * shape.cores; core < (socket + 1) * shape.cores; ++core) {
      CpuSet siblings;
      for (std::size_t t = 0; t < shape.threads; ++t)
        siblings.insert(CpuId(static_cast<std::uint32_t>(core + t * cores)));
      siblings.for_each([&](CpuId cpu) {
        const std::string dir = fmt::format("{}cpu{}/", cpu_dir, cpu.get());
        w.put(dir + "topology/physical_package_id", std::to_string(socket));
        w.put(dir + "topology/core_id", std::to_string(core - socket * shape.cores));
        w.put(dir + "topology/die_id", "0");
        for (const char* list : {"core_cpus_list", "thread_siblings_list"}) {
          w.put(dir + "topology/" + list, siblings.to_string());
        }
        for (const char* list : {"package_cpus_list", "core_siblings_list"}) {
          w.put(dir + "topology/" + list, package.to_string());
        }
        w.put(dir + "cache/index3/level", "3");
        w.put(dir + "cache/index3/type", "Unified");
        w.put(dir + "cache/index3/id", std::to_string(socket));
        w.put(dir + "cache/index3/size", "32768K");
        w.put(dir + "cache/index3/shared_cpu_list", package.to_string());
      });
    }
    const std::string node = fmt::format("sys/devices/system/node/node{}/", socket);
    std::string distance;
    for (std::size_t other = 0; other < shape.sockets; ++other) {
      distance += fmt::format("{}{}", distance.empty() ? "" : " ", other == socket ? 10 : 21);
    }
    w.put(node + "cpulist", package.to_string());
    w.put(node + "distance", distance);
    w.put(node + "meminfo", fmt::format("Node {} MemTotal:       16777216 kB", socket));
    if (shape.hugepages == 0) continue;
    for (const char* count : {"nr_hugepages", "free_hugepages"})
      w.put(fmt::format("{}hugepages/hugepages-2048kB/{}", node, count), std::to_string(shape.hugepages));
    w.put(node + "hugepages/hugepages-2048kB/surplus_hugepages", "0");
  }
  const std::string nodes = shape.sockets == 1 ? "0" : fmt::format("0-{}", shape.sockets - 1);
  for (const char* list : {"online", "possible", "has_cpu", "has_memory"}) {
    w.put(fmt::format("sys/devices/system/node/{}", list), nodes);
  }
  w.put("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate");
  w.put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids");
  return w.done();
}

}  // namespace dracpu::sandbox
