// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What a driver name's slice publisher does, as readiness, log and metrics.
//
// Threads  on_state(): any, one at a time, as the publisher calls. count(): one thread.

#ifndef DRACPU_AGENT_SLICE_REPORT_H_
#define DRACPU_AGENT_SLICE_REPORT_H_

#include <string>
#include <utility>

#include "kube/slice_publisher.h"
#include "observe/health.h"
#include "observe/metrics.h"

namespace dracpu::agent {

class SliceReport {
 public:
  // `check` of /readyz; `subject` begins the log lines: "Slices".
  SliceReport(std::string check, std::string subject, observe::HealthState& health, observe::Metrics& metrics)
      : check_(std::move(check)), subject_(std::move(subject)), health_(health), metrics_(metrics) {}

  void on_state(const kube::PublisherState& state);
  // What was written since the last call.
  void count(const kube::PublisherStats& now);

 private:
  std::string check_;
  std::string subject_;
  observe::HealthState& health_;
  observe::Metrics& metrics_;
  kube::PublisherStats counted_;
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_SLICE_REPORT_H_
