// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/slice_planner.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace dracpu::kube {
namespace {

// The index that a slice's name claims; nothing when the name is not one of ours.
std::optional<std::size_t> claimed_index(const std::string& name, std::size_t count) {
  const std::size_t dash = name.find('-');
  if (dash == std::string::npos || dash != index_prefix(0, count).size()) return std::nullopt;
  std::size_t index = 0;
  const char* const end = name.data() + dash;
  const auto [stop, ec] = std::from_chars(name.data(), end, index, 16);
  if (ec != std::errc{} || stop != end || index >= count) return std::nullopt;
  return index;
}

bool same_content(const DesiredSlice& want, const ServerSlice& have) {
  return have.content == want.content || (!want.accepted.empty() && have.content == want.accepted);
}

}  // namespace

SlicePlan plan_slices(const std::string& pool, const std::string& node_uid,
                      const std::vector<DesiredSlice>& desired, const std::vector<ServerSlice>& known) {
  SlicePlan plan;
  std::int64_t highest = 0;
  for (const ServerSlice& slice : known) {
    if (slice.pool == pool) highest = std::max(highest, slice.generation);
  }

  std::vector<const ServerSlice*> matched(desired.size(), nullptr);
  std::vector<const ServerSlice*> obsolete;
  for (const ServerSlice& slice : known) {
    const std::optional<std::size_t> index = slice.pool == pool && slice.generation >= highest
                                                 ? claimed_index(slice.name, desired.size())
                                                 : std::nullopt;
    if (!index) {
      obsolete.push_back(&slice);
      continue;
    }
    // Of two with one index the one that is right stays, or else the first.
    const ServerSlice*& place = matched[*index];
    const ServerSlice* loser = &slice;
    if (place == nullptr) {
      place = loser;
      continue;
    }
    if (!same_content(desired[*index], *place) && same_content(desired[*index], slice))
      std::swap(place, loser);
    obsolete.push_back(loser);
  }

  const auto count = static_cast<std::int64_t>(desired.size());
  std::vector<bool> update(desired.size(), false);
  std::size_t changed = 0;
  bool create = false;
  for (std::size_t i = 0; i < desired.size(); ++i) {
    if (matched[i] == nullptr) {
      create = true;
    } else if (matched[i]->count != count || !same_content(desired[i], *matched[i])) {
      update[i] = true;
      ++changed;
    } else if (!node_uid.empty() && matched[i]->node_owner != node_uid) {
      update[i] = true;
    }
  }
  const bool raise = create || changed > 1;
  plan.generation = desired.empty() ? highest : raise ? highest + 1 : highest;

  for (const ServerSlice* slice : obsolete) plan.actions.push_back({SliceAction::Kind::kDelete, 0, *slice});
  for (std::size_t i = 0; i < desired.size(); ++i) {
    if (matched[i] != nullptr && (update[i] || raise)) {
      plan.actions.push_back({SliceAction::Kind::kUpdate, i, *matched[i]});
    }
  }
  for (std::size_t i = 0; i < desired.size(); ++i) {
    if (matched[i] == nullptr) plan.actions.push_back({SliceAction::Kind::kCreate, i, {}});
  }
  return plan;
}

}  // namespace dracpu::kube
