// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What would happen to claims on a machine, without a cluster: the driver's own rules on copies of its books.
//
// Input    Claims; those with an allocation are served first, in order, then the others, in order, with
// devices
//          chosen first-fit. CPUs that are free and claims that are held already narrow what there is.
// Output   Per claim its CPUs, or the refusal that prepare would answer with what would fit; then the shared
// pool.
//          The node's other containers are taken to be there, so the last CPU is never handed out.
// Errors   kConflict held claims that contradict each other.
// Threads  Pure.

#ifndef DRACPU_AGENT_PLAN_H_
#define DRACPU_AGENT_PLAN_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/node.h"
#include "kube/claim.h"
#include "ledger/ledger.h"

namespace dracpu::agent {

struct PlanInput {
  std::vector<kube::Claim> claims;
  std::optional<CpuSet> free;
  std::map<ClaimUid, ledger::Claim> held;
};

struct PlannedClaim {
  std::string ns;
  std::string name;
  ClaimUid uid;
  bool is_first_fit = false;         // the devices were chosen here
  std::vector<std::string> devices;  // one per result
  Result<CpuSet> cpus = CpuSet();
};

struct Plan {
  std::vector<PlannedClaim> claims;
  CpuSet shared;
};

Result<Plan> make_plan(const Node& node, const Machine& machine, const PlanInput& input);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_PLAN_H_
