// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Waiting times after failures, and a cap on repairs.
//
// Backoff      first, doubled after each call up to max, each with up to a fifth of jitter either way.
// WriteBudget  A bucket of `burst` tokens that refills by one per `refill`. A repair may start when there is
//              a token, pays one for each of its writes and may leave a debt: a repair is done whole or not
//              at all, and what was too much is waited off afterwards.
// Threads      One at a time.

#ifndef DRACPU_KUBE_BACKOFF_H_
#define DRACPU_KUBE_BACKOFF_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>

#include "base/deadline.h"

namespace dracpu::kube {

class Backoff {
 public:
  using Ms = std::chrono::milliseconds;
  Backoff(Ms first, Ms max) : first_(first), max_(max), next_(first) {}

  Ms next() {
    const Ms base = next_;
    next_ = std::min(max_, next_ * 2);
    std::uniform_int_distribution<std::int64_t> jitter(-base.count() / 5, base.count() / 5);
    return base + Ms(jitter(random_));
  }
  void reset() { next_ = first_; }

 private:
  Ms first_;
  Ms max_;
  Ms next_;
  std::minstd_rand random_{std::random_device{}()};
};

class WriteBudget {
 public:
  using Clock = Deadline::Clock;
  WriteBudget(std::size_t burst, std::chrono::milliseconds refill)
      : burst_(static_cast<std::int64_t>(burst)), refill_(refill), tokens_(burst_) {}

  // How long until a repair may start; zero when it may now.
  Clock::duration wait(Clock::time_point now) {
    earn(now);
    if (tokens_ >= 1) return Clock::duration::zero();
    return earned_at_ + refill_ * (1 - tokens_) - now;
  }
  void pay(std::size_t writes, Clock::time_point now) {
    earn(now);
    if (tokens_ == burst_) earned_at_ = now;
    tokens_ -= static_cast<std::int64_t>(writes);
  }
  void fill() { tokens_ = burst_; }

 private:
  void earn(Clock::time_point now) {
    if (tokens_ >= burst_ || refill_ <= Clock::duration::zero()) return;
    const std::int64_t earned = (now - earned_at_) / refill_;
    if (earned <= 0) return;
    tokens_ = std::min(burst_, tokens_ + earned);
    earned_at_ += refill_ * earned;
  }

  std::int64_t burst_;
  Clock::duration refill_;
  std::int64_t tokens_;
  Clock::time_point earned_at_{};  // when the last token came in; matters only below the burst
};

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_BACKOFF_H_
