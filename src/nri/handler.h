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

#include <optional>
#include <string>
#include <vector>

#include "base/cpuset.h"
#include "base/deadline.h"
#include "base/ids.h"
#include "base/result.h"

namespace dracpu::nri {

// The parts of a container and its pod that a pinning plugin reads (spec nri-wire 3.7).
struct ContainerInfo {
  ContainerId id;
  PodSandboxId sandbox;
  PodUid pod_uid;  // of the pod; the container's labels io.kubernetes.pod.* where the list lacks the pod
  std::string pod_namespace;
  std::string pod_name;
  std::string name;  // container name; the label io.kubernetes.container.name where the field is empty
  std::vector<std::string>
      env;           // only entries whose name begins with "DRA_CPUSET", in order, duplicates kept
  std::string cpus;  // linux.resources.cpu.cpus as the runtime has it, may be empty
  std::string mems;
};

// A change of another, existing container. `cpus` is never empty: on the wire that would mean "unchanged".
struct ContainerUpdate {
  ContainerId id;
  CpuSet cpus;
  std::string mems{};  // NUMA nodes in list form; empty: as they are
};

// The answer to CreateContainer: the cpuset of the new container (empty: leave the runtime's default) and
// changes of others, shrinking ones first, each id at most once, never the new container itself.
struct CreateAnswer {
  CpuSet cpus;
  std::vector<ContainerUpdate> updates;
  std::string mems{};  // NUMA nodes of the new container in list form; empty: the runtime's default
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
