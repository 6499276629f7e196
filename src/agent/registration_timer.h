// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// When to offer the kubelet our sockets anew: its file watch can miss one (spec kubelet-dra-wire section 1).
// First after 30 s without a registration, then twice as long each time, at most five minutes.
//
// Threads None.

#ifndef DRACPU_AGENT_REGISTRATION_TIMER_H_
#define DRACPU_AGENT_REGISTRATION_TIMER_H_

#include <algorithm>
#include <chrono>

namespace dracpu::agent {

class RegistrationTimer {
 public:
  using Clock = std::chrono::steady_clock;

  // The sockets are there since now.
  void offered(Clock::time_point now) { due_ = now + wait_; }
  // True if they should be offered anew; the next wait is longer.
  bool due(Clock::time_point now) {
    if (now < due_) return false;
    wait_ = std::min(wait_ * 2, kLongest);
    return true;
  }
  // Registered: the next loss is waited for as the first.
  void reset() { wait_ = kFirst; }
  std::chrono::seconds wait() const { return wait_; }

 private:
  static constexpr std::chrono::seconds kFirst{30};
  static constexpr std::chrono::seconds kLongest{300};

  std::chrono::seconds wait_ = kFirst;
  Clock::time_point due_{};
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_REGISTRATION_TIMER_H_
