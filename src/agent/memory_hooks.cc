// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/memory_hooks.h"

#include <algorithm>

#include "memory/types.h"

namespace dracpu::agent {
namespace {

memory::Resources resources_of(const nri::MemorySettings& settings) {
  return {settings.mems, settings.hugepage_limits, settings.limit};
}

Owner owner_of(const nri::ContainerInfo& c) { return {c.pod_uid, c.name}; }

}  // namespace

memory::Policy memory_policy(const config::Config& config) {
  return {config.memory.hugetlb, config.memory.limit};
}

memory::ContainerFacts memory_facts_of(const nri::ContainerInfo& container) {
  return {owner_of(container), &container.memory_env, resources_of(container.memory)};
}

nri::MemorySettings to_wire(const memory::Adjustment& adjustment) {
  return {adjustment.mems, adjustment.hugepage_limits, adjustment.memory_limit};
}

observe::Rejection rejection_of(memory::Refusal why) {
  switch (why) {
    case memory::Refusal::kMalformed:
      return observe::Rejection::kMalformed;
    case memory::Refusal::kUnprepared:
      return observe::Rejection::kUnprepared;
    case memory::Refusal::kMismatch:
      return observe::Rejection::kMismatch;
    case memory::Refusal::kOwned:
      return observe::Rejection::kOwned;
    case memory::Refusal::kOffline:
      return observe::Rejection::kOffline;
    case memory::Refusal::kKubeletMems:
      return observe::Rejection::kKubeletMems;
  }
  return observe::Rejection::kMalformed;
}

std::string text_of(const memory::Adjustment& adjustment) {
  std::string out;
  const auto add = [&](std::string_view name, const std::string& value) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, value);
  };
  if (!adjustment.mems.empty()) add("mems", adjustment.mems);
  for (const auto& [size, bytes] : adjustment.hugepage_limits) add(size, memory::text_of({bytes}));
  if (adjustment.memory_limit)
    add("limit", memory::text_of({static_cast<std::uint64_t>(*adjustment.memory_limit)}));
  return out;
}

void merge(std::vector<nri::ContainerUpdate>& updates, const ContainerId& id,
           const memory::Adjustment& adjustment) {
  if (adjustment.is_empty()) return;
  auto at = std::find_if(updates.begin(), updates.end(), [&](const auto& u) { return u.id == id; });
  if (at == updates.end()) at = updates.insert(updates.end(), {id, {}});
  at->memory = to_wire(adjustment);
}

bool settle(MemoryBook& book, const nri::ContainerInfo& container, const std::vector<ClaimUid>& claims) {
  if (claims.empty()) return false;
  book.containers[container.id] = claims;
  return !book.accounts.bind(claims, owner_of(container)).empty();
}

memory::Synchronized synchronize(MemoryBook& book, const std::vector<nri::ContainerInfo>& containers,
                                 const memory::Policy& policy) {
  std::vector<memory::ContainerFacts> facts;
  facts.reserve(containers.size());
  for (const nri::ContainerInfo& c : containers) facts.push_back(memory_facts_of(c));
  memory::Synchronized out = memory::synchronize(book.accounts, facts, policy);
  std::set<std::size_t> strangers;
  for (const memory::SyncFinding& f : out.findings) strangers.insert(f.index);
  book.containers.clear();
  for (std::size_t i = 0; i < containers.size(); ++i) {
    if (containers[i].memory_env.empty() || strangers.contains(i)) continue;
    book.containers[containers[i].id] = book.accounts.claims_of(owner_of(containers[i]));
  }
  return out;
}

memory::Adjustment correction(const MemoryBook& book, const nri::ContainerInfo& container,
                              const memory::Policy& policy) {
  const auto known = book.containers.find(container.id);
  if (known == book.containers.end() || known->second.empty()) return {};
  return memory::correct(book.accounts, owner_of(container), resources_of(container.asked), policy);
}

}  // namespace dracpu::agent
