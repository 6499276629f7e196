// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/accounts.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "memory/claim_checks.h"

namespace dracpu::memory {
namespace {

std::map<SpanKey, Bytes> sums_of(const std::vector<Grant>& grants) {
  std::map<SpanKey, Bytes> out;
  for (const Grant& grant : grants) out[{grant.kind, grant.node}] += grant.bytes;
  return out;
}

bool is_adopted(const Claim& claim) {
  return std::any_of(claim.grants.begin(), claim.grants.end(),
                     [](const Grant& grant) { return grant.device.empty(); });
}

// A device of memory alone has a name of its own.
bool is_of_memory_device(const Grant& grant) { return grant.device == device_name(grant.kind, grant.node); }

// Compared as texts and numbers: the device may not be offered any more.
bool is_what_was_granted(const Claim& claim, const std::vector<AllocationResult>& results) {
  using Row =
      std::tuple<std::string, std::string, std::string, std::optional<std::string>, std::string, Bytes>;
  std::multiset<Row> granted;
  for (const Grant& g : claim.grants) {
    granted.emplace(g.request, g.pool, g.device, g.share_id,
                    is_of_memory_device(g) ? std::string(kSizeKey) : combined_key(g.kind), g.bytes);
  }
  std::multiset<Row> named;
  for (const AllocationResult& r : results) {
    for (const auto& [key, amount] : r.consumed) {
      if (key != kSizeKey && !is_combined_key(key)) continue;
      const std::optional<Bytes> bytes = whole_bytes(amount);
      if (!bytes) return false;
      if (*bytes == Bytes() && is_combined_key(key)) continue;
      named.emplace(r.request, r.pool, r.device, r.share_id, key, *bytes);
    }
  }
  return granted == named;
}

Status check_free(const std::string& claim, const std::map<SpanKey, Bytes>& wanted, const FreePages& free) {
  for (const auto& [span, bytes] : wanted) {
    const auto& [kind, node] = span;
    if (!kind.is_hugepages()) continue;
    const auto found = free.find(span);
    const std::uint64_t pages = found == free.end() ? 0 : found->second;
    const std::uint64_t needed = bytes.count / kind.page().count;
    if (pages >= needed) continue;
    return make_error(Errc::kNoCapacity, "claim {}: NUMA node {} has {} free pages of {}, {} needed", claim,
                      node.get(), pages, text_of(kind.page()), needed);
  }
  return ok_status();
}

}  // namespace

bool asks_for_memory(const std::map<std::string, Quantity>& consumed) {
  return std::any_of(consumed.begin(), consumed.end(), [](const auto& entry) {
    return is_combined_key(entry.first) && entry.second != Quantity(0);
  });
}

bool asks_for_memory(const ClaimFacts& facts) {
  return std::any_of(facts.results.begin(), facts.results.end(),
                     [](const AllocationResult& r) { return asks_for_memory(r.consumed); });
}

std::optional<config::MemoryMode> mode_of(const Claim& claim) {
  if (claim.grants.empty() || is_adopted(claim)) return std::nullopt;
  return is_of_memory_device(claim.grants.front()) ? config::MemoryMode::kSeparate
                                                   : config::MemoryMode::kCombined;
}

Error prepared_differently(const std::string& claim) {
  return make_error(Errc::kConflict, "claim {} is already prepared with a different allocation", claim);
}

const PodUid& pod_of(const Claim& claim) {
  return claim.pod.get().empty() && claim.owner ? claim.owner->pod : claim.pod;
}

Amounts amounts_of(const Claim& claim) {
  Amounts out;
  for (const Grant& grant : claim.grants) out[grant.kind][grant.node] += grant.bytes;
  return out;
}

Claim adopted_claim(const Amounts& amounts) {
  Claim out;
  out.committed = true;
  for (const auto& [kind, by_node] : amounts) {
    for (const auto& [node, bytes] : by_node) {
      out.grants.push_back(
          {.request = {}, .pool = {}, .device = {}, .kind = kind, .node = node, .bytes = bytes});
    }
  }
  return out;
}

FreePages free_pages_of(const topology::MachineMemory& machine) {
  FreePages out;
  for (const auto& [node, amounts] : machine.nodes) {
    if (!amounts.ok()) continue;
    for (const topology::HugepagePool& pool : amounts->hugepages) {
      out.emplace(SpanKey{Kind::hugepages({pool.page_bytes}), node}, pool.free);
    }
  }
  return out;
}

Accounts::Accounts(config::MemoryMode mode, std::vector<Offer> offers) : mode_(mode) {
  set_offers(std::move(offers));
}

void Accounts::set_offers(std::vector<Offer> offers) {
  offers_ = std::move(offers);
  offer_of_.clear();
  offer_at_.clear();
  for (std::size_t i = 0; i < offers_.size(); ++i) {
    offer_of_.emplace(std::pair{offers_[i].device, offers_[i].key}, i);
    offer_at_.emplace(SpanKey{offers_[i].kind, offers_[i].node}, i);
  }
}

Result<Claim> Accounts::prepare(const ClaimUid& uid, const ClaimFacts& facts, const FreePages* free_pages) {
  const std::string claim = facts.ns + "/" + facts.name;
  if (!facts.is_allocated) return make_error(Errc::kUnavailable, "claim {} has no allocation", claim);
  const Claim nothing{.ns = facts.ns, .name = facts.name, .pod = {}, .grants = {}};
  if (facts.results.empty()) return nothing;
  const auto known = claims_.find(uid);
  if (known != claims_.end() && !is_adopted(known->second)) {
    if (is_what_was_granted(known->second, facts.results)) return known->second;
    return prepared_differently(claim);
  }
  Result<std::vector<Grant>> grants = read_results(claim, facts);
  const bool has_nothing = grants.ok() && grants->empty();
  if (has_nothing && known == claims_.end()) return nothing;
  const Result<PodUid> pod = check_consumer(claim, facts.reserved_for);
  if (!pod.ok()) return pod.error();
  if (!grants.ok()) return std::move(grants).error();
  const Sums wanted = sums_of(*grants);
  if (known != claims_.end()) {
    Claim& adopted = known->second;
    const bool is_of_pod = pod_of(adopted).get().empty() || pod_of(adopted) == *pod;
    if (wanted != sums_of(adopted.grants) || !is_of_pod) return prepared_differently(claim);
    adopted.ns = facts.ns;
    adopted.name = facts.name;
    adopted.pod = *pod;
    adopted.grants = *std::move(grants);
    return adopted;
  }
  if (Status s = check_mode(); !s.ok()) return std::move(s).error();
  if (Status s = check_room(claim, wanted); !s.ok()) return std::move(s).error();
  if (free_pages != nullptr) {
    if (Status s = check_free(claim, wanted, *free_pages); !s.ok()) return std::move(s).error();
  }
  Claim fresh{.ns = facts.ns, .name = facts.name, .pod = *pod, .grants = *std::move(grants)};
  count(fresh.grants);
  return claims_.emplace(uid, std::move(fresh)).first->second;
}

Result<std::vector<Grant>> Accounts::read_results(const std::string& claim, const ClaimFacts& facts) const {
  std::vector<Grant> out;
  for (const AllocationResult& result : facts.results) {
    if (Status s = read_result(claim, result, out); !s.ok()) return std::move(s).error();
  }
  return out;
}

Status Accounts::read_result(const std::string& claim, const AllocationResult& result,
                             std::vector<Grant>& out) const {
  const bool is_combined = mode_ == config::MemoryMode::kCombined;
  if (!is_combined) {
    if (result.admin_access) return no_admin_access(claim);
    if (!offer_of_.contains({result.device, std::string(kSizeKey)})) return not_ours(claim, result.device);
    if (!result.consumed.contains(std::string(kSizeKey))) return no_size(claim, result.device);
  }
  for (const auto& [key, amount] : result.consumed) {
    if (is_combined ? !is_combined_key(key) : key != kSizeKey) continue;
    if (is_combined && amount == Quantity(0)) continue;
    if (result.admin_access) return no_admin_access(claim);
    const auto found = offer_of_.find({result.device, key});
    if (found == offer_of_.end()) return not_ours(claim, result.device);
    const Offer& offer = offers_[found->second];
    const std::string device =
        is_combined ? fmt::format("\"{}\", {}", result.device, key) : fmt::format("\"{}\"", result.device);
    const Result<Bytes> bytes = check_amount(claim, device, amount, offer.page);
    if (!bytes.ok()) return bytes.error();
    out.push_back(
        {result.request, result.pool, result.device, result.share_id, offer.kind, offer.node, *bytes});
  }
  return ok_status();
}

Status Accounts::check_room(const std::string& claim, const Sums& wanted) const {
  for (const auto& [span, bytes] : wanted) {
    const Offer& offer = offers_[offer_at_.at(span)];
    const Bytes left = offer.capacity - held(offer.kind, offer.node);
    if (bytes <= left) continue;
    const std::string key =
        mode_ == config::MemoryMode::kCombined ? fmt::format(", {}", offer.key) : std::string();
    return make_error(Errc::kNoCapacity, "claim {}: device \"{}\"{}: {} requested, {} of {} left", claim,
                      offer.device, key, text_of(bytes), text_of(left), text_of(offer.capacity));
  }
  return ok_status();
}

void Accounts::count(const std::vector<Grant>& grants) {
  for (const Grant& grant : grants) held_[{grant.kind, grant.node}] += grant.bytes;
}

void Accounts::discount(const std::vector<Grant>& grants) {
  for (const Grant& grant : grants) {
    const auto found = held_.find({grant.kind, grant.node});
    if (found == held_.end()) continue;
    found->second = found->second - grant.bytes;
    if (found->second == Bytes()) held_.erase(found);
  }
}

void Accounts::commit(const ClaimUid& uid) {
  const auto found = claims_.find(uid);
  if (found != claims_.end()) found->second.committed = true;
}

void Accounts::abort(const ClaimUid& uid) {
  const auto found = claims_.find(uid);
  if (found == claims_.end() || found->second.committed) return;
  release(uid);
}

bool Accounts::release(const ClaimUid& uid) {
  const auto found = claims_.find(uid);
  if (found == claims_.end()) return false;
  discount(found->second.grants);
  claims_.erase(found);
  return true;
}

Status Accounts::adopt(const ClaimUid& uid, Claim claim) {
  if (claims_.contains(uid)) return make_error(Errc::kConflict, "claim {} is known already", uid.get());
  if (claim.grants.empty()) return make_error(Errc::kCorrupt, "claim {} holds no memory", uid.get());
  for (const auto& [span, bytes] : sums_of(claim.grants)) {
    // Beyond this sums would stop being exact, and a release would not give back what was taken.
    if (bytes > kMostBytes || held(span.first, span.second) > kMostBytes - bytes) {
      return make_error(Errc::kCorrupt, "claim {} holds more {} than can be counted", uid.get(),
                        resource_name(span.first));
    }
  }
  count(claim.grants);
  claims_.emplace(uid, std::move(claim));
  return ok_status();
}

Status Accounts::check_owner(const ClaimUid& uid, const Owner& owner) const {
  const std::optional<Owner>& now = claims_.at(uid).owner;
  if (!now || *now == owner) return ok_status();
  return make_error(Errc::kConflict, "claim {} already belongs to pod {} container \"{}\"", uid.get(),
                    now->pod.get(), now->container);
}

std::vector<ClaimUid> Accounts::bind(const std::vector<ClaimUid>& claims, const Owner& owner) {
  std::vector<ClaimUid> bound;
  for (const ClaimUid& uid : claims) {
    std::optional<Owner>& now = claims_.at(uid).owner;
    if (now) continue;
    now = owner;
    bound.push_back(uid);
  }
  return bound;
}

void Accounts::unbind(const std::vector<ClaimUid>& bound) {
  for (const ClaimUid& uid : bound) {
    const auto found = claims_.find(uid);
    if (found != claims_.end()) found->second.owner.reset();
  }
}

std::vector<ClaimUid> Accounts::claims_of(const Owner& owner) const {
  std::vector<ClaimUid> out;
  for (const auto& [uid, claim] : claims_) {
    if (claim.owner == owner) out.push_back(uid);
  }
  return out;
}

std::vector<ClaimUid> Accounts::claims_of_other_mode() const {
  std::vector<ClaimUid> out;
  for (const auto& [uid, claim] : claims_) {
    if (mode_of(claim).value_or(mode_) != mode_) out.push_back(uid);
  }
  return out;
}

Status Accounts::check_mode() const {
  const std::vector<ClaimUid> odd = claims_of_other_mode();
  if (odd.empty()) return ok_status();
  const Claim& first = claims_.at(odd.front());
  const bool is_combined = mode_ == config::MemoryMode::kCombined;
  return make_error(
      Errc::kConflict,
      "memory.mode is \"{}\" and {} claims hold memory of mode \"{}\", first {}/{} ({}); nothing new is "
      "prepared until they end or memory.mode is set back",
      is_combined ? "combined" : "separate", odd.size(), is_combined ? "separate" : "combined", first.ns,
      first.name, odd.front().get());
}

Bytes Accounts::held(Kind kind, NumaNodeId node) const {
  const auto found = held_.find({kind, node});
  return found == held_.end() ? Bytes() : found->second;
}

std::vector<Standing> Accounts::standings() const {
  std::vector<Standing> out;
  for (const Offer& o : offers_) {
    out.push_back({o.kind, o.node, o.device, o.capacity, held(o.kind, o.node)});
  }
  for (const auto& [span, bytes] : held_) {
    if (!offer_at_.contains(span)) out.push_back({span.first, span.second, "", Bytes(), bytes});
  }
  return out;
}

std::string Accounts::check() const {
  Sums sums;
  for (const auto& [uid, claim] : claims_) {
    if (claim.grants.empty()) return fmt::format("claim {} holds nothing", uid.get());
    for (const Grant& grant : claim.grants) {
      if (grant.bytes == Bytes()) return fmt::format("claim {} holds zero bytes of a span", uid.get());
      sums[{grant.kind, grant.node}] += grant.bytes;
    }
    if (claim.owner && !claim.pod.get().empty() && claim.owner->pod != claim.pod) {
      return fmt::format("claim {} is of pod {} and owned by {}", uid.get(), claim.pod.get(),
                         claim.owner->pod.get());
    }
  }
  return sums == held_ ? "" : "what is held is not the sum of the claims";
}

}  // namespace dracpu::memory
