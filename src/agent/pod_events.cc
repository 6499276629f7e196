// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/pod_events.h"

#include <algorithm>
#include <boost/json.hpp>
#include <ctime>

#include "base/strings.h"
#include "base/time_text.h"
#include "kube/http_client.h"

namespace dracpu::agent {
namespace {

namespace json = boost::json;

constexpr double kBurst = 20;
constexpr std::chrono::minutes kAgain{5};
constexpr std::size_t kRemembered = 1000;
constexpr std::size_t kMaxMessage = 1024;  // what the API server takes
constexpr std::size_t kMaxName = 230;      // leaves room for the part that makes it unique

std::string_view cut(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
    --end;  // not inside a character
  return text.substr(0, end);
}

}  // namespace

bool PodEvents::may_send(const PodRef& pod, std::string_view reason, std::string_view text,
                         Clock::time_point now) {
  const Locked lock(mutex_);
  const std::chrono::duration<double> passed = now - counted_;
  if (counted_ != Clock::time_point{}) tokens_ = std::min(kBurst, tokens_ + passed.count());
  counted_ = now;
  std::string key = fmt::format("{} {} {}", pod.uid, reason, text);
  const auto before = sent_.find(key);
  if ((before != sent_.end() && now - before->second < kAgain) || tokens_ < 1) return false;
  tokens_ -= 1;
  if (sent_.size() >= kRemembered) {
    std::erase_if(sent_, [&](const auto& e) { return now - e.second >= kAgain; });
    if (sent_.size() >= kRemembered) sent_.clear();
  }
  sent_[std::move(key)] = now;
  return true;
}

void PodEvents::warn(const PodRef& pod, std::string_view reason, std::string_view text,
                     Clock::time_point now) {
  if (!node_.config.observe.events || pod.ns.empty() || pod.name.empty()) return;
  if (!may_send(pod, reason, text, now)) return;
  const std::string& driver = node_.config.publish.driver_name;
  const std::string at = utc_text(std::time(nullptr));
  const json::object event{
      {"apiVersion", "v1"},
      {"kind", "Event"},
      {"metadata",
       {{"namespace", pod.ns}, {"name", fmt::format("{}.{}", cut(pod.name, kMaxName), random_hex(8))}}},
      {"involvedObject",
       {{"apiVersion", "v1"}, {"kind", "Pod"}, {"namespace", pod.ns}, {"name", pod.name}, {"uid", pod.uid}}},
      {"type", "Warning"},
      {"reason", reason},
      {"message", cut(text, kMaxMessage)},
      {"source", {{"component", driver}, {"host", node_.name}}},
      {"reportingComponent", driver},
      {"reportingInstance", node_.name},
      {"firstTimestamp", at},
      {"lastTimestamp", at},
      {"count", 1}};
  send_(fmt::format("/api/v1/namespaces/{}/events", kube::url_escape(pod.ns)), json::serialize(event));
}

}  // namespace dracpu::agent
