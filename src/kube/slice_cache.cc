// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/slice_cache.h"

#include "base/strings.h"

namespace dracpu::kube {
namespace {

constexpr std::size_t kMaxKept = 4096;  // far more uids than one node ever has in flight

// True when version `a` is known to be newer than `b`. Versions are opaque: when they are no numbers, all
// that can be said is whether they are the same.
bool newer(const std::string& a, const std::string& b) {
  const std::optional<std::uint64_t> x = parse_number<std::uint64_t>(a);
  const std::optional<std::uint64_t> y = parse_number<std::uint64_t>(b);
  return x && y ? *x > *y : a != b;
}

void remember(std::set<std::string>& uids, const std::string& uid) {
  if (uids.size() >= kMaxKept) uids.clear();
  uids.insert(uid);
}

}  // namespace

SliceCache::Change SliceCache::replace(const SliceList& list) {
  std::map<std::string, ServerSlice> fresh;
  for (const ServerSlice& slice : list.items) {
    if (is_ours(slice) && !deleted_.contains(slice.uid)) fresh.insert_or_assign(slice.name, slice);
  }
  Change change = Change::kChanged;
  for (auto& [name, known] : slices_) {
    const auto found = fresh.find(name);
    // Our own write may be newer than the list.
    const bool ahead = newer(known.resource_version, list.resource_version) &&
                       parse_number<std::uint64_t>(known.resource_version).has_value();
    if (ahead && (found == fresh.end() || newer(known.resource_version, found->second.resource_version))) {
      fresh.insert_or_assign(name, std::move(known));
    } else if (found == fresh.end()) {
      change = Change::kVanished;
    }
  }
  slices_ = std::move(fresh);
  return change;
}

SliceCache::Change SliceCache::apply(const WatchEvent& event) {
  if (!event.slice || !is_ours(*event.slice)) return Change::kNone;
  const ServerSlice& slice = *event.slice;
  const auto found = slices_.find(slice.name);
  if (event.type == WatchEvent::Type::kDeleted) {
    if (deleted_.erase(slice.uid) > 0) return Change::kNone;
    remember(gone_, slice.uid);
    if (found == slices_.end() || found->second.uid != slice.uid) return Change::kNone;
    slices_.erase(found);
    return Change::kVanished;
  }
  if (deleted_.contains(slice.uid)) return Change::kNone;
  if (found != slices_.end() && !newer(slice.resource_version, found->second.resource_version))
    return Change::kNone;
  slices_.insert_or_assign(slice.name, slice);
  return Change::kChanged;
}

void SliceCache::written(ServerSlice slice) {
  if (gone_.contains(slice.uid)) return;
  const auto found = slices_.find(slice.name);
  if (found != slices_.end() && newer(found->second.resource_version, slice.resource_version) &&
      found->second.uid == slice.uid) {
    return;  // somebody was faster, and the watch told us before our own answer came
  }
  slices_.insert_or_assign(slice.name, std::move(slice));
}

void SliceCache::deleted(const ServerSlice& slice) {
  const auto found = slices_.find(slice.name);
  // Not known any more: the watch has delivered the end already.
  if (found == slices_.end() || found->second.uid != slice.uid) return;
  slices_.erase(found);
  remember(deleted_, slice.uid);
}

std::vector<ServerSlice> SliceCache::all() const {
  std::vector<ServerSlice> out;
  for (const auto& [name, slice] : slices_) out.push_back(slice);
  return out;
}

}  // namespace dracpu::kube
