// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the kubelet, the API server and time do in a schedule.

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "cdi_view.h"
#include "clock.h"
#include "schedule.h"

namespace dracpu::chaos {
namespace {

using Phase = Claim::Phase;

constexpr std::size_t kNames = 6;  // of claims that exist at a time

}  // namespace

Claim& Schedule::new_claim() {
  Claim claim;
  claim.name = fmt::format("c{}", next_);
  claim.uid = fmt::format("u{}", next_);
  claim.share = fmt::format("s{}", next_++);
  claim.device = random_.one_of(variant_.machine->devices).name;
  claim.cpus = 1 + random_.pick(3);
  claims_.push_back(std::move(claim));
  return claims_.back();
}

// One that exists, or a new one.
Claim& Schedule::some_claim() {
  std::vector<Claim*> there;
  for (Claim& c : claims_) {
    if (c.phase != Phase::kGone) there.push_back(&c);
  }
  if (there.empty() || (there.size() < kNames && random_.chance(50))) return new_claim();
  return *random_.one_of(there);
}

Result<kube::Claim> Schedule::api_claim(const std::string& name) const {
  if (is_api_down_) return make_error(Errc::kUnavailable, "connection refused");
  const auto it = std::find_if(claims_.begin(), claims_.end(),
                               [&](const Claim& c) { return c.name == name && c.in_api; });
  if (it == claims_.end()) return make_error(Errc::kNotFound, "resourceclaims \"{}\" not found", name);
  kube::AllocationResult result;
  result.request = "cpus";
  result.driver = variant_.node.config.publish.driver_name;
  result.pool = variant_.node.name;
  result.device = it->device;
  result.share_id = it->share;
  result.consumed_capacity["dra.cpu/cpu"] = kube::Quantity(static_cast<std::int64_t>(it->cpus));
  kube::Claim claim;
  claim.ns = "ns";
  claim.name = name;
  claim.uid = ClaimUid(it->uid);
  claim.allocation = kube::Allocation{{std::move(result)}, {}};
  claim.reserved_for.push_back({"", "pods", "pod-" + it->uid, "pod-" + it->uid});
  return claim;
}

void Schedule::read(const std::string& /*ns*/, const std::string& name, Deadline /*deadline*/,
                    std::function<void(Result<kube::Claim>)> done) {
  if (!hold_reads_) return done(api_claim(name));
  // The server's answer is made now, or when it is let go.
  std::optional<Result<kube::Claim>> answer;
  if (random_.chance(50)) answer = api_claim(name);
  held_reads_.push_back({name, std::move(answer), std::move(done)});
}

void Schedule::prepare() {
  Refs refs;
  std::string text = "prepare";
  for (std::size_t i = 0, n = 1 + random_.pick(3); i < n; ++i) {
    Claim& claim = some_claim();
    if (claim.phase == Phase::kEnding) continue;  // the kubelet ends it first
    const bool may_change = claim.pod.empty() && held_reads_.empty() && claim.phase != Phase::kFresh;
    if (may_change && random_.chance(12)) {
      claim.cpus = 1 + random_.pick(3);
      claim.share = fmt::format("s{}", next_++);
      claim.phase = Phase::kAsked;  // what was answered before is no longer what is asked for
      report_.count("call", "prepare with a changed allocation");
    }
    if (claim.phase == Phase::kFresh) claim.phase = Phase::kAsked;
    if (claim.phase == Phase::kPrepared) report_.count("call", "prepare repeated");
    refs.push_back({"ns", claim.name, ClaimUid(claim.uid)});
    text += fmt::format(" {}({})", claim.uid, claim.cpus);
    if (random_.chance(10)) refs.push_back(refs.back());
  }
  if (refs.empty()) return;
  say(text);
  report_.count("call", "prepare");
  const auto call = std::make_shared<Prepare>(Prepare{refs, std::nullopt});
  const std::size_t way = random_.pick(100);
  if (way < 12) {
    report_.count("call", "prepare answered late, after others");
    say("  its reads are late");
    hold_reads_ = true;
    call_prepare(refs, call);
    hold_reads_ = false;
    open_calls_.push_back(call);
    return;
  }
  if (way < 27) {
    // The same call twice, served together.
    report_.count("call", "prepare twice at once");
    const auto twin = std::make_shared<Prepare>(Prepare{refs, std::nullopt});
    life_->hold();
    call_prepare(refs, call);
    call_prepare(refs, twin);
    life_->resume();
    life_->settle();
    take_answers(*call);
    return take_answers(*twin);
  }
  call_prepare(refs, call);
  life_->settle();
  take_answers(*call);
}

void Schedule::call_prepare(const Refs& refs, const std::shared_ptr<Prepare>& call) {
  life_->kubelet().prepare(refs, Deadline::never(),
                           [call](kubelet::PrepareResults results) { call->results = std::move(results); });
}

void Schedule::take_answers(const Prepare& call, bool is_late) {
  if (disk_.is_dead() || is_broken_) return;  // nobody was there to answer
  // The API server may have been away when it answered.
  const bool excused = was_disturbed() || is_api_down_ || is_late || !life_->is_connected();
  if (!call.results) return broken("prepare was not answered");
  const auto files = claims_in_cdi(cdi_path_);
  std::set<ClaimUid> done;
  for (const kubelet::ClaimRef& ref : call.refs) {
    if (!done.insert(ref.uid).second) continue;
    Claim& claim = *find(ref.uid.get());
    const auto result = call.results->find(ref.uid);
    if (result == call.results->end()) return broken("prepare left out " + claim.uid);
    if (!result->second.ok()) {
      say(fmt::format("  {} refused: {}", claim.uid, result->second.error().text));
      report_.count("call", "prepare refused");
      if (claim.phase == Phase::kPrepared && !excused)
        return broken("a prepared claim was refused: " + claim.uid);
      // Its old file stands if it could be neither replaced nor removed; it may be in both layouts.
      const auto file = files.find(claim.uid);
      const bool is_twice = file != files.end() && file->second.size() > 1;
      if (is_faulty_ && (claim.phase == Phase::kAsked || is_twice)) claim.is_file_hurt = true;
      continue;
    }
    if (claim.phase == Phase::kEnding) continue;  // nobody waits for this answer
    if (claim.phase == Phase::kGone || claim.phase == Phase::kFresh) {
      claim.phase = Phase::kAsked;
      continue;
    }
    const std::string device = "dra.k8s.io/cpu=claim-" + claim.uid;
    const auto& devices = *result->second;
    if (devices.size() != 1 || devices[0].device != claim.device ||
        std::count(devices[0].cdi_device_ids.begin(), devices[0].cdi_device_ids.end(), device) != 1) {
      return broken("prepare answered other devices than were allocated for " + claim.uid);
    }
    const auto file = files.find(claim.uid);
    if (file == files.end() || file->second.size() != 1)
      return broken(fmt::format("{} was answered as prepared, and a runtime finds {} definitions of it",
                                claim.uid, file == files.end() ? 0 : file->second.size()));
    const CpuSet& cpus = file->second.front();
    say(fmt::format("  {} prepared with {}", claim.uid, cpus.to_string()));
    report_.count("call", "prepare answered");
    if (claim.phase == Phase::kPrepared && cpus != claim.answered) {
      return broken(fmt::format("{} was prepared with {}, and again with {}", claim.uid,
                                claim.answered.to_string(), cpus.to_string()));
    }
    // Without the API server a claim that is prepared already is answered as it was, whatever is allocated
    // now.
    if (claim.phase == Phase::kAsked && (is_api_down_ || is_late)) continue;
    if (cpus.size() != claim.cpus)
      return broken(fmt::format("{} asked for {} CPUs and got {}", claim.uid, claim.cpus, cpus.to_string()));
    claim.phase = Phase::kPrepared;
    claim.answered = cpus;
    claim.is_file_hurt = false;
  }
}

// Its container runs, and the allocation is another all of a sudden: refused, and nothing moves.
void Schedule::prepare_changed_owned() {
  disk_.calm();
  if (boxes_.empty() || !life_->is_connected() || is_api_down_ || outage_ > 0) return;
  const Box& box =
      std::next(boxes_.begin(), static_cast<std::ptrdiff_t>(random_.pick(boxes_.size())))->second;
  if (box.uids.empty() || box.is_demoted) return;
  Claim& claim = *find(box.uids.front());
  if (claim.phase != Phase::kPrepared || !claim.in_api) return;
  say("prepare of running " + claim.uid + " with a changed allocation");
  report_.count("call", "prepare with a changed allocation");
  const Claim before = claim;
  claim.cpus += 1;
  const auto call =
      std::make_shared<Prepare>(Prepare{{{"ns", claim.name, ClaimUid(claim.uid)}}, std::nullopt});
  call_prepare(call->refs, call);
  life_->settle();
  claim = before;
  if (!call->results || call->results->empty()) return broken("prepare was not answered");
  if (call->results->begin()->second.ok())
    broken("the allocation of " + claim.uid + " changed under its container, and prepare took it");
}

// Answers of the API server that were late, in any order.
void Schedule::let_reads_go() {
  if (held_reads_.empty()) return;
  say("the late reads come");
  while (!held_reads_.empty()) {
    const auto it = held_reads_.begin() + static_cast<std::ptrdiff_t>(random_.pick(held_reads_.size()));
    Read one = std::move(*it);
    held_reads_.erase(it);
    one.done(one.answer ? *std::move(one.answer) : api_claim(one.name));
  }
  life_->settle();
  for (const auto& call : std::exchange(open_calls_, {})) take_answers(*call, true);
}

void Schedule::unprepare() {
  Refs refs;
  std::string text = "unprepare";
  for (std::size_t i = 0, n = 1 + random_.pick(3); i < n && !claims_.empty(); ++i) {
    Claim& claim = random_.one_of(claims_);
    if (has_box(claim.uid)) continue;  // the kubelet ends the containers first
    refs.push_back({"ns", claim.name, ClaimUid(claim.uid)});
    text += " " + claim.uid;
    if (random_.chance(15)) refs.push_back(refs.back());
  }
  if (random_.chance(10)) refs.push_back({"ns", "never", ClaimUid("never-prepared")});
  if (refs.empty()) return;
  say(text);
  call_unprepare(refs);
}

void Schedule::call_unprepare(const Refs& refs) {
  report_.count("call", "unprepare");
  for (const kubelet::ClaimRef& ref : refs) {
    Claim* claim = find(ref.uid.get());
    if (claim != nullptr && claim->phase != Phase::kGone) claim->phase = Phase::kEnding;
  }
  std::optional<kubelet::UnprepareResults> results;
  life_->kubelet().unprepare(refs, Deadline::never(),
                             [&](kubelet::UnprepareResults r) { results = std::move(r); });
  life_->settle();
  if (disk_.is_dead()) return;
  if (!results) return broken("unprepare was not answered");
  const bool excused = was_disturbed();
  for (const kubelet::ClaimRef& ref : refs) {
    const auto result = results->find(ref.uid);
    if (result == results->end()) return broken("unprepare left out " + ref.uid.get());
    Claim* claim = find(ref.uid.get());
    if (!result->second.ok()) {
      say(fmt::format("  {} not released: {}", ref.uid.get(), result->second.error().text));
      if (!excused) return broken("unprepare was refused though nothing fails: " + ref.uid.get());
      continue;
    }
    if (claim == nullptr || claim->phase == Phase::kGone) continue;
    claim->pod.clear();
    claim->is_file_hurt = false;
    // Most claims are deleted then; some are used by another pod later.
    claim->phase = random_.chance(70) ? Phase::kGone : Phase::kFresh;
    claim->in_api = claim->phase == Phase::kFresh;
  }
}

// The claim's object is taken away by force while nothing runs with it.
void Schedule::lose_claim() {
  for (Claim& claim : claims_) {
    if (claim.phase != Phase::kPrepared || has_box(claim.uid) || !random_.chance(30)) continue;
    say("the object of " + claim.uid + " is deleted");
    claim.in_api = false;
    claim.phase = Phase::kEnding;
    report_.count("call", "claim object deleted by force");
    break;
  }
  say("look for lost claims");
  life_->look_for_lost_claims();
}

void Schedule::rewrite_cdi() {
  say("rewrite missing CDI files");
  life_->rewrite_cdi();
}

void Schedule::toggle_api() {
  is_api_down_ = !is_api_down_;
  say(is_api_down_ ? "the API server is down" : "the API server is back");
  if (is_api_down_) report_.count("fault", "API server down");
}

void Schedule::jump_clock() {
  ahead_ = std::chrono::hours(static_cast<std::int64_t>(random_.pick(24UL * 800)) - 24 * 400);
  say(fmt::format("the wall clock jumps to {} s from now", ahead_.count()));
  report_.count("fault", "wall clock jumps");
  set_wall_clock_ahead(ahead_);
}

}  // namespace dracpu::chaos
