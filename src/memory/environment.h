// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The claim variables of memory in a container's environment, as its CDI files put them there.
//
//   DRAMEMORY_<claim UID>_NUMANodes=0,1
//   DRAMEMORY_<claim UID>_hugepages_2Mi=numanode:0,size:64Mi;numanode:1,size:64Mi
//
// Nodes ascend; one variable per kind. Any pod can write the same names in its own spec, so what is read is a
// statement to be compared with the accounts, never a proof.
//
// Rules   Only what format_environment() would write is read: one spelling per number, ascending nodes
// without
//         repetition, no zero amount. So two statements are the same if and only if their texts are. The same
//         variable twice with one text counts once, with two texts the container is malformed.
// Errors  kInvalidInput  container "c": malformed variable NAME
// Threads No state.

#ifndef DRACPU_MEMORY_ENVIRONMENT_H_
#define DRACPU_MEMORY_ENVIRONMENT_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "memory/types.h"

namespace dracpu::memory {

// Reserved while memory is served.
inline constexpr std::string_view kVariablePrefix = "DRAMEMORY_";

// "NAME=value", the nodes first, then the kinds in published order.
std::vector<std::string> format_environment(const ClaimUid& uid, const Amounts& amounts);

// What the variables of one claim say; a part may be missing.
struct Statement {
  std::optional<std::set<NumaNodeId>> nodes;
  Amounts amounts;

  friend bool operator==(const Statement&, const Statement&) = default;
};

// Entries with other names are passed over.
Result<std::map<ClaimUid, Statement>> read_environment(std::string_view container,
                                                       const std::vector<std::string>& env);

// It says all of this and nothing else.
bool says(const Statement& statement, const Amounts& held);
// The amounts of a statement that lacks nothing.
std::optional<Amounts> complete(const Statement& statement);

}  // namespace dracpu::memory

#endif  // DRACPU_MEMORY_ENVIRONMENT_H_
