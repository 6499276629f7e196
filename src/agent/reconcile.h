// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Which claims hold which CPUs after a restart, from what the disk says (DESIGN 5, RULINGS 8 and 9).
//
// Own state counts. But a CDI file of a claim that it does not know shows that another driver worked
// meanwhile: then the state is stale, and CDI files win where the two disagree. Where a single claim
// disagrees and nothing else is odd, the state counts, unless a container runs with what the file says:
// that is found at Synchronize (`disputed`).
//
// Threads Pure.

#ifndef DRACPU_AGENT_RECONCILE_H_
#define DRACPU_AGENT_RECONCILE_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/cpuset.h"
#include "base/ids.h"
#include "cdi/directory.h"
#include "ledger/ledger.h"

namespace dracpu::agent {

using ClaimMap = std::map<ClaimUid, ledger::Claim>;

struct Reconciled {
  ClaimMap claims;  // no CPU in two of them
  std::size_t from_state = 0;
  std::size_t from_cdi = 0;
  bool stale = false;                   // another driver worked meanwhile
  std::set<ClaimUid> unconfirmed;       // known to a stale state alone: to be looked up soon
  std::map<ClaimUid, CpuSet> disputed;  // what the CDI file says, while the state counts
  std::size_t conflicts = 0;            // claims left out, or in contradiction
  std::vector<std::string> warnings;
};

// `own`: the claims of the state file, nothing if there is none that can be used.
Reconciled reconcile(const std::optional<ClaimMap>& own, const std::vector<cdi::Entry>& files);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_RECONCILE_H_
