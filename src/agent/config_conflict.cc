// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/config_conflict.h"

#include "agent/memory_service.h"

namespace dracpu::agent {

std::vector<ConfigConflict> config_conflicts(const ledger::Ledger& ledger, const MemoryBook& memory,
                                             bool serves_memory) {
  std::vector<ConfigConflict> out;
  std::string list;
  const auto add = [&](const std::string& ns, const std::string& name, const ClaimUid& uid,
                       const std::string& holds) {
    list += fmt::format("{}{}/{} ({}) has {}", list.empty() ? "" : ", ", ns, name, uid.get(), holds);
  };
  for (const ClaimUid& uid : ledger.claims_on_reserved()) {
    const ledger::Claim& claim = ledger.claims().at(uid);
    add(claim.ns, claim.name, uid, fmt::format("CPUs {}", (claim.cpus & ledger.reserved()).to_string()));
  }
  if (!list.empty())
    out.push_back(
        {"The configuration reserves CPUs of running claims; they keep them, nothing new is prepared", list,
         "reserved CPUs are held by claims"});
  list.clear();
  if (!serves_memory) return out;
  for (const ClaimUid& uid : memory.accounts.claims_of_other_mode()) {
    const memory::Claim& claim = memory.accounts.claims().at(uid);
    add(claim.ns, claim.name, uid, amounts_text(claim));
  }
  if (!list.empty()) {
    out.push_back(
        {"memory.mode was changed under running claims; they keep their memory, nothing new is prepared",
         list, "memory is held by claims of another memory.mode"});
  }
  return out;
}

}  // namespace dracpu::agent
