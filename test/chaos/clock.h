// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The wall clock as this process sees it may jump; the monotonic clock never does, as with the kernel's.
//
// How     This program has a clock_gettime() of its own, which is found before the C library's.
// Threads Any.

#ifndef DRACPU_CHAOS_CLOCK_H_
#define DRACPU_CHAOS_CLOCK_H_

#include <chrono>

namespace dracpu::chaos {

void set_wall_clock_ahead(std::chrono::seconds by);  // negative: behind

}  // namespace dracpu::chaos

#endif  // DRACPU_CHAOS_CLOCK_H_
