// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/slice_report.h"

#include "observe/log.h"

namespace dracpu::agent {

void SliceReport::on_state(const kube::PublisherState& state) {
  if (state.synced) {
    if (health_.set_ok(check_))
      observe::log_info(0, subject_ + " published",
                        {{"slices", state.slices}, {"generation", state.generation}});
  } else if (health_.set_failed(check_,
                                state.error.empty() ? "not in step with the API server" : state.error) &&
             !state.error.empty()) {
    observe::log_warning(subject_ + " are not in step with the API server", {{"err", state.error}});
  }
}

void SliceReport::count(const kube::PublisherStats& now) {
  const auto writes = [](const kube::PublisherStats& s) { return s.creates + s.updates + s.deletes; };
  metrics_.slice_writes_total.inc(observe::Outcome::kSuccess, writes(now) - writes(counted_));
  if (now.api_errors > counted_.api_errors)
    metrics_.api_errors_total.inc("slices", now.api_errors - counted_.api_errors);
  counted_ = now;
}

}  // namespace dracpu::agent
