// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/reconcile.h"

#include <algorithm>
#include <utility>

namespace dracpu::agent {
namespace {

std::string full_name(const ClaimUid& uid, const ledger::Claim& claim) {
  return claim.name.empty() ? uid.get() : fmt::format("{}/{} ({})", claim.ns, claim.name, uid.get());
}

class Reconciler {
 public:
  Reconciler(const std::optional<ClaimMap>& own, const std::vector<cdi::Entry>& files) : own_(own) {
    for (const cdi::Entry& file : files) {
      if (!file.cpus.ok()) {
        warn("CDI file \"{}\": {}", file.path.string(), file.cpus.error().text);
      } else if (!files_.emplace(file.uid, &file).second && file.layout == cdi::Layout::kPerClaim) {
        files_[file.uid] = &file;  // a claim's own file is newer than the one of all claims
      }
    }
  }

  Reconciled run() {
    out_.stale = own_ && std::any_of(files_.begin(), files_.end(),
                                     [&](const auto& f) { return !own_->contains(f.first); });
    if (out_.stale) {
      warn(
          "another driver worked on this node since the state file was written (claims in CDI files that it "
          "does not know); where they disagree the CDI files count");
      take_files();
      take_state();
    } else {
      take_state();
      take_files();
    }
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) {
    out_.warnings.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  // Puts the claim in, or says whose CPUs it wants.
  bool put(const ClaimUid& uid, ledger::Claim claim, std::string_view source) {
    if (claim.cpus.intersects(held_)) {
      ++out_.conflicts;
      for (const auto& [other, have] : out_.claims) {
        if (!have.cpus.intersects(claim.cpus)) continue;
        warn(
            "{}: claim {} says CPUs {}, of which {} belong to claim {}; it is left out until it is prepared "
            "again",
            source, full_name(uid, claim), claim.cpus.to_string(), (have.cpus & claim.cpus).to_string(),
            full_name(other, have));
      }
      return false;
    }
    held_ |= claim.cpus;
    out_.claims.emplace(uid, std::move(claim));
    return true;
  }

  void take_state() {
    if (!own_) return;
    for (const auto& [uid, claim] : *own_) {
      if (out_.claims.contains(uid)) continue;
      if (!put(uid, claim, "state file")) continue;
      ++out_.from_state;
      if (out_.stale) out_.unconfirmed.insert(uid);
    }
  }

  void take_files() {
    for (const auto& [uid, file] : files_) {
      const CpuSet& cpus = *file->cpus;
      if (const auto taken = out_.claims.find(uid); taken != out_.claims.end()) {
        if (taken->second.cpus == cpus) continue;
        ++out_.conflicts;
        out_.disputed.emplace(uid, cpus);
        warn("CDI file \"{}\" says CPUs {}, the state file has {} for claim {}; the state file counts",
             file->path.string(), cpus.to_string(), taken->second.cpus.to_string(),
             full_name(uid, taken->second));
        continue;
      }
      ledger::Claim claim;
      bool is_known = false;
      if (own_) {
        if (const auto known = own_->find(uid); known != own_->end()) {
          is_known = known->second.cpus == cpus;
          if (is_known) {
            claim = known->second;
          } else {
            claim.ns = known->second.ns;
            claim.name = known->second.name;
            warn("claim {} has CPUs {} now, the state file has {}", full_name(uid, claim), cpus.to_string(),
                 known->second.cpus.to_string());
          }
        }
      }
      claim.cpus = cpus;
      claim.committed = true;
      if (put(uid, std::move(claim), fmt::format("CDI file \"{}\"", file->path.string())))
        ++(is_known ? out_.from_state : out_.from_cdi);
    }
  }

  const std::optional<ClaimMap>& own_;
  std::map<ClaimUid, const cdi::Entry*> files_;
  CpuSet held_;
  Reconciled out_;
};

}  // namespace

Reconciled reconcile(const std::optional<ClaimMap>& own, const std::vector<cdi::Entry>& files) {
  return Reconciler(own, files).run();
}

}  // namespace dracpu::agent
