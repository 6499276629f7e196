// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The two settings that name NUMA nodes: what is kept back on them, and which of them are offered.
//
// memory.reserved  entries joined by ";", each <numa node>:<type>=<quantity>[,<type>=<quantity>...], as in
//                  "0:memory=1Gi,hugepages-2Mi=64Mi;1:memory=512Mi". Spaces around separators are ignored. A
//                  type is a resource name; a quantity has any form of Kubernetes that means whole bytes.
// memory.nodes     a list such as "0-1,4"; empty: every node that has memory and CPUs.
//
// Errors  kInvalidInput, with the setting's name in front. The texts are part of the user's manual.
// Threads Pure.

#ifndef DRACPU_MEMORY_RESERVED_H_
#define DRACPU_MEMORY_RESERVED_H_

#include <set>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "memory/types.h"
#include "topology/memory.h"

namespace dracpu::memory {

// Empty text: nothing is reserved.
Result<Amounts> parse_reserved(std::string_view text);
Result<std::set<NumaNodeId>> parse_nodes(std::string_view text);

// Every node named has memory, and as much of it as is reserved.
Status check_reserved(const Amounts& reserved, const topology::MachineMemory& machine);
Status check_nodes(const std::set<NumaNodeId>& nodes, const topology::MachineMemory& machine);

}  // namespace dracpu::memory

#endif  // DRACPU_MEMORY_RESERVED_H_
