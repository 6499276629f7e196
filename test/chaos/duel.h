// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Two driver processes on one node, again and again: both are started, the active one is killed at a random
// moment, also during its start, and the other takes over. A Witness says that never two act at the same
// instant.
//
// Reports Rounds, kills by moment, what the witness saw, and two times: from the kill until the other process
// holds the lock, and until it is connected to the runtime. The first is as exact as /proc/locks can be read
// (some tenths of a millisecond), and left out where the kernel does not show it. Threads Made and used by
// one thread.

#ifndef DRACPU_CHAOS_DUEL_H_
#define DRACPU_CHAOS_DUEL_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "report.h"

namespace dracpu::chaos {

struct DuelOptions {
  std::filesystem::path driver;
  std::size_t rounds = 1000;
  std::uint64_t seed = 0;
};

// An error: the node cannot be set up. Violations are in the report.
Status run_duels(const DuelOptions& options, Report& report);

}  // namespace dracpu::chaos

#endif  // DRACPU_CHAOS_DUEL_H_
