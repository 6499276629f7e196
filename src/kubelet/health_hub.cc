// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/health_hub.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kubelet/utf8.h"

namespace dracpu::kubelet {
namespace {

using Clock = Deadline::Clock;

std::int64_t unix_seconds() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since_epoch).count();
}

}  // namespace

HealthHub::HealthHub(std::chrono::milliseconds resend, std::chrono::seconds lease)
    : resend_(resend), lease_(lease), thread_([this] { run(); }) {}

void HealthHub::set(std::vector<DeviceHealth> devices) {
  auto report = std::make_shared<Report>();
  report->devices = std::move(devices);
  for (DeviceHealth& d : report->devices) d.message = to_utf8(d.message, kMaxHealthMessage);
  report->taken_at = unix_seconds();
  report->lease_seconds = lease_.count();
  Watchers watchers;
  {
    const Locked lock(mutex_);
    report->sequence = ++sequence_;
    report_ = report;
    next_ = Clock::now() + resend_;
    watchers = watchers_;
    changed_.notify_all();
  }
  for (const auto& w : watchers) w->offer(report);
}

void HealthHub::add(std::shared_ptr<Watcher> watcher) {
  std::shared_ptr<const Report> report;
  bool closed = false;
  {
    const Locked lock(mutex_);
    closed = closed_;
    report = report_;
    watchers_.push_back(watcher);
    if (watchers_.size() == 1) next_ = Clock::now() + resend_;
    changed_.notify_all();
  }
  if (closed) {
    watcher->end();
  } else if (report != nullptr) {
    watcher->offer(std::move(report));
  }
}

void HealthHub::remove(const Watcher* watcher) {
  std::shared_ptr<Watcher> last;  // goes after the lock
  const Locked lock(mutex_);
  const auto it = std::find_if(watchers_.begin(), watchers_.end(),
                               [watcher](const auto& w) { return w.get() == watcher; });
  if (it == watchers_.end()) return;
  last = std::move(*it);
  watchers_.erase(it);
}

std::size_t HealthHub::watchers() const {
  const Locked lock(mutex_);
  return watchers_.size();
}

HealthHub::Watchers HealthHub::wait_for_due(std::shared_ptr<const Report>& report) {
  const Locked lock(mutex_);
  while (!closed_) {
    if (watchers_.empty() || report_ == nullptr) {
      changed_.wait(mutex_);
    } else if (Clock::now() < next_) {
      changed_.wait_until(mutex_, next_);
    } else {
      next_ = Clock::now() + resend_;
      report = report_;
      return watchers_;
    }
  }
  return {};
}

void HealthHub::run() {
  for (;;) {
    std::shared_ptr<const Report> report;
    const Watchers due = wait_for_due(report);
    if (report == nullptr) return;
    for (const auto& w : due) w->offer(report);
  }
}

void HealthHub::close() {
  Watchers watchers;
  {
    const Locked lock(mutex_);
    closed_ = true;
    watchers = watchers_;
    changed_.notify_all();
  }
  for (const auto& w : watchers) w->end();
  if (thread_.joinable()) thread_.join();
}

}  // namespace dracpu::kubelet
