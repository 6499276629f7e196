// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What a container is to have because of its memory claims: NUMA nodes, hugepage limits, a memory limit.
//
// Rules   Nodes are the union over the claims. A hugepage limit is the larger of what the kubelet asked for
// and
//         the sum of the claims; sizes that are not claimed are left alone. A memory limit is set only if
//         there is none and the policy says so. A container without a memory claim is not touched.
// Errors  kInvalidInput  a variable is malformed
//         kConflict      a claim is not prepared for the pod, says something else than is held, or has
//         another
//                        owner; the kubelet pinned the container elsewhere
//         kUnavailable   a node has no memory at the moment
// Threads None: the caller holds the lock that guards the accounts.

#ifndef DRACPU_MEMORY_ADJUST_H_
#define DRACPU_MEMORY_ADJUST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "config/config.h"
#include "memory/accounts.h"
#include "memory/types.h"

namespace dracpu::memory {

// As the runtime has it, or as somebody asks it to be.
struct Resources {
  std::string mems;                                        // list of nodes; empty: not set
  std::map<std::string, std::uint64_t> hugepage_limits{};  // "2MB" → bytes
  std::optional<std::int64_t> memory_limit{};
};

struct ContainerFacts {
  Owner who;
  const std::vector<std::string>* env = nullptr;
  Resources resources;
};

struct Policy {
  config::HugetlbEnforcement hugetlb = config::HugetlbEnforcement::kContainer;
  config::MemoryLimitPolicy limit = config::MemoryLimitPolicy::kNone;
};

// Members that say nothing leave the container as it is.
struct Adjustment {
  std::string mems;
  std::map<std::string, std::uint64_t> hugepage_limits{};
  std::optional<std::int64_t> memory_limit{};

  bool is_empty() const { return mems.empty() && hugepage_limits.empty() && !memory_limit; }
  friend bool operator==(const Adjustment&, const Adjustment&) = default;
};

// For CreateContainer. Nothing is bound yet: if the rest of the answer stands, too, the caller binds `claims`
// to the container, and writes `adjustment` beside the CPUs.
struct Placement {
  std::vector<ClaimUid> claims;  // empty: the container has no memory claims
  Adjustment adjustment;
  std::map<std::string, std::uint64_t> claimed_hugepages{};  // "2MB" → what its claims have, where enforced
};
// Why not, for counters.
enum class Refusal { kMalformed, kUnprepared, kMismatch, kOwned, kOffline, kKubeletMems };
// `why` is set with an error; null: not asked for.
Result<Placement> place(const Accounts& accounts, const ContainerFacts& container,
                        const std::set<NumaNodeId>& nodes_with_memory, const Policy& policy,
                        Refusal* why = nullptr);

// For Synchronize: binds owners, and says which containers are not as they should be.
struct SyncFinding {
  std::size_t index = 0;  // of the container in the list that was given
  Error what;
};
struct SyncUpdate {
  std::size_t index = 0;
  Adjustment adjustment;
};
struct Synchronized {
  std::vector<SyncUpdate> updates;    // only what differs
  std::vector<SyncFinding> findings;  // those containers have no claims from then on
  // Containers of which the runtime shows no limit for a claimed hugepage size: it drops such limits.
  std::vector<std::size_t> without_limit;
  std::vector<ClaimUid> bound;  // claims that had no owner before: worth saving
};
Synchronized synchronize(Accounts& accounts, const std::vector<ContainerFacts>& containers,
                         const Policy& policy);

// For UpdateContainer: what is to be put right in `asked`. Empty if it respects the claims.
Adjustment correct(const Accounts& accounts, const Owner& who, const Resources& asked, const Policy& policy);

}  // namespace dracpu::memory

#endif  // DRACPU_MEMORY_ADJUST_H_
