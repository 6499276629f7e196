// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Events on pods: why a claim or container was refused, or does not run where its claim says.
//
// Output   core/v1 Events of type Warning, sent and forgotten: nothing waits for the answer.
//          The same about the same pod at most every five minutes; 20 at once, then one in a second.
// Threads  Any.

#ifndef DRACPU_AGENT_POD_EVENTS_H_
#define DRACPU_AGENT_POD_EVENTS_H_

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "agent/node.h"
#include "base/mutex.h"

namespace dracpu::agent {

struct PodRef {
  std::string ns;
  std::string name;
  std::string uid;
};

// Something about this pod that its owner should know; `reason` is one word, as kubectl shows it.
using TellPod = std::function<void(const PodRef& pod, std::string_view reason, const std::string& text)>;

class PodEvents {
 public:
  using Clock = std::chrono::steady_clock;
  // A POST of `body` to `path`.
  using Send = std::function<void(std::string path, std::string body)>;

  PodEvents(const Node& node, Send send) : node_(node), send_(std::move(send)) {}

  void warn(const PodRef& pod, std::string_view reason, std::string_view text,
            Clock::time_point now = Clock::now());

 private:
  bool may_send(const PodRef& pod, std::string_view reason, std::string_view text, Clock::time_point now);

  const Node& node_;
  const Send send_;
  Mutex mutex_;
  std::map<std::string, Clock::time_point, std::less<>> sent_ DRACPU_GUARDED_BY(mutex_);
  double tokens_ DRACPU_GUARDED_BY(mutex_) = 20;
  Clock::time_point counted_ DRACPU_GUARDED_BY(mutex_){};
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_POD_EVENTS_H_
