// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Many schedules, one after the other. Schedule n has the seed `seed + n`, so one alone is run again with its
// own.
//
// What the driver would log is dropped meanwhile: this process's standard error goes nowhere.
// Threads One caller.

#ifndef DRACPU_CHAOS_SCHEDULES_H_
#define DRACPU_CHAOS_SCHEDULES_H_

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "report.h"

namespace dracpu::chaos {

// An error: the folder cannot be made. Violations are in the report; ten are enough.
Status run_schedules(std::size_t count, std::uint64_t seed, Report& report);

}  // namespace dracpu::chaos

#endif  // DRACPU_CHAOS_SCHEDULES_H_
