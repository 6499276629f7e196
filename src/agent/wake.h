// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the main thread waits on: a signal to stop, a nudge from another thread, or time.
//
// Made before any other thread, so that SIGINT and SIGTERM are blocked everywhere and arrive here only. After
// the first one they get their default action back: a second signal ends the process at once. Threads
// notify() from any thread; the rest from the main thread.

#ifndef DRACPU_AGENT_WAKE_H_
#define DRACPU_AGENT_WAKE_H_

#include <chrono>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"

namespace dracpu::agent {

class Wake {
 public:
  static Result<std::unique_ptr<Wake>> create();

  void notify() const;
  // Returns at a nudge, a signal, or the time.
  void wait_until(std::chrono::steady_clock::time_point at);
  bool stop_requested() const { return signal_ != 0; }
  int signal() const { return signal_; }

 private:
  Wake(UniqueFd event, UniqueFd signals) : event_(std::move(event)), signals_(std::move(signals)) {}

  UniqueFd event_;
  UniqueFd signals_;
  int signal_ = 0;
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_WAKE_H_
