// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What a pod's cgroup must allow in hugepages, for memory.hugetlbEnforcement "pod": which value, and where.
//
// The kubelet gives a pod the sum of its containers' own hugepage limits. What claims add to a container
// beyond its own limit must be added to the pod's, and nothing more: a pod that states its claim in its spec,
// too, has the room already. The value is made anew from the baseline each time, never from what is read.
//
// Errors  kInvalidInput  a cgroup parent that leads out of the mount
// Threads Pure.

#ifndef DRACPU_MEMORY_POD_LIMITS_H_
#define DRACPU_MEMORY_POD_LIMITS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "memory/types.h"

namespace dracpu::memory {

// One container of the pod and one page size.
struct ContainerShare {
  Bytes claimed;
  Bytes own_limit;  // from the kubelet
};

// What the pod's limit must be; nothing if there is no limit to raise. `baseline`: before our first write,
// empty for "max".
std::optional<Bytes> pod_limit(const std::optional<Bytes>& baseline,
                               const std::vector<ContainerShare>& containers);

// The path below the cgroup mount of a pod's parent as the runtime reports it: no leading slash, no empty
// parts. Links are a matter of whoever opens it.
Result<std::string> path_below_mount(std::string_view cgroup_parent);

}  // namespace dracpu::memory

#endif  // DRACPU_MEMORY_POD_LIMITS_H_
