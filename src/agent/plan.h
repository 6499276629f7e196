// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What would happen to claims on a machine, without a cluster: the driver's own rules on copies of its books.
//
// Input    Claims; those with an allocation are served first, in order, then the others, in order, with
//          devices chosen first-fit (plan_fit.h). CPUs that are free and claims that are held already narrow
//          what there is. A claim that nobody uses yet is taken to be for one pod.
// Output   Per claim its CPUs and memory, or the refusal that prepare would answer with what would fit; then
//          the shared pool and the memory that is left. A claim of which one part is refused gets nothing.
//          The node's other containers are taken to be there, so the last CPU is never handed out. The
//          kernel's free hugepages are looked at for claims that cannot run yet; those of others may be in
//          use by themselves.
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
#include "memory/accounts.h"

namespace dracpu::agent {

struct PlanInput {
  std::vector<kube::Claim> claims;
  std::map<ClaimUid, Error> refused{};  // claims of which that is known already
  std::optional<CpuSet> free{};
  std::map<ClaimUid, ledger::Claim> held{};
  std::map<ClaimUid, memory::Claim> held_memory{};
};

struct Planned {
  CpuSet cpus;
  memory::Amounts memory;
};

struct PlannedClaim {
  std::string ns;
  std::string name;
  ClaimUid uid;
  bool is_first_fit = false;         // the devices were chosen here
  std::vector<std::string> devices;  // one per result
  Result<Planned> gets = Planned();
};

struct Plan {
  std::vector<PlannedClaim> claims;
  CpuSet shared;
  std::optional<std::vector<memory::Standing>> memory;  // only where memory is on
};

Result<Plan> make_plan(const Node& node, const Machine& machine, const PlanInput& input);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_PLAN_H_
