// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A configuration that running claims contradict: they keep what they have, and nothing new is prepared
// (RULINGS 7).
//
// Threads Pure.

#ifndef DRACPU_AGENT_CONFIG_CONFLICT_H_
#define DRACPU_AGENT_CONFIG_CONFLICT_H_

#include <string>
#include <vector>

#include "agent/books.h"
#include "ledger/ledger.h"

namespace dracpu::agent {

struct ConfigConflict {
  std::string event;   // for the log
  std::string claims;  // each with what it holds
  std::string check;   // begins the text of the check "config"

  friend bool operator==(const ConfigConflict&, const ConfigConflict&) = default;
};

// `serves_memory`: where it is off, its claims wait in the state file.
std::vector<ConfigConflict> config_conflicts(const ledger::Ledger& ledger, const MemoryBook& memory,
                                             bool serves_memory);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_CONFIG_CONFLICT_H_
