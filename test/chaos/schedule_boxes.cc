// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the runtime does in a schedule.

#include <algorithm>
#include <utility>

#include "cdi_view.h"
#include "schedule.h"

namespace dracpu::chaos {
namespace {

using Phase = Claim::Phase;

std::string cpus_or_all(const std::string& cpus) { return cpus.empty() ? "all" : cpus; }

}  // namespace

bool Schedule::has_box(const std::string& uid) const {
  return std::any_of(boxes_.begin(), boxes_.end(), [&](const auto& entry) {
    const Box& box = entry.second;
    return std::find(box.uids.begin(), box.uids.end(), uid) != box.uids.end();
  });
}

nri::ContainerInfo Schedule::info_of(const Box& box) const {
  nri::ContainerInfo info;
  info.id = ContainerId(box.id);
  info.sandbox = PodSandboxId("sandbox-" + box.pod);
  info.pod_uid = PodUid(box.pod);
  info.pod_namespace = "ns";
  info.pod_name = box.pod;
  info.name = "app";
  info.env = box.env;
  info.cpus = box.cpus;
  return info;
}

void Schedule::apply(const std::vector<nri::ContainerUpdate>& updates) {
  for (const nri::ContainerUpdate& u : updates) {
    if (u.cpus.empty()) return broken("container " + u.id.get() + " was told an empty set");
    const auto it = boxes_.find(u.id.get());
    if (it == boxes_.end()) continue;
    it->second.cpus = u.cpus.to_string();
    it->second.is_untold = false;
  }
}

Box Schedule::make_box(const std::string& pod, const std::vector<std::string>& uids) {
  Box box{fmt::format("k{}", next_++), pod, uids, {}, "", false, false};
  const auto files = claims_in_cdi(cdi_path_);
  for (const std::string& uid : uids) {
    const auto file = files.find(uid);
    if (file == files.end() || file->second.size() != 1) return {};  // the runtime cannot create it
    box.env.push_back(fmt::format("DRA_CPUSET_{}={}", uid, file->second.front().to_string()));
  }
  return box;
}

void Schedule::create() {
  std::vector<Claim*> ready;
  for (Claim& c : claims_) {
    if (c.phase == Phase::kPrepared && !has_box(c.uid) && !c.is_file_hurt) ready.push_back(&c);
  }
  if (ready.empty() || random_.chance(35)) {
    (void)run_box(make_box(fmt::format("shared-{}", next_), {}), false);
    return;
  }
  Claim& first = *random_.one_of(ready);
  std::vector<Claim*> group;
  const bool is_new = first.pod.empty();
  for (Claim& c : claims_) {
    if (&c == &first || (!is_new && c.pod == first.pod)) group.push_back(&c);
  }
  Claim& second = *random_.one_of(ready);
  if (is_new && &second != &first && second.pod.empty() && random_.chance(30)) group.push_back(&second);
  const bool all_ready = std::all_of(group.begin(), group.end(), [&](const Claim* c) {
    return std::find(ready.begin(), ready.end(), c) != ready.end();
  });
  if (!all_ready) return;
  std::vector<std::string> uids;
  for (const Claim* c : group) uids.push_back(c->uid);
  const std::string pod = is_new ? "pod-" + first.uid : first.pod;
  Box box = make_box(pod, uids);
  // While the driver is away a second definition may be there until its next start.
  if (box.id.empty()) {
    if (life_ && !was_disturbed()) broken("the container of prepared " + first.uid + " cannot be created");
    return;
  }
  for (Claim* c : group) c->pod = pod;  // also if the answer is lost: the driver has seen whose it is
  (void)run_box(std::move(box), false);
}

// A second container with somebody's claim, or one that names what it was not given.
void Schedule::create_stranger() {
  if (!life_->is_connected()) return;
  std::vector<std::string> owned;
  for (const Claim& c : claims_) {
    if (c.phase == Phase::kPrepared && has_box(c.uid) && !c.is_file_hurt) owned.push_back(c.uid);
  }
  Box box = owned.empty() || random_.chance(40) ? make_box("forger", {})
                                                : make_box("thief", {random_.one_of(owned)});
  if (box.id.empty()) return;
  if (box.env.empty()) box.env.push_back(random_.chance(50) ? "DRA_CPUSET_nobody=0-1" : "DRA_CPUSET_=x");
  if (run_box(std::move(box), true)) broken("a container got a claim that is not its own");
}

bool Schedule::run_box(Box box, bool is_stranger) {
  std::string text = fmt::format("create {} of {}", box.id, box.pod);
  for (const std::string& e : box.env) text += " " + e;
  say(text);
  report_.count("call", "container created");
  if (!life_ || !life_->is_connected()) {
    say("  without the driver");
    boxes_.emplace(box.id, box);
    return true;
  }
  const std::map<std::string, Box> before = boxes_;
  Result<nri::CreateAnswer> answer = life_->runtime().on_create(info_of(box), Deadline::never());
  if (!answer.ok()) {
    say("  refused: " + answer.error().text);
    const bool is_full = answer.error().code == Errc::kNoCapacity &&
                         life_->books().with_ledger([](const ledger::Ledger& l) { return l.pool().empty(); });
    if (!is_stranger && !is_full) broken("a container was refused: " + answer.error().text);
    // What containerd does with a creation that failed.
    const auto updates = life_->runtime().on_stop(info_of(box), Deadline::never());
    if (updates.ok()) apply(*updates);
    life_->runtime().on_remove(info_of(box));
    return false;
  }
  if (answer->cpus.empty()) broken("a new container was told an empty set");
  if (!is_stranger && random_.chance(5)) {
    say("  the answer is lost");
    report_.count("fault", "NRI answer lost");
    std::vector<ContainerId> updated;
    for (const nri::ContainerUpdate& u : answer->updates) updated.push_back(u.id);
    life_->runtime().on_not_applied(ContainerId(box.id), updated);
    return false;
  }
  box.cpus = answer->cpus.to_string();
  say("  with " + box.cpus);
  apply(answer->updates);
  boxes_.emplace(box.id, box);
  life_->settle();  // the owner is written
  if (disk_.is_dead() && random_.chance(50)) {
    say("  but the answer did not arrive");
    boxes_ = before;
    box.cpus.clear();
    boxes_.emplace(box.id, box);
  }
  return true;
}

void Schedule::stop_box() {
  if (boxes_.empty()) return;
  const auto it = std::next(boxes_.begin(), static_cast<std::ptrdiff_t>(random_.pick(boxes_.size())));
  const Box box = it->second;
  say("stop " + box.id);
  boxes_.erase(it);
  if (!life_ || !life_->is_connected()) return;
  const auto updates = life_->runtime().on_stop(info_of(box), Deadline::never());
  if (!updates.ok()) return broken("a stop was refused: " + updates.error().text);
  apply(*updates);
  if (random_.chance(80)) life_->runtime().on_remove(info_of(box));
}

// The kubelet sets resources again, and says nothing of CPUs.
void Schedule::update_box() {
  if (boxes_.empty() || !life_->is_connected()) return;
  const auto it = std::next(boxes_.begin(), static_cast<std::ptrdiff_t>(random_.pick(boxes_.size())));
  say(fmt::format("update {} (has {})", it->first, cpus_or_all(it->second.cpus)));
  const auto updates = life_->runtime().on_update(info_of(it->second), Deadline::never());
  if (!updates.ok()) return broken("an update was refused: " + updates.error().text);
  apply(*updates);
}

void Schedule::reconnect() {
  if (life_->is_connected()) {
    say("the runtime goes away");
    report_.count("fault", "runtime gone");
    life_->disconnect();
    if (random_.chance(40)) return;  // for some steps
    if (random_.chance(40)) create();
    if (random_.chance(30)) stop_box();
  }
  connect();
}

void Schedule::connect() {
  std::vector<nri::ContainerInfo> list;
  for (const auto& [id, box] : boxes_) list.push_back(info_of(box));
  const auto updates = life_->connect(std::move(list));
  if (!updates.ok()) return broken("Synchronize was refused: " + updates.error().text);
  say(fmt::format("synchronized with {} containers, {} updates", boxes_.size(), updates->size()));
  const bool is_pool_empty =
      life_->books().with_ledger([](const ledger::Ledger& l) { return l.pool().empty(); });
  for (auto& [id, box] : boxes_) box.is_untold = is_pool_empty;
  apply(*updates);
  if (disk_.is_dead() || was_disturbed()) return;
  for (Claim& claim : claims_) claim.is_file_hurt = false;  // they were written anew
}

// What RuntimeService does a second after a release.
void Schedule::grow() {
  if (!life_->is_connected()) return;
  say("grow the pool");
  const std::vector<ledger::Update> updates =
      life_->books().with_ledger([](const ledger::Ledger& l) { return l.stale(16); });
  std::vector<nri::ContainerUpdate> wire;
  std::vector<ContainerId> ids;
  for (const ledger::Update& u : updates) {
    wire.push_back({u.id, u.cpus});
    ids.push_back(u.id);
  }
  const bool lost = random_.chance(20);
  if (!lost) apply(wire);
  life_->books().with_ledger([&](ledger::Ledger& l) { lost ? l.forget_told(ids) : l.note_told(updates); });
}

}  // namespace dracpu::chaos
