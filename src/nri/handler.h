// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the NRI plugin tells its owner, and what the owner answers. No wire types here.
//
// Source  spec nri-wire sections 3 to 5.
// Threads All calls of one connection come one after the other from the plugin's worker thread, never from
// the
//         thread that reads the socket. Each call carries a deadline; the answer must be given before it.

#ifndef DRACPU_NRI_HANDLER_H_
#define DRACPU_NRI_HANDLER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/cpuset.h"
#include "base/deadline.h"
#include "base/ids.h"
#include "base/result.h"

namespace dracpu::nri {

// Of linux.resources. Members that say nothing leave the container as it is.
struct MemorySettings {
  std::string mems{};                                      // NUMA nodes in list form
  std::map<std::string, std::uint64_t> hugepage_limits{};  // page size as runtimes write it ("2MB") → bytes
  std::optional<std::int64_t> limit{};                     // bytes

  bool is_empty() const { return mems.empty() && hugepage_limits.empty() && !limit; }
  friend bool operator==(const MemorySettings&, const MemorySettings&) = default;
};

// The parts of a container and its pod that a pinning plugin reads (spec nri-wire 3.7).
struct ContainerInfo {
  ContainerId id;
  PodSandboxId sandbox;
  PodUid pod_uid;  // of the pod; the container's labels io.kubernetes.pod.* where the list lacks the pod
  std::string pod_namespace;
  std::string pod_name;
  std::string pod_cgroup{};  // below the cgroup mount, as the runtime reports it; not in Synchronize
  std::string name;  // container name; the label io.kubernetes.container.name where the field is empty
  std::vector<std::string>
      env;                  // only entries whose name begins with "DRA_CPUSET", in order, duplicates kept
  std::string cpus;         // linux.resources.cpu.cpus as the runtime has it, may be empty
  MemorySettings memory{};  // as the runtime has it
  std::vector<std::string> memory_env{};  // as `env`, of the prefix "DRAMEMORY_"
  MemorySettings asked{};                 // UpdateContainer: what it is to become
};

// A change of another, existing container. Empty `cpus` mean "unchanged" on the wire, so they are allowed
// only beside a change of memory.
struct ContainerUpdate {
  ContainerId id;
  CpuSet cpus;
  MemorySettings memory{};
};

// The answer to CreateContainer: the cpuset of the new container (empty: leave the runtime's default) and
// changes of others, shrinking ones first, each id at most once, never the new container itself.
struct CreateAnswer {
  CpuSet cpus;
  std::vector<ContainerUpdate> updates;
  MemorySettings memory{};  // of the new container
};

// From Configure.
struct RuntimeInfo {
  std::string name;
  std::string version;
  std::string nri_version;  // empty before NRI 0.12
  std::chrono::milliseconds request_timeout{2000};
};

class Handler {
 public:
  virtual ~Handler() = default;

  virtual void on_configure(const RuntimeInfo& runtime) = 0;
  // The full set, after the last chunk. The updates are applied before any hook is called.
  virtual Result<std::vector<ContainerUpdate>> on_synchronize(std::vector<ContainerInfo> containers,
                                                              Deadline deadline) = 0;
  // The Synchronize answer is on the wire: hooks may follow.
  virtual void on_synchronized() = 0;
  virtual Result<CreateAnswer> on_create(const ContainerInfo& container, Deadline deadline) = 0;
  // The cpuset to force on the container itself (`cpus` of the entry with its id) and on others. Empty: no
  // change.
  virtual Result<std::vector<ContainerUpdate>> on_update(const ContainerInfo& container,
                                                         Deadline deadline) = 0;
  virtual Result<std::vector<ContainerUpdate>> on_stop(const ContainerInfo& container, Deadline deadline) = 0;
  virtual void on_remove(const ContainerInfo& container) = 0;
  // The last answer did not do what it said: it came after its deadline (the runtime was told "no" or is
  // gone), could not be sent, or was too large for all of its updates. `created` is the container that was to
  // be made, if it was not (or was, without us: then the next Synchronize lists it); `updated` are the others
  // that were not told. A later answer may carry them again.
  virtual void on_not_applied(const std::optional<ContainerId>& created,
                              const std::vector<ContainerId>& updated) = 0;
  // The connection is gone; hooks of it no longer count. Called once per connection that was configured.
  virtual void on_disconnect(const Error& reason) = 0;
};

}  // namespace dracpu::nri

#endif  // DRACPU_NRI_HANDLER_H_
