// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What a pod's cgroup must allow in hugepages, for memory.hugetlbEnforcement "pod": which value, and where.
//
// The kubelet gives a pod the sum of its containers' own hugepage limits. What claims add to a container
// beyond its own limit must be added to the pod's, and nothing more: a pod that states its claim in its spec,
// too, has the room already. The value is made anew from the baseline each time, never from what is read. The
// baseline and the containers are noted with the cgroup itself, so they live and end with it.
//
// Errors  kInvalidInput  a cgroup parent that leads out of the mount
//         kCorrupt       a note or a limit that nobody here wrote
// Threads Pure.

#ifndef DRACPU_MEMORY_POD_LIMITS_H_
#define DRACPU_MEMORY_POD_LIMITS_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "memory/types.h"

namespace dracpu::memory {

// One container of the pod and one page size.
struct ContainerShare {
  Bytes claimed;
  Bytes own_limit;  // from the kubelet

  friend bool operator==(const ContainerShare&, const ContainerShare&) = default;
};

// What is known of one page size of a pod.
struct PodNote {
  std::optional<Bytes> baseline;  // the limit before our first write; nothing: "max"
  std::map<std::string, ContainerShare> containers{};

  friend bool operator==(const PodNote&, const PodNote&) = default;
};

// What the pod's limit must be; nothing if there is no limit to raise.
std::optional<Bytes> pod_limit(const PodNote& note);

// "0 main=67108864/0 side=2097152/2097152".
std::string format_note(const PodNote& note);
Result<PodNote> parse_note(std::string_view text);
// A file of the kernel such as hugetlb.2MB.max; nothing: "max".
Result<std::optional<Bytes>> parse_limit(std::string_view text);

// The path below the cgroup mount of a pod's parent as the runtime reports it: no leading slash, no empty
// parts. Links are a matter of whoever opens it.
Result<std::string> path_below_mount(std::string_view cgroup_parent);

}  // namespace dracpu::memory

#endif  // DRACPU_MEMORY_POD_LIMITS_H_
