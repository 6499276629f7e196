// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/adjust.h"

#include <algorithm>
#include <utility>

#include "memory/environment.h"

namespace dracpu::memory {
namespace {

// What several claims hold together.
Amounts amounts_of(const Accounts& accounts, const std::vector<ClaimUid>& claims) {
  Amounts out;
  for (const ClaimUid& uid : claims) {
    for (const Grant& grant : accounts.claims().at(uid).grants) out[grant.kind][grant.node] += grant.bytes;
  }
  return out;
}

// The claims that the container's environment names, if it may have all of them.
Result<std::vector<ClaimUid>> claims_of(const Accounts& accounts, const ContainerFacts& container,
                                        Refusal& why) {
  why = Refusal::kMalformed;
  const Result<std::map<ClaimUid, Statement>> stated =
      read_environment(container.who.container, *container.env);
  if (!stated.ok()) return stated.error();
  std::vector<ClaimUid> out;
  for (const auto& [uid, statement] : *stated) {
    const auto found = accounts.claims().find(uid);
    const bool is_prepared = found != accounts.claims().end();
    const PodUid pod = is_prepared ? pod_of(found->second) : PodUid();
    if (!is_prepared || (!pod.get().empty() && pod != container.who.pod)) {
      why = Refusal::kUnprepared;
      return make_error(Errc::kConflict, "container \"{}\": claim {} is not prepared for this pod",
                        container.who.container, uid.get());
    }
    if (!says(statement, memory::amounts_of(found->second))) {
      why = Refusal::kMismatch;
      return make_error(Errc::kConflict, "container \"{}\": claim {} differs from its prepared allocation",
                        container.who.container, uid.get());
    }
    if (Status s = accounts.check_owner(uid, container.who); !s.ok()) {
      why = Refusal::kOwned;
      return std::move(s).error();
    }
    out.push_back(uid);
  }
  return out;
}

bool is_list_of(std::string_view mems, const std::set<NumaNodeId>& nodes) {
  return nodes_in_list(mems) == nodes;
}

// Page size as runtimes spell it → bytes claimed of it.
std::map<std::string, std::uint64_t> claimed_limits(const Amounts& held, const Policy& policy) {
  std::map<std::string, std::uint64_t> out;
  if (policy.hugetlb == config::HugetlbEnforcement::kNone) return out;
  for (const auto& [kind, by_node] : held) {
    if (kind.is_hugepages()) out.emplace(runtime_page_size(kind.page()), total_of(held, kind).count);
  }
  return out;
}

std::optional<std::uint64_t> limit_in(const Resources& resources, const std::string& size) {
  const auto found = resources.hugepage_limits.find(size);
  if (found == resources.hugepage_limits.end()) return std::nullopt;
  return found->second;
}

std::optional<std::int64_t> limit_for_unset(const Amounts& held, const Resources& resources,
                                            const Policy& policy) {
  if (policy.limit != config::MemoryLimitPolicy::kWhenUnset) return std::nullopt;
  if (resources.memory_limit.value_or(0) > 0) return std::nullopt;
  const Bytes claimed = total_of(held, Kind());
  if (claimed == Bytes()) return std::nullopt;
  return static_cast<std::int64_t>(std::min(claimed, kMostBytes).count);
}

// Limits of claimed sizes that are there and too low.
std::map<std::string, std::uint64_t> raised_limits(const Amounts& held, const Resources& resources,
                                                   const Policy& policy) {
  std::map<std::string, std::uint64_t> out;
  for (const auto& [size, bytes] : claimed_limits(held, policy)) {
    const std::optional<std::uint64_t> now = limit_in(resources, size);
    if (now && *now < bytes) out.emplace(size, bytes);
  }
  return out;
}

}  // namespace

Result<Placement> place(const Accounts& accounts, const ContainerFacts& container,
                        const std::set<NumaNodeId>& nodes_with_memory, const Policy& policy, Refusal* why) {
  Refusal ignored{};
  Refusal& reason = why == nullptr ? ignored : *why;
  Result<std::vector<ClaimUid>> claims = claims_of(accounts, container, reason);
  if (!claims.ok()) return std::move(claims).error();
  Placement out;
  if (claims->empty()) return out;
  const Amounts held = amounts_of(accounts, *claims);
  const std::set<NumaNodeId> nodes = nodes_of(held);
  for (const NumaNodeId node : nodes) {
    if (nodes_with_memory.contains(node)) continue;
    reason = Refusal::kOffline;
    return make_error(Errc::kUnavailable, "container \"{}\": NUMA node {} has no online memory",
                      container.who.container, node.get());
  }
  const std::string& mems = container.resources.mems;
  if (!mems.empty() && !is_list_of(mems, nodes)) {
    reason = Refusal::kKubeletMems;
    return make_error(Errc::kConflict,
                      "container \"{}\": cpuset.mems is already \"{}\", set memoryManagerPolicy None",
                      container.who.container, mems);
  }
  out.adjustment.mems = list_of(nodes);
  out.claimed_hugepages = claimed_limits(held, policy);
  for (const auto& [size, bytes] : out.claimed_hugepages) {
    const std::uint64_t asked = limit_in(container.resources, size).value_or(0);
    out.adjustment.hugepage_limits.emplace(size, std::max(asked, bytes));
  }
  out.adjustment.memory_limit = limit_for_unset(held, container.resources, policy);
  out.claims = *std::move(claims);
  return out;
}

Synchronized synchronize(Accounts& accounts, const std::vector<ContainerFacts>& containers,
                         const Policy& policy) {
  Synchronized out;
  Refusal ignored{};
  const auto settle = [&](std::size_t index, const std::vector<ClaimUid>& claims) {
    const ContainerFacts& container = containers[index];
    for (ClaimUid& uid : accounts.bind(claims, container.who)) out.bound.push_back(std::move(uid));
    const Amounts held = amounts_of(accounts, claims);
    const std::set<NumaNodeId> nodes = nodes_of(held);
    Adjustment change;
    if (!is_list_of(container.resources.mems, nodes)) change.mems = list_of(nodes);
    change.hugepage_limits = raised_limits(held, container.resources, policy);
    if (!change.is_empty()) out.updates.push_back({index, std::move(change)});
    const auto limits = claimed_limits(held, policy);
    if (std::any_of(limits.begin(), limits.end(),
                    [&](const auto& limit) { return !limit_in(container.resources, limit.first); })) {
      out.without_limit.push_back(index);
    }
  };
  // Containers that are pinned as their claims say come first, so that after the loss of the owners a second
  // container with the same claim cannot take it by being earlier in the list.
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < containers.size(); ++i) {
    const Result<std::vector<ClaimUid>> claims = claims_of(accounts, containers[i], ignored);
    if (claims.ok() && claims->empty()) continue;
    const bool is_settled =
        claims.ok() && is_list_of(containers[i].resources.mems, nodes_of(amounts_of(accounts, *claims)));
    if (is_settled) {
      settle(i, *claims);
    } else {
      others.push_back(i);
    }
  }
  for (const std::size_t i : others) {
    const Result<std::vector<ClaimUid>> claims = claims_of(accounts, containers[i], ignored);
    if (claims.ok()) {
      settle(i, *claims);
    } else {
      out.findings.push_back({i, claims.error()});
    }
  }
  return out;
}

Adjustment correct(const Accounts& accounts, const Owner& who, const Resources& asked, const Policy& policy) {
  Adjustment out;
  const Amounts held = amounts_of(accounts, accounts.claims_of(who));
  if (held.empty()) return out;
  const std::set<NumaNodeId> nodes = nodes_of(held);
  if (!asked.mems.empty() && !is_list_of(asked.mems, nodes)) out.mems = list_of(nodes);
  out.hugepage_limits = raised_limits(held, asked, policy);
  return out;
}

}  // namespace dracpu::memory
