// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/start_step.h"

#include <chrono>
#include <utility>

#include "observe/log.h"

namespace dracpu::agent {

Result<bool> timed_wait(observe::Metrics& metrics, std::string_view name,
                        const std::function<Result<bool>()>& work) {
  const auto begun = std::chrono::steady_clock::now();
  Result<bool> is_done = work();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  if (!is_done.ok()) return std::move(is_done).error().while_doing(fmt::format("start step {}", name));
  if (!*is_done) return is_done;
  metrics.start_step_duration_seconds.set(name, took.count());
  observe::log_info(2, "Start step done", {{"step", name}, {"ms", took.count() * 1000}});
  return is_done;
}

Status timed_step(observe::Metrics& metrics, std::string_view name, const std::function<Status()>& work) {
  const Result<bool> done = timed_wait(metrics, name, [&]() -> Result<bool> {
    Status s = work();
    if (!s.ok()) return std::move(s).error();
    return true;
  });
  return done.ok() ? ok_status() : Status(done.error());
}

}  // namespace dracpu::agent
