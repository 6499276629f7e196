// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the main thread waits on: a signal to stop, a nudge from another thread, or time.
//
// Signals  SIGINT and SIGTERM are caught once each, by a handler, so that one arrives also while the main
// thread
//          is stuck in a call of the kernel; the same signal again then ends the process at once. One Wake a
//          process.
// Threads  notify() from any thread; the rest from the main thread.

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
  ~Wake();
  Wake(const Wake&) = delete;
  Wake& operator=(const Wake&) = delete;

  void notify() const;
  // Returns at a nudge, a signal, or the time.
  void wait_until(std::chrono::steady_clock::time_point at);
  bool stop_requested() const { return signal() != 0; }
  int signal() const;

 private:
  explicit Wake(UniqueFd event) : event_(std::move(event)) {}

  UniqueFd event_;
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_WAKE_H_
