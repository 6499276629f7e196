// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One thread that does slow work in order: file writes, updates pushed to the runtime.
//
// Because everything that changes a claim and everything that pushes a pool runs here, no claim can be given
// CPUs while an update with the old pool is on its way. Threads post() from any thread. Work posted after
// stop() is dropped.

#ifndef DRACPU_AGENT_WORKER_H_
#define DRACPU_AGENT_WORKER_H_

#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "base/mutex.h"

namespace dracpu::agent {

class Worker {
 public:
  using Clock = std::chrono::steady_clock;

  Worker() : thread_([this] { run(); }) {}
  ~Worker() { stop(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void post(std::function<void()> work) { post_at(Clock::now(), std::move(work)); }
  void post_after(Clock::duration delay, std::function<void()> work) {
    post_at(Clock::now() + delay, std::move(work));
  }
  // Finishes what is due, drops what is not, joins.
  void stop();

 private:
  void post_at(Clock::time_point at, std::function<void()> work);
  void run();

  Mutex mutex_;
  Condition wake_;
  std::multimap<Clock::time_point, std::function<void()>> due_
      DRACPU_GUARDED_BY(mutex_);  // equal times keep order
  bool stopping_ DRACPU_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_WORKER_H_
