// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "alloc/policy.h"

#include <algorithm>
#include <set>
#include <utility>

#include "alloc/subsets.h"

namespace dracpu::alloc {
namespace {

// One node, seen from hints.
struct HintNode {
  NumaNodeId id;
  std::size_t total = 0;
  std::size_t usable = 0;    // reusable or available
  std::size_t reusable = 0;  // of those
  std::vector<Index> sockets;
};

std::vector<HintNode> hint_nodes(const Layout& layout, const CpuSet& available, const CpuSet& reusable) {
  std::vector<HintNode> out;
  for (const Unit& unit : layout.nodes()) {
    const CpuSet cpus = layout.cpus_of(unit);
    out.push_back({.id = NumaNodeId(static_cast<std::int32_t>(unit.id)),
                   .total = cpus.size(),
                   .usable = ((available | reusable) & cpus).size(),
                   .reusable = (reusable & cpus).size(),
                   .sockets = unit.sockets});
  }
  return out;
}

std::size_t sockets_of(const std::vector<HintNode>& nodes, const std::vector<std::size_t>& at) {
  std::set<Index> sockets;
  for (const std::size_t i : at) sockets.insert(nodes[i].sockets.begin(), nodes[i].sockets.end());
  return sockets.size();
}

}  // namespace

std::vector<Hint> numa_hints(const Layout& layout, const CpuSet& available, const CpuSet& reusable,
                             std::size_t count, bool align_by_socket) {
  const std::vector<HintNode> nodes = hint_nodes(layout, available, reusable);
  const auto sum = [&](std::span<const std::size_t> at, std::size_t HintNode::*what) {
    std::size_t n = 0;
    for (const std::size_t i : at) n += nodes[i].*what;
    return n;
  };
  std::size_t smallest = nodes.size();
  std::vector<std::vector<std::size_t>> fitting;
  for (std::size_t size = 1; size <= nodes.size(); ++size) {
    if (nodes.size() > kMaxHintNodes && size != 1 && size != nodes.size()) continue;
    for_each_subset(nodes.size(), size, [&](std::span<const std::size_t> at) {
      if (sum(at, &HintNode::total) >= count) smallest = std::min(smallest, size);
      const bool has_reusable = sum(at, &HintNode::reusable) == reusable.size();
      if (has_reusable && sum(at, &HintNode::usable) >= count) fitting.emplace_back(at.begin(), at.end());
      return true;
    });
  }

  const std::size_t nodes_per_socket = layout.sockets().empty() ? 0 : nodes.size() / layout.sockets().size();
  std::vector<Hint> out;
  for (const std::vector<std::size_t>& at : fitting) {
    Hint hint;
    for (const std::size_t i : at) hint.nodes.push_back(nodes[i].id);
    hint.is_preferred = at.size() == smallest;
    if (align_by_socket && nodes_per_socket > 0) {
      const std::size_t fewest_sockets = (smallest + nodes_per_socket - 1) / nodes_per_socket;
      hint.is_preferred = hint.is_preferred || sockets_of(nodes, at) == fewest_sockets;
    }
    out.push_back(std::move(hint));
  }
  return out;
}

Result<CpuSet> pick_near(const Layout& layout, const CpuSet& free, std::size_t count,
                         const std::vector<NumaNodeId>& affinity, bool align_by_socket,
                         const Options& options) {
  CpuSet near;
  std::set<Index> sockets;
  for (const Unit& unit : layout.nodes()) {
    if (std::find(affinity.begin(), affinity.end(), NumaNodeId(static_cast<std::int32_t>(unit.id))) ==
        affinity.end()) {
      continue;
    }
    near |= layout.cpus_of(unit);
    sockets.insert(unit.sockets.begin(), unit.sockets.end());
  }
  if (align_by_socket) {
    for (const Index socket : sockets) near |= layout.cpus_of(layout.sockets()[socket]);
  }
  near &= free;
  Result<CpuSet> first = pick(layout, near, std::min(count, near.size()), options);
  if (!first.ok() || first->size() == count) return first;
  Result<CpuSet> rest = pick(layout, free - *first, count - first->size(), options);
  if (!rest.ok()) return rest;
  return *first | *rest;
}

Result<CpuSet> pick_whole_cores(const Layout& layout, const CpuSet& shared, const CpuSet& reserved,
                                std::size_t count, const Options& options) {
  const std::size_t threads = layout.threads_per_core();
  if (threads == 0 || count % threads != 0) {
    return make_error(Errc::kInvalidInput, "{} CPUs do not fill cores of {} threads", count, threads);
  }
  CpuSet untouched = shared;
  for (const Unit& core : layout.cores()) {
    const CpuSet cpus = layout.cpus_of(core);
    if (cpus.intersects(reserved)) untouched -= cpus;
  }
  if (untouched.size() < count) {
    return make_error(Errc::kUnsupported,
                      "asked for {} CPUs in whole cores, {} are on cores without a reserved CPU", count,
                      untouched.size());
  }
  Options grouped = options;
  if (grouped.distribute) grouped.group_size = threads;
  return pick(layout, shared - reserved, count, grouped);
}

}  // namespace dracpu::alloc
