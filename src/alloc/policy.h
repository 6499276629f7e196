// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the kubelet's static policy does around the selector: spec cpu-allocation section 7.
//
// Hints         sets of NUMA nodes that could carry a request, the smallest possible ones preferred.
// Affinity      as much as possible from the hinted nodes (or their sockets), then the rest from what is
// left. Whole cores   refused unless the count fills cores, and unless enough cores have no reserved CPU.
// Errors        as pick(); kInvalidInput if the count is not a multiple of the threads per core, kUnsupported
// if too
//               few CPUs lie on cores without a reserved one
// Threads       Pure.

#ifndef DRACPU_ALLOC_POLICY_H_
#define DRACPU_ALLOC_POLICY_H_

#include <cstddef>
#include <vector>

#include "alloc/layout.h"
#include "alloc/pick.h"
#include "base/cpuset.h"
#include "base/ids.h"
#include "base/result.h"

namespace dracpu::alloc {

struct Hint {
  std::vector<NumaNodeId> nodes;  // ascending
  bool is_preferred = false;

  friend auto operator<=>(const Hint&, const Hint&) = default;
};

// `reusable` CPUs are held by the pod already and have to lie inside every hint. By size, then by node
// numbers. Sets of nodes are 2^N: machines of more than `kMaxHintNodes` nodes get hints of one and of all
// nodes only.
inline constexpr std::size_t kMaxHintNodes = 16;
std::vector<Hint> numa_hints(const Layout& layout, const CpuSet& available, const CpuSet& reusable,
                             std::size_t count, bool align_by_socket);

Result<CpuSet> pick_near(const Layout& layout, const CpuSet& free, std::size_t count,
                         const std::vector<NumaNodeId>& affinity, bool align_by_socket,
                         const Options& options = {});

// `shared` is what no container holds for itself, reserved CPUs included.
Result<CpuSet> pick_whole_cores(const Layout& layout, const CpuSet& shared, const CpuSet& reserved,
                                std::size_t count, const Options& options = {});

}  // namespace dracpu::alloc

#endif  // DRACPU_ALLOC_POLICY_H_
