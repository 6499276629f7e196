// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What must hold after every step.

#include <algorithm>

#include "cdi_view.h"
#include "schedule.h"

namespace dracpu::chaos {
namespace {

using Phase = Claim::Phase;

}  // namespace

Claim* Schedule::find(const std::string& uid) {
  const auto it = std::find_if(claims_.begin(), claims_.end(), [&](const Claim& c) { return c.uid == uid; });
  return it == claims_.end() ? nullptr : &*it;
}

void Schedule::check() {
  if (!life_) return;
  report_.count("run", "checks of the invariants");
  check_ledger();
  check_files();
  check_boxes();
}

// I2 and I3 as the driver sees itself.
void Schedule::check_ledger() {
  std::string what = life_->books().with_ledger([&](const ledger::Ledger& l) -> std::string {
    if (std::string odd = l.check(); !odd.empty()) return odd;
    for (const Claim& claim : claims_) {
      if (claim.phase != Phase::kPrepared) continue;
      const auto it = l.claims().find(ClaimUid(claim.uid));
      if (it == l.claims().end()) return "prepared claim " + claim.uid + " is forgotten";
      if (it->second.cpus != claim.answered) {
        return fmt::format("prepared claim {} moved from {} to {}", claim.uid, claim.answered.to_string(),
                           it->second.cpus.to_string());
      }
    }
    return {};
  });
  if (!what.empty()) broken(std::move(what));
}

// The same as a runtime and the next start see it.
void Schedule::check_files() {
  const auto files = claims_in_cdi(cdi_path_);
  CpuSet taken;
  for (const auto& [uid, definitions] : files) {
    const Claim* claim = find(uid);
    // A file that differs from the state is put right when the runtime has told what runs.
    if (claim == nullptr || claim->is_file_hurt || !life_->is_connected()) continue;
    if (definitions.front().intersects(taken))
      return broken("the CDI file of " + uid + " names another claim's CPUs");
    taken |= definitions.front();
  }
  for (const Claim& claim : claims_) {
    if (claim.phase != Phase::kPrepared || claim.is_file_hurt) continue;
    const auto file = files.find(claim.uid);
    if (file == files.end()) return broken("prepared claim " + claim.uid + " has no CDI file");
    if (file->second.size() != 1) return broken("prepared claim " + claim.uid + " is defined twice");
    if (file->second.front() != claim.answered) {
      return broken(fmt::format("the CDI file of {} says {}, it was prepared with {}", claim.uid,
                                file->second.front().to_string(), claim.answered.to_string()));
    }
  }
}

// What the containers run on.
void Schedule::check_boxes() {
  if (!life_->is_connected()) return;
  CpuSet exclusive;
  const auto is_owner = [&](const Box& box) {
    return !box.is_demoted && !box.uids.empty() &&
           std::all_of(box.uids.begin(), box.uids.end(), [&](const std::string& uid) {
             const Claim* claim = find(uid);
             return claim->phase == Phase::kPrepared && claim->pod == box.pod;
           });
  };
  for (const auto& [id, box] : boxes_) {
    if (!is_owner(box)) continue;
    CpuSet wanted;
    for (const std::string& uid : box.uids) wanted |= find(uid)->answered;
    if (wanted.intersects(exclusive)) return broken("two containers own a CPU, one of them " + id);
    exclusive |= wanted;
    if (box.cpus != wanted.to_string())
      return broken(fmt::format("container {} owns {} and runs on {}", id, wanted.to_string(), box.cpus));
  }
  for (const auto& [id, box] : boxes_) {
    if (is_owner(box) || box.is_untold) continue;
    const CpuSet cpus = box.cpus.empty() ? variant_.machine->managed : CpuSet::parse(box.cpus).value();
    if (cpus.intersects(exclusive))
      return broken(fmt::format("container {} runs on {}, of which {} are owned", id, cpus.to_string(),
                                (cpus & exclusive).to_string()));
  }
}

void Schedule::check_start(const Life::Started& started) {
  // A bit of the minor version may flip: the content is whole then, and all of it is used.
  const bool was_used = started.loaded.from_state > 0;
  if (hurt_ == Hurt::kDamaged && hurt_had_claims_ && !was_used && !was_warned_)
    return broken("the state file was damaged, and nobody was told");
  // Used all the same, or the renaming failed: said, but not kept.
  if (hurt_ == Hurt::kDamaged && (was_used || is_faulty_) && !aside_.empty()) aside_.pop_back();
  std::vector<std::string> kept;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(state_path_.parent_path(), ec)) {
    if (entry.path().filename().string().find(".unreadable-") != std::string::npos)
      kept.push_back(slurp(entry.path()).value_or(""));
  }
  for (const std::string& content : aside_) {
    if (std::count(kept.begin(), kept.end(), content) < std::count(aside_.begin(), aside_.end(), content))
      return broken("an unreadable state file was not kept");
  }
  if (is_new_boot_ && was_used && !started.loaded.new_boot) return broken("a new boot was not noticed");
  // They are written again once the runtime is there.
  if (!started.cdi_errors.empty()) {
    for (Claim& claim : claims_) claim.is_file_hurt = claim.is_file_hurt || claim.phase == Phase::kPrepared;
  }
  hurt_ = Hurt::kNone;
  was_warned_ = false;
  check_ledger();
}

}  // namespace dracpu::chaos
