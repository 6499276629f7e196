// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A mutex that Clang's thread-safety analysis understands (-Wthread-safety, preset "clang").
//
// No callback, I/O or logging while one of these is held.

#ifndef DRACPU_BASE_MUTEX_H_
#define DRACPU_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define DRACPU_TSA(x) __attribute__((x))
#else
#define DRACPU_TSA(x)
#endif

#define DRACPU_GUARDED_BY(m) DRACPU_TSA(guarded_by(m))
#define DRACPU_REQUIRES(m) DRACPU_TSA(requires_capability(m))

namespace dracpu {

class DRACPU_TSA(capability("mutex")) Mutex {
 public:
  void lock() DRACPU_TSA(acquire_capability()) { m_.lock(); }
  void unlock() DRACPU_TSA(release_capability()) { m_.unlock(); }

 private:
  friend class Condition;
  std::mutex m_;
};

class DRACPU_TSA(scoped_lockable) Locked {
 public:
  explicit Locked(Mutex& m) DRACPU_TSA(acquire_capability(m)) : m_(m) { m_.lock(); }
  ~Locked() DRACPU_TSA(release_capability()) { m_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Mutex& m_;
};

// Waits release the mutex and hold it again on return. Spurious wake-ups happen: wait in a loop.
class Condition {
 public:
  void notify_one() { c_.notify_one(); }
  void notify_all() { c_.notify_all(); }
  void wait(Mutex& m) DRACPU_REQUIRES(m) {
    std::unique_lock<std::mutex> lock(m.m_, std::adopt_lock);
    c_.wait(lock);
    lock.release();
  }
  // False when the time came first.
  bool wait_until(Mutex& m, std::chrono::steady_clock::time_point at) DRACPU_REQUIRES(m) {
    std::unique_lock<std::mutex> lock(m.m_, std::adopt_lock);
    const std::cv_status s = c_.wait_until(lock, at);
    lock.release();
    return s == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable c_;
};

}  // namespace dracpu

#endif  // DRACPU_BASE_MUTEX_H_
