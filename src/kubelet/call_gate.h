// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Counts running calls, so that a stop can let them end and turn new ones away.
//
// Threads Any.

#ifndef DRACPU_KUBELET_CALL_GATE_H_
#define DRACPU_KUBELET_CALL_GATE_H_

#include <cstddef>

#include "base/deadline.h"
#include "base/mutex.h"

namespace dracpu::kubelet {

class CallGate {
 public:
  // False once closed. Every true is followed by one leave().
  bool enter() {
    const Locked lock(mutex_);
    if (closed_) return false;
    ++running_;
    return true;
  }
  void leave() {
    const Locked lock(mutex_);
    if (--running_ == 0) empty_.notify_all();
  }
  void close() {
    const Locked lock(mutex_);
    closed_ = true;
  }
  // Waits until nothing runs or the time is up; the number that still runs.
  std::size_t drain(Deadline deadline) {
    const Locked lock(mutex_);
    while (running_ != 0 && !deadline.passed()) empty_.wait_until(mutex_, deadline.at());
    return running_;
  }

 private:
  Mutex mutex_;
  Condition empty_;
  std::size_t running_ DRACPU_GUARDED_BY(mutex_) = 0;
  bool closed_ DRACPU_GUARDED_BY(mutex_) = false;
};

}  // namespace dracpu::kubelet

#endif  // DRACPU_KUBELET_CALL_GATE_H_
