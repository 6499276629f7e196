// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Work done for somebody who waits carries a deadline.
//
// Threads A value.

#ifndef DRACPU_BASE_DEADLINE_H_
#define DRACPU_BASE_DEADLINE_H_

#include <chrono>

namespace dracpu {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(Clock::time_point at) : at_(at) {}
  static Deadline after(Clock::duration d, Clock::time_point now = Clock::now()) { return Deadline(now + d); }
  static Deadline never() { return Deadline(Clock::time_point::max()); }

  Clock::time_point at() const { return at_; }
  bool passed(Clock::time_point now = Clock::now()) const { return now >= at_; }
  Clock::duration left(Clock::time_point now = Clock::now()) const {
    return at_ > now ? at_ - now : Clock::duration::zero();
  }

 private:
  Clock::time_point at_;
};

}  // namespace dracpu

#endif  // DRACPU_BASE_DEADLINE_H_
