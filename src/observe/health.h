// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Whether the driver is started, alive and ready, and why not.
//
// Three questions, three answers (RULINGS 6):
//   /healthz  as release 0.3.0: 503 until set_started(), then 200 for the rest of the process; empty body
//   /livez    200 while the process works, standby included: every expected heartbeat is young enough
//   /readyz   200 when every named check is ok; ?verbose lists them, a failure always does. A standby is not
//             ready, unless it may be: in an update with surge the old process ends only after that.
// Advice is what somebody should change though everything works; /readyz?verbose lists it, nothing fails.
// A check fails until it is first set, so a part that was forgotten keeps the process not ready.
// Threads Any.

#ifndef DRACPU_OBSERVE_HEALTH_H_
#define DRACPU_OBSERVE_HEALTH_H_

#include <chrono>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "observe/http_types.h"

namespace dracpu::observe {

struct HealthCheck {
  std::string name;
  bool ok = false;
  std::string reason;                           // why not; empty when ok
  std::chrono::steady_clock::time_point since;  // of the present `ok`
};

struct Advice {
  std::string name;
  std::string text;
};

class HealthState {
 public:
  using Clock = std::chrono::steady_clock;

  // The checks that readiness needs, in the order of the listing: "guard", "nri", "kubelet", "slices".
  explicit HealthState(std::initializer_list<std::string_view> checks);

  // A name that is not known yet becomes a new check. True if ok or not ok changed (worth a log line).
  bool set_ok(std::string_view check);
  bool set_failed(std::string_view check, std::string_view reason);

  // In place of what was said under this name. True if nothing was (worth a log line): the text may change
  // with every container.
  bool advise(std::string_view name, std::string_view text);
  std::vector<Advice> advice() const;

  // Waiting for the node, and why: the check "guard" fails with it. set_owner() ends it.
  void set_standby(std::string_view reason);
  void set_owner();
  void let_standby_be_ready(bool may_be);

  // Registered with the kubelet and started; cannot be taken back.
  void set_started();
  bool is_started() const;

  bool is_ready() const;
  std::vector<HealthCheck> checks() const;

  // From now on /livez fails when `name` has not beaten for `limit`. The first beat is this call.
  void expect_beat(std::string_view name, Clock::duration limit);
  void beat(std::string_view name);
  // The names that are late; empty while the process works.
  std::vector<std::string> late(Clock::time_point now = Clock::now()) const;

  HttpResponse healthz() const;
  HttpResponse livez() const;
  HttpResponse readyz(const HttpRequest& request) const;

 private:
  struct Beat {
    std::string name;
    Clock::duration limit;
    Clock::time_point last;
  };
  bool set(std::string_view check, bool ok, std::string_view reason);
  bool is_ready_standby() const;

  mutable Mutex mutex_;
  std::vector<HealthCheck> checks_ DRACPU_GUARDED_BY(mutex_);
  std::vector<Advice> advice_ DRACPU_GUARDED_BY(mutex_);
  std::vector<Beat> beats_ DRACPU_GUARDED_BY(mutex_);
  bool started_ DRACPU_GUARDED_BY(mutex_) = false;
  bool standby_ DRACPU_GUARDED_BY(mutex_) = false;
  bool standby_is_ready_ DRACPU_GUARDED_BY(mutex_) = false;
};

}  // namespace dracpu::observe

#endif  // DRACPU_OBSERVE_HEALTH_H_
