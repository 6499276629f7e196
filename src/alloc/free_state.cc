// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "alloc/free_state.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace dracpu::alloc {
namespace {

constexpr Index kNoRank = std::numeric_limits<Index>::max();

}  // namespace

FreeState::FreeState(const Layout& layout) : layout_(layout), free_(layout.cpus().size()) {
  nodes_.count.resize(layout.nodes().size());
  sockets_.count.resize(layout.sockets().size());
  caches_.count.resize(layout.caches().size());
  cores_.count.resize(layout.cores().size());
}

void FreeState::add(Index cpu) {
  if (free_[cpu]) return;
  free_[cpu] = true;
  ++size_;
  const Layout::Place& place = layout_.cpus()[cpu];
  nodes_.add(place.node);
  sockets_.add(place.socket);
  caches_.add(place.cache);
  cores_.add(place.core);
}

void FreeState::add(const CpuSet& cpus) {
  cpus.for_each([&](CpuId cpu) {
    if (const std::optional<Index> index = layout_.index_of(cpu)) add(*index);
  });
}

void FreeState::take(Index cpu) {
  if (!free_[cpu]) return;
  free_[cpu] = false;
  --size_;
  const Layout::Place& place = layout_.cpus()[cpu];
  --nodes_.count[place.node];
  --sockets_.count[place.socket];
  --caches_.count[place.cache];
  --cores_.count[place.core];
}

void FreeState::clear() {
  for (const Index core : cores_.touched) {
    for (const Index cpu : layout_.cores()[core].cpus) take(cpu);
  }
  for (Level* level : {&nodes_, &sockets_, &caches_, &cores_}) level->touched.clear();
}

void FreeState::Level::forget_taken() {
  std::erase_if(touched, [&](Index i) { return count[i] == 0; });
  std::sort(touched.begin(), touched.end());  // one that was emptied and filled again stands here twice
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
}

std::span<const Index> FreeState::order_alone(Level& level) {
  level.forget_taken();
  level.order = level.touched;
  std::sort(level.order.begin(), level.order.end(),
            [&](Index a, Index b) { return std::pair(level.count[a], a) < std::pair(level.count[b], b); });
  return level.order;
}

std::span<const Index> FreeState::order_below(Level& level, const std::vector<Unit>& units,
                                              std::vector<Index> Unit::*parents, Index Layout::Place::*place,
                                              std::span<const Index> above) {
  // An upper unit that appears twice brings its members twice; the first rank is the one that counts.
  Index last = 0;
  for (const Index unit : above) last = std::max(last, unit);
  ranks_.assign(last + 1, kNoRank);
  for (std::size_t rank = 0; rank < above.size(); ++rank) {
    if (ranks_[above[rank]] == kNoRank) ranks_[above[rank]] = static_cast<Index>(rank);
  }
  level.forget_taken();
  entries_.clear();
  for (const Index i : level.touched) {
    const std::vector<Index>& uppers = units[i].*parents;
    for (const Index upper : uppers) {
      const auto is_in_upper = [&](Index cpu) { return free_[cpu] && layout_.cpus()[cpu].*place == upper; };
      if (uppers.size() > 1 && std::none_of(units[i].cpus.begin(), units[i].cpus.end(), is_in_upper))
        continue;
      entries_.push_back({ranks_[upper], level.count[i], i});
    }
  }
  std::sort(entries_.begin(), entries_.end());
  level.order.clear();
  for (const Entry& entry : entries_) level.order.push_back(entry.index);
  return level.order;
}

std::span<const Index> FreeState::node_order() {
  if (layout_.is_numa_first()) return order_alone(nodes_);
  return order_below(nodes_, layout_.nodes(), &Unit::sockets, &Layout::Place::socket, order_alone(sockets_));
}

std::span<const Index> FreeState::socket_order() {
  if (!layout_.is_numa_first()) return order_alone(sockets_);
  return order_below(sockets_, layout_.sockets(), &Unit::nodes, &Layout::Place::node, order_alone(nodes_));
}

std::span<const Index> FreeState::cache_order() {
  return order_below(caches_, layout_.caches(), &Unit::nodes, &Layout::Place::node, node_order());
}

std::span<const Index> FreeState::core_order() {
  if (layout_.is_numa_first()) {
    return order_below(cores_, layout_.cores(), &Unit::sockets, &Layout::Place::socket, socket_order());
  }
  return order_below(cores_, layout_.cores(), &Unit::nodes, &Layout::Place::node, node_order());
}

ScratchVector<Index> FreeState::packed_cpu_order() {
  ScratchVector<Index> out;
  out.reserve(size_);
  for (const Index core : core_order()) {
    for (const Index cpu : layout_.cores()[core].cpus) {
      if (free_[cpu]) out.push_back(cpu);
    }
  }
  return out;
}

ScratchVector<Index> FreeState::spread_cpu_order() {
  const std::span<const Index> cores =
      order_below(cores_, layout_.cores(), &Unit::sockets, &Layout::Place::socket, socket_order());
  // The order holds the cores of one socket side by side: its first free CPUs, its second ones, and so on.
  ScratchVector<Index> out;
  out.reserve(size_);
  ScratchVector<ScratchVector<Index>> rounds;
  const auto flush = [&] {
    for (ScratchVector<Index>& round : rounds) {
      out.insert(out.end(), round.begin(), round.end());
      round.clear();
    }
  };
  Index socket = kNoRank;
  for (const Index core : cores) {
    const Unit& unit = layout_.cores()[core];
    if (unit.sockets.front() != socket) flush();
    socket = unit.sockets.front();
    std::size_t nth = 0;
    for (const Index cpu : unit.cpus) {
      if (!free_[cpu]) continue;
      if (nth == rounds.size()) rounds.emplace_back();
      rounds[nth++].push_back(cpu);
    }
  }
  flush();
  return out;
}

}  // namespace dracpu::alloc
