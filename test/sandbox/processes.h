// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Containers as real processes on real CPUs of this machine.
//
// How     In a cpuset cgroup made below this process's own, v1 or v2, where the kernel gives children one
// without
//         any change to what is there; otherwise with sched_setaffinity. way() says which. The groups are
//         removed at the end.
// Threads One caller at a time (the runtime's hook lock).

#ifndef DRACPU_SANDBOX_PROCESSES_H_
#define DRACPU_SANDBOX_PROCESSES_H_

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/cpuset.h"
#include "child.h"
#include "runtime.h"

namespace dracpu::sandbox {

// The CPUs that a process may run on, from /proc/PID/status.
Result<CpuSet> allowed_cpus(pid_t pid);

class Processes final : public ProcessHost {
 public:
  // `program` is started for every container and must wait to be killed. `name` is the group's name.
  Processes(std::vector<std::string> program, const std::string& name, std::filesystem::path log);
  ~Processes() override;
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  Result<pid_t> start(const std::string& id, const std::string& cpus,
                      const std::vector<std::string>& env) override;
  Status set_cpus(const std::string& id, const std::string& cpus) override;
  void stop(const std::string& id) override;

  const std::string& way() const { return way_; }

 private:
  std::filesystem::path group_of(const std::string& id) const { return group_ / id.substr(0, 12); }
  Status make_group(const std::filesystem::path& group, const std::string& cpus) const;
  Status confine(const std::string& id, pid_t pid, const std::string& cpus) const;

  const std::vector<std::string> program_;
  const std::filesystem::path log_;
  std::filesystem::path group_;  // empty: sched_setaffinity
  bool second_version_ = false;  // cgroup v2
  std::string mems_;
  std::string way_ = "sched_setaffinity";
  CpuSet all_;
  std::map<std::string, Child> running_;
};

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_PROCESSES_H_
