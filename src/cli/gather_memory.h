// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The memory of `dracpu gatherinfo`: per NUMA node what the kernel has, and of that what is reserved,
// published and prepared. Amounts in bytes; no claim and no pod is named.
//
// Threads Any; no state.

#ifndef DRACPU_CLI_GATHER_MEMORY_H_
#define DRACPU_CLI_GATHER_MEMORY_H_

#include <optional>
#include <string>

#include "agent/node.h"
#include "memory/types.h"

namespace dracpu::cli {

// The section `memoryDetails`. `prepared`: the sums of all claims; nothing if they are not known, then the
// key is not there.
std::string memory_part(const agent::MemoryView& view, const std::optional<memory::Amounts>& prepared);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_GATHER_MEMORY_H_
