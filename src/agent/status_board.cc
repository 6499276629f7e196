// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/status_board.h"

#include <algorithm>
#include <utility>

namespace dracpu::agent {
namespace {

constexpr std::size_t kRefusals = 20;

}  // namespace

void StatusBoard::set_source(Source source) {
  const Locked lock(source_mutex_);
  source_ = std::move(source);
}

void StatusBoard::note_refusal(std::string who, std::string what) {
  const Locked lock(refusals_mutex_);
  Refusal refusal{Clock::now(), 1, std::move(who), std::move(what)};
  const auto same = std::find_if(refusals_.begin(), refusals_.end(), [&](const Refusal& r) {
    return r.who == refusal.who && r.what == refusal.what;
  });
  if (same != refusals_.end()) {
    refusal.times = same->times + 1;
    refusals_.erase(same);
  }
  refusals_.push_front(std::move(refusal));
  if (refusals_.size() > kRefusals) refusals_.pop_back();
}

StatusFacts StatusBoard::facts() const {
  StatusFacts out;
  out.node = node_.name;
  out.driver = node_.config.publish.driver_name;
  out.reserved = node_.config.node.reserved_cpus;
  out.now = Clock::now();
  out.up = out.now - begun_;
  out.checks = health_.checks();
  out.advice = health_.advice();
  {
    const Locked lock(refusals_mutex_);
    out.refusals.assign(refusals_.begin(), refusals_.end());
  }
  const Locked lock(source_mutex_);
  if (source_) out.owner = source_();
  return out;
}

}  // namespace dracpu::agent
