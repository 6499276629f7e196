// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "ledger/ledger.h"

#include <algorithm>
#include <utility>

#include "ledger/claim_env.h"

namespace dracpu::ledger {
namespace {

std::size_t sum_of(const std::vector<Request>& requests) {
  std::size_t n = 0;
  for (const Request& r : requests) n += r.cpus;
  return n;
}

std::vector<Grant> grants_of(const std::vector<Request>& requests) {
  std::vector<Grant> out;
  out.reserve(requests.size());
  for (const Request& r : requests) out.push_back({r.request, r.pool, r.device, r.share_id, r.cpus});
  return out;
}

std::string or_none(const CpuSet& cpus) { return cpus.empty() ? "none" : cpus.to_string(); }

CpuSet devices_of(const std::vector<Request>& requests) {
  CpuSet out;
  for (const Request& r : requests) out |= r.device_cpus;
  return out;
}

// False if an external allocator has chosen other CPUs since the claim got its own.
bool is_as_chosen(const Claim& claim, const std::vector<Request>& requests) {
  CpuSet chosen;
  for (const Request& r : requests) {
    if (!r.chosen) return true;
    chosen |= *r.chosen;
  }
  return claim.cpus.is_subset_of(chosen);
}

}  // namespace

Ledger::Ledger(CpuSet managed, CpuSet reserved, CpuSet offline, Picker picker)
    : managed_(std::move(managed)),
      reserved_(std::move(reserved)),
      offline_(std::move(offline)),
      picker_(std::move(picker)) {}

CpuSet Ledger::pool() const { return managed_ - reserved_ - held_; }

void Ledger::set_machine(CpuSet managed, CpuSet offline, Picker picker) {
  managed_ = std::move(managed);
  offline_ = std::move(offline);
  picker_ = std::move(picker);
}

// What one result gets out of `candidates`, the free CPUs of its device.
Result<CpuSet> Ledger::pick_for(const Request& r, const CpuSet& candidates) const {
  if (r.chosen) {
    const CpuSet fit = candidates & *r.chosen;
    if (fit.size() >= r.cpus) return fit.lowest(r.cpus);
    return make_error(
        Errc::kNoCapacity,
        "request \"{}\" cannot be satisfied: it needs {} of its preferred CPUs {} on device \"{}\", "
        "of which {} are free there ({})",
        r.request, r.cpus, r.chosen->to_string(), r.device, fit.size(), or_none(fit));
  }
  const CpuSet near = candidates & r.near;
  CpuSet out;
  // Local CPUs first; what they cannot give comes from the rest.
  for (const CpuSet& part : {near, candidates - near}) {
    const std::size_t wanted = std::min(r.cpus - out.size(), part.size());
    if (wanted == 0) continue;
    const Result<CpuSet> picked = picker_(part, wanted);
    if (!picked.ok()) return picked.error();
    if (picked->size() != wanted || !picked->is_subset_of(part)) {
      return make_error(Errc::kInternal, "selection for device \"{}\" gave CPUs {} for {} out of {}",
                        r.device, picked->to_string(), wanted, part.to_string());
    }
    out |= *picked;
  }
  if (out.size() == r.cpus) return out;
  return make_error(Errc::kNoCapacity,
                    "request \"{}\" needs {} CPUs of device \"{}\", {} are free there ({})", r.request,
                    r.cpus, r.device, candidates.size(), or_none(candidates));
}

Result<Claim> Ledger::prepare(const ClaimUid& uid, std::string_view ns, std::string_view name,
                              const std::vector<Request>& requests) {
  const auto known = claims_.find(uid);
  CpuSet free = pool();
  if (known != claims_.end()) {
    Claim& claim = known->second;
    if (claim.grants == grants_of(requests) && is_as_chosen(claim, requests)) return claim;
    if (claim.grants.empty() && claim.cpus.size() == sum_of(requests) &&
        (claim.cpus - offline_).is_subset_of(devices_of(requests)) && is_as_chosen(claim, requests)) {
      claim.ns = ns;
      claim.name = name;
      claim.grants = grants_of(requests);
      return claim;
    }
    if (claim.owner) {
      return make_error(
          Errc::kConflict,
          "claim {} holds CPUs {} for container \"{}\" of pod {} and its allocation changed meanwhile; "
          "delete the pod first",
          uid.get(), claim.cpus.to_string(), claim.owner->container, claim.owner->pod.get());
    }
    free |= claim.cpus & managed_;
    free -= reserved_;
  }
  if (const std::vector<ClaimUid> odd = claims_on_reserved(); !odd.empty()) {
    const Claim& first = claims_.at(odd.front());
    return make_error(
        Errc::kConflict,
        "the configuration reserves CPUs {} that {} claims still hold, first {}/{} ({}); nothing new "
        "is prepared until they end or reservedCPUs is set back",
        (held_ & reserved_).to_string(), odd.size(), first.ns, first.name, odd.front().get());
  }
  CpuSet taken;
  for (const Request& r : requests) {
    Result<CpuSet> picked = pick_for(r, (free & r.device_cpus) - taken);
    if (!picked.ok()) {
      Error error = std::move(picked).error();
      // They look free to whoever reads the message.
      if (r.chosen && r.chosen->intersects(taken))
        error.text += fmt::format("; other requests of this claim take {}", (*r.chosen & taken).to_string());
      return error;
    }
    taken |= *picked;
  }
  if (shared_ > 0 && !taken.empty() && (free - taken).empty()) {
    return make_error(
        Errc::kNoCapacity,
        "the claim would take the rest of this node's shared pool (CPUs {}) while containers run in it "
        "({}); ask for fewer CPUs or set reservedCPUs",
        taken.to_string(), shared_);
  }
  Claim claim{std::string(ns), std::string(name), taken, grants_of(requests), std::nullopt, false};
  if (known != claims_.end()) held_ -= known->second.cpus;
  held_ |= taken;
  claims_[uid] = claim;
  return claim;
}

std::vector<ClaimUid> Ledger::claims_on_reserved() const {
  std::vector<ClaimUid> out;
  if (!held_.intersects(reserved_)) return out;
  for (const auto& [uid, claim] : claims_) {
    if (claim.cpus.intersects(reserved_)) out.push_back(uid);
  }
  return out;
}

std::int64_t Ledger::stamp(const ClaimUid& uid, std::int64_t now) {
  const auto it = claims_.find(uid);
  if (it == claims_.end()) return 0;
  std::int64_t& at = it->second.prepared_at;
  if (at == 0 && !it->second.committed) at = now;
  return at;
}

void Ledger::commit(const ClaimUid& uid) {
  if (const auto it = claims_.find(uid); it != claims_.end()) it->second.committed = true;
}

void Ledger::abort(const ClaimUid& uid) {
  const auto it = claims_.find(uid);
  if (it == claims_.end() || it->second.committed) return;
  held_ -= it->second.cpus;
  claims_.erase(it);
}

bool Ledger::release(const ClaimUid& uid) {
  const auto it = claims_.find(uid);
  if (it == claims_.end()) return false;
  held_ -= it->second.cpus;
  claims_.erase(it);
  // The claim may be prepared again, for others, before the runtime reports the end of its containers.
  for (auto& [id, c] : containers_) {
    if (std::erase(c.claims, uid) != 0) c.outlives = true;
  }
  return true;
}

Status Ledger::adopt(const ClaimUid& uid, Claim claim) {
  const auto known = claims_.find(uid);
  const CpuSet others = known == claims_.end() ? held_ : held_ - known->second.cpus;
  if (claim.cpus.intersects(others)) {
    for (const auto& [other, have] : claims_) {
      if (other != uid && have.cpus.intersects(claim.cpus)) {
        return make_error(Errc::kConflict, "claim {} says CPUs {}, of which {} belong to claim {}", uid.get(),
                          claim.cpus.to_string(), (have.cpus & claim.cpus).to_string(), other.get());
      }
    }
  }
  held_ = others | claim.cpus;
  claims_[uid] = std::move(claim);
  return ok_status();
}

Result<std::vector<ClaimUid>> Ledger::match_claims(const ContainerFacts& container,
                                                   const ClaimCpus& wanted) const {
  std::vector<ClaimUid> out;
  for (const auto& [uid, cpus] : wanted) {
    const auto it = claims_.find(uid);
    if (it == claims_.end()) {
      return make_error(
          Errc::kConflict,
          "the environment names claim {}, which is not prepared on this node; the pod may have set the "
          "variable itself",
          uid.get());
    }
    const Claim& claim = it->second;
    if (claim.cpus != cpus) {
      return make_error(Errc::kConflict, "the environment gives claim {} CPUs {}, but it holds {}", uid.get(),
                        cpus.to_string(), claim.cpus.to_string());
    }
    if (claim.owner && *claim.owner != container.who) {
      return make_error(Errc::kConflict,
                        "claim {} belongs to container \"{}\" of pod {}; a claim serves one container only",
                        uid.get(), claim.owner->container, claim.owner->pod.get());
    }
    out.push_back(uid);
  }
  return out;
}

CpuSet Ledger::union_of(const std::vector<ClaimUid>& claims) const {
  CpuSet out;
  for (const ClaimUid& uid : claims) {
    if (const auto it = claims_.find(uid); it != claims_.end()) out |= it->second.cpus;
  }
  out -= offline_;
  return out;
}

CpuSet Ledger::due(const Container& container) const {
  return container.outlives ? CpuSet() : union_of(container.claims);
}

void Ledger::put(const ContainerId& id, Container container) {
  remove(id);
  if (container.kind == Kind::kShared) ++shared_;
  containers_.insert_or_assign(id, std::move(container));
}

Result<Placement> Ledger::create(const ContainerFacts& container) {
  Result<ClaimCpus> wanted = read_claim_env(*container.env);
  if (!wanted.ok()) return std::move(wanted).error();
  Placement out;
  const CpuSet now = pool();
  if (wanted->empty()) {
    if (now.empty() && !claims_.empty()) {
      return make_error(
          Errc::kNoCapacity,
          "no CPU of this node is left for a container without a claim: all are reserved or held by claims "
          "({})",
          claims_.size());
    }
    out.cpus = now;
    put(container.id, {container.who, Kind::kShared, {}, now, false});
    return out;
  }
  Result<std::vector<ClaimUid>> claims = match_claims(container, *wanted);
  if (!claims.ok()) return std::move(claims).error();
  out.kind = Kind::kExclusive;
  out.cpus = union_of(*claims);
  if (out.cpus.empty()) {
    return make_error(Errc::kNoCapacity, "every CPU of claim {} is offline; bring one of them online",
                      claims->front().get());
  }
  out.new_owner = std::any_of(claims->begin(), claims->end(),
                              [&](const ClaimUid& uid) { return !claims_.at(uid).owner; });
  std::size_t others = shared_;
  if (const auto self = containers_.find(container.id);
      self != containers_.end() && self->second.kind == Kind::kShared) {
    --others;
  }
  if (now.empty() && others > 0 && out.new_owner) {
    return make_error(Errc::kNoCapacity,
                      "no CPU of this node is left for its shared containers ({}): claims hold them all; set "
                      "reservedCPUs",
                      others);
  }
  // For a new owner every shared container is told, also one that was told the same set before: the runtime
  // does not report updates that failed (spec nri-wire 5.6), and from here on somebody relies on it. For an
  // owner that starts again, those that may still be on its CPUs.
  for (auto& [id, other] : containers_) {
    if (other.kind != Kind::kShared || id == container.id || now.empty()) continue;
    if (!out.new_owner && other.told && other.told->is_subset_of(now)) continue;
    if (out.updates.empty()) out.updates.reserve(others);
    other.told = now;
    out.updates.push_back({id, now});
  }
  for (const ClaimUid& uid : *claims) claims_.at(uid).owner = container.who;
  out.claims = *claims;
  put(container.id,
      {container.who, Kind::kExclusive, std::move(claims).value(), out.cpus, false, container.pod});
  return out;
}

std::optional<CpuSet> Ledger::placement_of(const ContainerId& id) const {
  const auto it = containers_.find(id);
  if (it == containers_.end()) return std::nullopt;
  return it->second.kind == Kind::kShared ? pool() : union_of(it->second.claims);
}

std::optional<Kind> Ledger::kind_of(const ContainerId& id) const {
  const auto it = containers_.find(id);
  if (it == containers_.end()) return std::nullopt;
  return it->second.kind;
}

std::optional<CpuSet> Ledger::told_of(const ContainerId& id) const {
  const auto it = containers_.find(id);
  return it == containers_.end() ? std::nullopt : it->second.told;
}

bool Ledger::remove(const ContainerId& id) {
  const auto it = containers_.find(id);
  if (it == containers_.end()) return false;
  if (it->second.kind == Kind::kShared) --shared_;
  containers_.erase(it);
  return true;
}

std::vector<Update> Ledger::stale(std::size_t limit) const {
  std::vector<Update> out;
  for (const auto& [id, c] : containers_) {
    if (out.size() == limit) return out;
    if (c.kind != Kind::kExclusive) continue;
    CpuSet cpus = due(c);
    if (!cpus.empty() && c.told != cpus) out.push_back({id, std::move(cpus)});
  }
  const CpuSet now = pool();
  if (now.empty()) return out;
  for (const auto& [id, c] : containers_) {
    if (out.size() == limit) return out;
    if (c.kind == Kind::kShared && c.told != now) out.push_back({id, now});
  }
  return out;
}

std::size_t Ledger::stale_count() const {
  const CpuSet now = pool();
  return static_cast<std::size_t>(
      std::count_if(containers_.begin(), containers_.end(), [&](const auto& entry) {
        const Container& c = entry.second;
        if (c.kind == Kind::kShared) return !now.empty() && c.told != now;
        const CpuSet cpus = due(c);
        return !cpus.empty() && c.told != cpus;
      }));
}

void Ledger::note_told(const std::vector<Update>& updates) {
  for (const Update& u : updates) {
    if (const auto it = containers_.find(u.id); it != containers_.end()) it->second.told = u.cpus;
  }
}

void Ledger::forget_told(const std::vector<ContainerId>& ids) {
  for (const ContainerId& id : ids) {
    if (const auto it = containers_.find(id); it != containers_.end()) it->second.told.reset();
  }
}

std::vector<Pinned> Ledger::pinned() const {
  std::vector<Pinned> out;
  for (const auto& [id, c] : containers_) {
    if (!c.claims.empty()) out.push_back({id, c.who, c.pod, c.claims});
  }
  return out;
}

std::vector<ClaimUid> Ledger::claims_without_container() const {
  std::map<ClaimUid, bool> seen;
  for (const auto& [id, c] : containers_) {
    for (const ClaimUid& uid : c.claims) seen[uid] = true;
  }
  std::vector<ClaimUid> out;
  for (const auto& [uid, claim] : claims_) {
    if (!seen.contains(uid)) out.push_back(uid);
  }
  return out;
}

std::string Ledger::check() const {
  CpuSet seen;
  for (const auto& [uid, claim] : claims_) {
    if (claim.cpus.intersects(seen))
      return fmt::format("claim {} shares a CPU with another claim", uid.get());
    seen |= claim.cpus;
  }
  if (seen != held_)
    return fmt::format("held {} but the claims have {}", held_.to_string(), seen.to_string());
  if (pool().intersects(held_) || pool().intersects(reserved_))
    return "the pool overlaps a claim or reserved CPUs";
  std::map<ClaimUid, ContainerId> owners;
  std::size_t shared = 0;
  for (const auto& [id, c] : containers_) {
    if (c.kind == Kind::kShared) {
      ++shared;
      continue;
    }
    for (const ClaimUid& uid : c.claims) {
      const auto it = claims_.find(uid);
      if (it != claims_.end() && it->second.owner != c.who) {
        return fmt::format("container {} uses claim {} of another owner", id.get(), uid.get());
      }
    }
  }
  if (shared != shared_) return fmt::format("{} shared containers counted, {} there", shared_, shared);
  return {};
}

}  // namespace dracpu::ledger
