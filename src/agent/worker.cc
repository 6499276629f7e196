// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/worker.h"

#include <utility>

namespace dracpu::agent {

void Worker::post_at(Clock::time_point at, std::function<void()> work) {
  {
    const Locked lock(mutex_);
    if (stopping_) return;
    due_.emplace(at, std::move(work));
  }
  wake_.notify_one();
}

void Worker::run() {
  mutex_.lock();
  for (;;) {
    if (due_.empty()) {
      if (stopping_) break;
      wake_.wait(mutex_);
      continue;
    }
    const auto first = due_.begin();
    if (first->first > Clock::now()) {
      if (stopping_) break;
      wake_.wait_until(mutex_, first->first);
      continue;
    }
    const std::function<void()> work = std::move(first->second);
    due_.erase(first);
    mutex_.unlock();
    work();
    mutex_.lock();
  }
  mutex_.unlock();
}

void Worker::stop() {
  {
    const Locked lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

}  // namespace dracpu::agent
