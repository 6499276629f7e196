// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "alloc/distributed.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "alloc/packed.h"
#include "alloc/subsets.h"

namespace dracpu::alloc {
namespace {

using Positions = ScratchVector<std::size_t>;

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

// What is left, squared and summed: every candidate gives away the same number of CPUs, so this orders
// candidates exactly as the deviation does, in whole numbers.
std::uint64_t score_of(const Positions& left) {
  std::uint64_t sum = 0;
  for (const std::size_t n : left) sum += std::uint64_t{n} * n;
  return sum;
}

bool is_even(const Positions& left) {
  return std::adjacent_find(left.begin(), left.end(), std::not_equal_to<>()) == left.end();
}

// Nodes with free CPUs in node order, and how many each has.
struct Nodes {
  ScratchVector<Index> unit;
  Positions free;
};

struct Choice {
  Positions members;  // positions in Nodes, ascending
  Positions extra;    // those that give the remainder, in the order of giving
  std::size_t each = 0;
  std::uint64_t score = 0;
  bool is_even = false;  // no better one can exist
};

// How many candidates are looked at in one request. Sixteen nodes need less; on larger machines the best one
// seen so far is taken, so that nobody waits for minutes over a rounding question.
constexpr std::size_t kMaxLooks = std::size_t{1} << 17U;

class Effort {
 public:
  bool is_spent() const { return looks_ >= kMaxLooks; }
  void look() { ++looks_; }

 private:
  std::size_t looks_ = 0;
};

// Gives `remainder` away group by group, round and round. The caller made sure that whole groups suffice.
template <typename Give>
void walk(const Positions& order, std::size_t remainder, std::size_t group, Give&& give) {
  while (remainder > 0) {
    bool did_give = false;
    for (const std::size_t position : order) {
      if (remainder == 0) return;
      if (!give(position)) continue;
      did_give = true;
      remainder -= group;
    }
    if (!did_give) return;
  }
}

// The best way to take `count` from exactly these members, if there is one.
std::optional<Choice> rate(const Nodes& nodes, Positions members, std::size_t count, std::size_t group,
                           Effort& effort) {
  Choice out;
  out.each = count / members.size() / group * group;
  std::size_t carried = 0;
  Positions after = nodes.free;
  for (const std::size_t m : members) {
    if (after[m] < out.each) return std::nullopt;
    carried += after[m] / group * group;
    after[m] -= out.each;
  }
  if (carried < count) return std::nullopt;
  const std::size_t remainder = count - out.each * members.size();
  out.score = score_of(after);
  out.is_even = is_even(after);
  Positions candidates;
  for (const std::size_t m : members) {
    if (after[m] >= group) candidates.push_back(m);
  }
  out.members = std::move(members);
  if (remainder == 0) return out;

  bool has_subset = false;
  Positions left;
  Positions order;
  for (std::size_t size = candidates.size(); size > 0 && !(has_subset && effort.is_spent()); --size) {
    for_each_subset(candidates.size(), size, [&](std::span<const std::size_t> subset) {
      if (has_subset && effort.is_spent())
        return false;  // all candidates together can carry it: there is one
      effort.look();
      order.clear();
      std::size_t can_give = 0;
      for (const std::size_t i : subset) {
        order.push_back(candidates[i]);
        can_give += after[candidates[i]] / group * group;
      }
      if (can_give < remainder) return true;
      left = after;
      walk(order, remainder, group, [&](std::size_t m) {
        if (left[m] < group) return false;
        left[m] -= group;
        return true;
      });
      const std::uint64_t score = score_of(left);
      if (has_subset && score >= out.score) return true;
      has_subset = true;
      out.score = score;
      out.extra = order;
      out.is_even = is_even(left);
      return !out.is_even;
    });
    if (has_subset && out.is_even) break;
  }
  if (!has_subset) return std::nullopt;
  return out;
}

// The best choice of k nodes. Only the k largest can win, so what is left open is which of those that tie at
// the boundary; two combinations with the same row of free counts rate alike, and the first one wins.
std::optional<Choice> best_of_size(const Nodes& nodes, std::size_t k, std::size_t count, std::size_t group,
                                   Effort& effort) {
  Positions sorted = nodes.free;
  std::sort(sorted.rbegin(), sorted.rend());
  const std::size_t boundary = sorted[k - 1];
  Positions sure;
  Positions tied;
  for (std::size_t i = 0; i < nodes.free.size(); ++i) {
    if (nodes.free[i] > boundary) sure.push_back(i);
    if (nodes.free[i] == boundary) tied.push_back(i);
  }

  std::optional<Choice> best;
  std::set<Positions, std::less<>, ScratchAllocator<Positions>> seen;
  Positions row;
  // The order of the tied ones is that of the whole combinations, because the sure ones are in all of them.
  for_each_subset(tied.size(), k - sure.size(), [&](std::span<const std::size_t> chosen) {
    if (best && effort.is_spent()) return false;
    effort.look();
    Positions members = sure;
    for (const std::size_t i : chosen) members.push_back(tied[i]);
    std::sort(members.begin(), members.end());
    row.clear();
    for (const std::size_t m : members) row.push_back(nodes.free[m]);
    if (!seen.insert(row).second) return !sure.empty();  // without sure ones all rows are the same
    std::optional<Choice> choice = rate(nodes, std::move(members), count, group, effort);
    if (!choice) return false;  // the k largest cannot carry it, in whatever order
    if (!best || choice->score < best->score) best = std::move(choice);
    return !best->is_even;
  });
  return best;
}

}  // namespace

CpuSet take_distributed(FreeState& free, std::size_t count, Sorting sorting, std::size_t group) {
  const Layout& layout = free.layout();
  Nodes nodes;
  // A node that lies in two sockets may stand in the order twice; it gives its CPUs once.
  for (const Index unit : free.node_order()) {
    if (std::find(nodes.unit.begin(), nodes.unit.end(), unit) != nodes.unit.end()) continue;
    nodes.unit.push_back(unit);
    nodes.free.push_back(free.free_in_node(unit));
  }

  const std::size_t groups_per_node =
      divide_up(divide_up(layout.cpus().size(), group), layout.nodes().size());
  const std::size_t groups_needed = divide_up(count, group);
  const std::size_t most = std::min(groups_needed, nodes.unit.size());
  Effort effort;
  for (std::size_t k = divide_up(groups_needed, groups_per_node); k <= most; ++k) {
    const std::optional<Choice> choice = best_of_size(nodes, k, count, group, effort);
    if (!choice) continue;

    CpuSet out;
    FreeState part(layout);
    const auto take_from = [&](std::size_t position, std::size_t n) {
      part.clear();
      for (const Index cpu : layout.nodes()[nodes.unit[position]].cpus) {
        if (free.is_free(cpu)) part.add(cpu);
      }
      const CpuSet taken = take_packed(part, n, sorting, false);
      taken.for_each([&](CpuId cpu) { free.take(*layout.index_of(cpu)); });
      out |= taken;
    };
    for (const std::size_t m : choice->members) take_from(m, choice->each);
    walk(choice->extra, count - out.size(), group, [&](std::size_t m) {
      if (free.free_in_node(nodes.unit[m]) < group) return false;
      take_from(m, group);
      return true;
    });
    return out;
  }
  return take_packed(free, count, sorting, false);
}

}  // namespace dracpu::alloc
