// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Hands the current health report to everybody who watches: at once, on change, and again when it was quiet.
//
// The kubelet lets a device decay to "unknown" when its lease runs out, so silence must be broken well before
// (spec kubelet-dra-wire 3.2). One thread does that; it sleeps for good while nobody watches.
// Threads Any. offer() and end() of a watcher are called without a lock held, from the caller of set(), add()
// or
//         close(), or from the hub's thread; several at once.

#ifndef DRACPU_KUBELET_HEALTH_HUB_H_
#define DRACPU_KUBELET_HEALTH_HUB_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/mutex.h"
#include "kubelet/server.h"

namespace dracpu::kubelet {

inline constexpr std::size_t kMaxHealthMessage = 1024;  // spec kubelet-dra-wire 3.2: the kubelet cuts there

struct Report {
  std::vector<DeviceHealth> devices;  // messages are UTF-8 and within the limit
  std::int64_t taken_at = 0;          // Unix seconds
  std::int64_t lease_seconds = 0;
  std::uint64_t sequence = 0;  // a later report has the larger one
};

class Watcher {
 public:
  virtual ~Watcher() = default;
  // Must not block. Two callers may overtake each other: a report older than one seen is dropped.
  virtual void offer(std::shared_ptr<const Report> report) = 0;
  // No report follows. At least once.
  virtual void end() = 0;
};

class HealthHub {
 public:
  HealthHub(std::chrono::milliseconds resend, std::chrono::seconds lease);
  ~HealthHub() { close(); }
  HealthHub(const HealthHub&) = delete;
  HealthHub& operator=(const HealthHub&) = delete;

  void set(std::vector<DeviceHealth> devices);

  // Held until remove().
  void add(std::shared_ptr<Watcher> watcher);
  void remove(const Watcher* watcher);
  std::size_t watchers() const;

  // Ends every watcher, also those that come later, and joins the thread. Not from a watcher's call.
  void close();

 private:
  using Watchers = std::vector<std::shared_ptr<Watcher>>;

  void run();
  // Waits until a report is due; the watchers then alive, or none when closed.
  Watchers wait_for_due(std::shared_ptr<const Report>& report);

  const std::chrono::milliseconds resend_;
  const std::chrono::seconds lease_;
  mutable Mutex mutex_;
  Condition changed_;
  Watchers watchers_ DRACPU_GUARDED_BY(mutex_);
  std::shared_ptr<const Report> report_ DRACPU_GUARDED_BY(mutex_);
  Deadline::Clock::time_point next_ DRACPU_GUARDED_BY(mutex_);
  std::uint64_t sequence_ DRACPU_GUARDED_BY(mutex_) = 0;
  bool closed_ DRACPU_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace dracpu::kubelet

#endif  // DRACPU_KUBELET_HEALTH_HUB_H_
