// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "pods.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

namespace dracpu::chaos {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMostPods = 2;  // with claims; three threads of two pods of two CPUs leave a pool
constexpr std::size_t kMostShared = 2;
constexpr milliseconds kGiveUp{6'000};  // a kubelet's pod is deleted meanwhile
constexpr milliseconds kMustWork{60'000};
constexpr std::size_t kMostFindings = 20;

void nap(Random& random, std::size_t least, std::size_t most) {
  std::this_thread::sleep_for(milliseconds(least + random.pick(most - least + 1)));
}

}  // namespace

Pods::Pods(sandbox::Node& node, Facts& facts, Report& report, std::string name, std::uint64_t seed)
    : node_(node), facts_(facts), report_(report), name_(std::move(name)), random_(seed) {}

void Pods::find(std::string what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (findings_.size() < kMostFindings) findings_.push_back(std::move(what));
}

std::vector<std::string> Pods::findings() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return findings_;
}

void Pods::run() {
  while (!stop_) {
    if (paused_) {
      idle_ = true;
      std::this_thread::sleep_for(milliseconds(5));
      continue;
    }
    idle_ = false;
    act();
    nap(random_, 0, 15);
  }
  idle_ = true;
}

void Pods::act() {
  const std::size_t way = random_.pick(100);
  if (way < 40) return start_pod();
  if (way < 60) return end_pod();
  if (way < 74) return restart_container();
  if (way < 82) return prepare_again(false);
  if (way < 87) return prepare_again(true);
  if (way < 90) return prepare_after_unprepare();
  start_shared();
}

void Pods::start_pod() {
  std::size_t exclusive = 0;
  for (const Live& live : pods_) exclusive += live.pod.claims.empty() ? 0 : 1;
  if (exclusive >= kMostPods) return end_pod();
  Live live;
  const std::string name = fmt::format("{}-{}", name_, next_++);
  live.pod.info = {"pod-" + name, "demo", name};
  const std::size_t claims = 1 + random_.pick(2);
  for (std::size_t i = 0; i < claims; ++i) {
    const std::size_t cpus = claims == 2 ? 1 : 1 + random_.pick(2);
    Result<sandbox::ClaimName> claim = node_.make_claim(fmt::format("{}-{}", name, i), cpus);
    if (!claim.ok()) break;  // no slices, or no room
    live.cpus[claim->uid] = cpus;
    live.pod.claims.push_back(*std::move(claim));
  }
  if (live.pod.claims.empty()) return;
  if (!prepare(live)) {
    report_.count("call", "prepare given up after retries");
    if (Status s = finish(live); !s.ok()) find(s.error().text);
    return;
  }
  // Some containers come later, so that a claim is prepared and waits for its container.
  if (random_.chance(70) && !create(live)) return;
  pods_.push_back(std::move(live));
}

void Pods::start_shared() {
  std::size_t shared = 0;
  for (const Live& live : pods_) shared += live.pod.claims.empty() ? 1 : 0;
  if (shared >= kMostShared) return end_pod();
  Live live;
  const std::string name = fmt::format("{}-shared-{}", name_, next_++);
  live.pod.info = {"pod-" + name, "demo", name};
  if (create(live)) pods_.push_back(std::move(live));
}

bool Pods::create(Live& live) {
  const auto until = Clock::now() + kMustWork;
  std::string why;
  while (Clock::now() < until) {
    Result<std::string> id = node_.add_container(live.pod);
    if (id.ok()) {
      report_.count("call", "container created");
      return true;
    }
    report_.count("call", "container refused, tried again");
    why = std::move(id).error().text;
    nap(random_, 20, 60);
  }
  find(fmt::format("the container of pod {} could not be created for a minute: {}", live.pod.info.name, why));
  return false;
}

bool Pods::call_prepare(Live& live) {
  report_.count("call", "prepare");
  const auto answer = node_.kubelet().prepare(sandbox::kDriverName, live.pod.claims);
  if (!answer.ok()) return false;
  bool all = true;
  std::vector<std::string> devices;
  for (const sandbox::ClaimName& claim : live.pod.claims) {
    const Result<sandbox::PreparedClaim>& one = answer->at(claim.uid);
    if (!one.ok()) {
      all = false;
      continue;
    }
    report_.count("call", "claims answered as prepared");
    facts_.prepared(claim.uid, live.cpus.at(claim.uid));
    devices.insert(devices.end(), one->cdi_devices.begin(), one->cdi_devices.end());
  }
  if (all) live.pod.devices = devices;
  return all;
}

bool Pods::prepare(Live& live) {
  const auto until = Clock::now() + kGiveUp;
  while (!call_prepare(live)) {
    if (Clock::now() > until) return false;
    nap(random_, 10, 60);
  }
  return true;
}

Status Pods::unprepare(const Live& live) {
  for (const sandbox::ClaimName& claim : live.pod.claims) facts_.ending(claim.uid);
  const auto until = Clock::now() + kMustWork;
  std::string why;
  do {
    report_.count("call", "unprepare");
    const auto answer = node_.kubelet().unprepare(sandbox::kDriverName, live.pod.claims);
    bool all = answer.ok();
    if (!all) why = answer.error().text;
    for (const sandbox::ClaimName& claim : live.pod.claims) {
      if (!answer.ok() || answer->at(claim.uid).ok()) continue;
      all = false;
      why = answer->at(claim.uid).error().text;
    }
    if (all) return ok_status();
    nap(random_, 10, 60);
  } while (Clock::now() < until);
  return make_error(Errc::kUnavailable, "pod {} could not be unprepared for a minute: {}", live.pod.info.name,
                    why);
}

// Containers, then the claims, then their objects.
Status Pods::finish(Live& live) {
  for (const std::string& id : live.pod.containers) (void)node_.runtime().remove(id);
  live.pod.containers.clear();
  if (live.pod.claims.empty()) return ok_status();
  if (Status s = unprepare(live); !s.ok()) return s;
  for (const sandbox::ClaimName& claim : live.pod.claims) (void)node_.delete_claim(claim);
  return ok_status();
}

void Pods::end_pod() {
  if (pods_.empty()) return;
  const std::size_t at = random_.pick(pods_.size());
  Live live = std::move(pods_[at]);
  pods_.erase(pods_.begin() + static_cast<std::ptrdiff_t>(at));
  if (Status s = finish(live); !s.ok()) find(s.error().text);
}

void Pods::restart_container() {
  if (pods_.empty()) return;
  Live& live = random_.one_of(pods_);
  for (const std::string& id : live.pod.containers) (void)node_.runtime().remove(id);
  live.pod.containers.clear();
  (void)create(live);
}

void Pods::prepare_again(bool twice_at_once) {
  if (pods_.empty()) return;
  Live& live = random_.one_of(pods_);
  if (live.pod.claims.empty()) return;
  if (!twice_at_once) {
    report_.count("call", "prepare repeated");
    (void)call_prepare(live);
    return;
  }
  report_.count("call", "prepare twice at once");
  Live twin = live;
  std::thread second([&] { (void)call_prepare(twin); });
  (void)call_prepare(live);
  second.join();
}

// An old call of prepare is delivered again, behind the unprepare; then the kubelet ends it for good.
void Pods::prepare_after_unprepare() {
  for (std::size_t i = 0; i < pods_.size(); ++i) {
    if (pods_[i].pod.claims.empty()) continue;
    report_.count("call", "prepare again behind unprepare");
    Live live = std::move(pods_[i]);
    pods_.erase(pods_.begin() + static_cast<std::ptrdiff_t>(i));
    for (const std::string& id : live.pod.containers) (void)node_.runtime().remove(id);
    live.pod.containers.clear();
    if (Status s = unprepare(live); !s.ok()) return find(s.error().text);
    (void)node_.kubelet().prepare(sandbox::kDriverName, live.pod.claims);
    if (Status s = finish(live); !s.ok()) find(s.error().text);
    return;
  }
}

Status Pods::end_all() {
  for (Live& live : std::exchange(pods_, {})) {
    if (Status s = finish(live); !s.ok()) return s;
  }
  return ok_status();
}

}  // namespace dracpu::chaos
