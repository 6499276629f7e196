// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Raises hugepage limits of pods in the node's cgroup tree, for memory.hugetlbEnforcement "pod".
//
// Files of the kernel only, so a hook may wait for it. What was there before, and what each container adds,
// is kept in an attribute of the cgroup (user.dracpu.hugetlb.2MB, Linux 5.7): no state of ours can be older
// or newer than the cgroup. The attribute comes before the limit, rsvd.max before max; a limit is never
// lowered. Errors  kUnsupported  the tree is not mounted here, or not writable
//         kInvalidInput the path leads out of it or over a link
//         kUnavailable, kNotFound, kCorrupt as the files are
// Threads One at a time.

#ifndef DRACPU_AGENT_POD_CGROUPS_H_
#define DRACPU_AGENT_POD_CGROUPS_H_

#include <filesystem>
#include <string>
#include <string_view>

#include "agent/node.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "memory/pod_limits.h"

namespace dracpu::agent {

class PodCgroups {
 public:
  // `mount` is that of the unified hierarchy.
  static Result<PodCgroups> open(const std::filesystem::path& mount);

  // Lets the pod have what a container of this name claims of one page size ("2MB"). `parent` as the runtime
  // reports it. The same again changes nothing.
  Status allow(std::string_view parent, const std::string& page, const std::string& container,
               const memory::ContainerShare& share) const;

 private:
  explicit PodCgroups(UniqueFd root) : root_(std::move(root)) {}

  UniqueFd root_;
};

// Of this node, where its list of mounts says.
Result<PodCgroups> open_pod_cgroups(const Node& node);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_POD_CGROUPS_H_
