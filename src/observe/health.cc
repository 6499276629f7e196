// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "observe/health.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace dracpu::observe {
namespace {

constexpr int kOk = 200;
constexpr int kUnavailable = 503;

}  // namespace

HealthState::HealthState(std::initializer_list<std::string_view> checks) {
  for (const std::string_view name : checks) {
    checks_.push_back({std::string(name), false, "not reached yet", Clock::now()});
  }
}

bool HealthState::set_ok(std::string_view check) { return set(check, true, ""); }

bool HealthState::set_failed(std::string_view check, std::string_view reason) {
  return set(check, false, reason);
}

bool HealthState::set(std::string_view check, bool ok, std::string_view reason) {
  const Locked lock(mutex_);
  auto it =
      std::find_if(checks_.begin(), checks_.end(), [&](const HealthCheck& c) { return c.name == check; });
  if (it == checks_.end()) {
    checks_.push_back({std::string(check), ok, std::string(reason), Clock::now()});
    return true;
  }
  const bool changed = it->ok != ok;
  if (changed) it->since = Clock::now();
  it->ok = ok;
  it->reason = reason;
  return changed;
}

void HealthState::set_standby(std::string_view reason) {
  set_failed("guard", fmt::format("standby: {}", reason));
  const Locked lock(mutex_);
  standby_ = true;
}

void HealthState::set_owner() {
  set_ok("guard");
  const Locked lock(mutex_);
  standby_ = false;
}

void HealthState::let_standby_be_ready(bool may_be) {
  const Locked lock(mutex_);
  standby_is_ready_ = may_be;
}

bool HealthState::is_ready_standby() const {
  const Locked lock(mutex_);
  return standby_ && standby_is_ready_;
}

void HealthState::set_started() {
  const Locked lock(mutex_);
  started_ = true;
}

bool HealthState::is_started() const {
  const Locked lock(mutex_);
  return started_;
}

bool HealthState::is_ready() const {
  if (is_ready_standby()) return true;
  const Locked lock(mutex_);
  return std::all_of(checks_.begin(), checks_.end(), [](const HealthCheck& c) { return c.ok; });
}

std::vector<HealthCheck> HealthState::checks() const {
  const Locked lock(mutex_);
  return checks_;
}

void HealthState::expect_beat(std::string_view name, Clock::duration limit) {
  const Locked lock(mutex_);
  for (Beat& b : beats_) {
    if (b.name != name) continue;
    b.limit = limit;
    b.last = Clock::now();
    return;
  }
  beats_.push_back({std::string(name), limit, Clock::now()});
}

void HealthState::beat(std::string_view name) {
  const Locked lock(mutex_);
  for (Beat& b : beats_) {
    if (b.name == name) b.last = Clock::now();
  }
}

std::vector<std::string> HealthState::late(Clock::time_point now) const {
  const Locked lock(mutex_);
  std::vector<std::string> out;
  for (const Beat& b : beats_) {
    if (now - b.last > b.limit) out.push_back(b.name);
  }
  return out;
}

bool HealthState::advise(std::string_view name, std::string_view text) {
  const Locked lock(mutex_);
  const auto said =
      std::find_if(advice_.begin(), advice_.end(), [&](const Advice& a) { return a.name == name; });
  if (said == advice_.end()) {
    advice_.push_back({std::string(name), std::string(text)});
    return true;
  }
  said->text = text;
  return false;
}

std::vector<Advice> HealthState::advice() const {
  const Locked lock(mutex_);
  return advice_;
}

HttpResponse HealthState::healthz() const { return {is_started() ? kOk : kUnavailable, ""}; }

HttpResponse HealthState::livez() const {
  const std::vector<std::string> names = late();
  if (names.empty()) return {kOk, "ok\n"};
  std::string body;
  for (const std::string& name : names) {
    fmt::format_to(std::back_inserter(body), "[-]{} failed: no sign of life for too long\n", name);
  }
  return {kUnavailable, body + "livez check failed\n"};
}

HttpResponse HealthState::readyz(const HttpRequest& request) const {
  if (is_ready_standby())
    return {kOk, request.has_query("verbose") ? "[+]standby ok\nreadyz check passed\n" : "ok\n"};
  const std::vector<HealthCheck> all = checks();
  std::string list;
  bool ready = true;
  for (const HealthCheck& check : all) {
    if (check.ok) {
      fmt::format_to(std::back_inserter(list), "[+]{} ok\n", check.name);
    } else {
      ready = false;
      fmt::format_to(std::back_inserter(list), "[-]{} failed: {}\n", check.name, check.reason);
    }
  }
  for (const Advice& a : advice()) {
    fmt::format_to(std::back_inserter(list), "[!]{}: {}\n", a.name, a.text);
  }
  if (!ready) return {kUnavailable, list + "readyz check failed\n"};
  return {kOk, request.has_query("verbose") ? list + "readyz check passed\n" : "ok\n"};
}

}  // namespace dracpu::observe
