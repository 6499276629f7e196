// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "clock.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

namespace dracpu::chaos {
namespace {

std::atomic<std::chrono::seconds::rep> ahead{0};

}  // namespace

void set_wall_clock_ahead(std::chrono::seconds by) { ahead = by.count(); }

}  // namespace dracpu::chaos

extern "C" int clock_gettime(clockid_t id, timespec* out) noexcept {
  const long failed = ::syscall(SYS_clock_gettime, id, out);
  if (failed == 0 && id == CLOCK_REALTIME)
    out->tv_sec += dracpu::chaos::ahead.load(std::memory_order_relaxed);
  return static_cast<int>(failed);
}
