// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Reading the claim variables in a container's environment.
//
// DRA_CPUSET_<claim UID>=<CPU list> comes from the claim's CDI file. Any pod can write the same name in its
// own spec, so what is read here is a statement to be compared with the ledger, never a proof.
//
// Rules   spec driver-behaviours 13.1: a name that begins with "DRA_CPUSET" but not with "DRA_CPUSET_" is
//         ignored; an entry without "=", an empty or unreadable list, or one variable with two different
//         values makes the container malformed. The same variable twice with the same value counts once.
// Errors  kInvalidInput names the variable and what is wrong with it.
// Threads No state.

#ifndef DRACPU_LEDGER_CLAIM_ENV_H_
#define DRACPU_LEDGER_CLAIM_ENV_H_

#include <map>
#include <string>
#include <vector>

#include "base/cpuset.h"
#include "base/ids.h"
#include "base/result.h"

namespace dracpu::ledger {

using ClaimCpus = std::map<ClaimUid, CpuSet>;

Result<ClaimCpus> read_claim_env(const std::vector<std::string>& env);

}  // namespace dracpu::ledger

#endif  // DRACPU_LEDGER_CLAIM_ENV_H_
