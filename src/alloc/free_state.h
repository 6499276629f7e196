// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The free CPUs of one run, with a count for every unit, and the orders of spec cpu-allocation section 3.
//
// One rule sorts units everywhere: fewer free CPUs first, then the lower number; a unit without a free CPU
// does not appear. Internal to this folder.
//
// Cost     take() is constant; an order sorts the units that have a free CPU.
// Threads  One.

#ifndef DRACPU_ALLOC_FREE_STATE_H_
#define DRACPU_ALLOC_FREE_STATE_H_

#include <cstddef>
#include <span>
#include <vector>

#include "alloc/layout.h"
#include "alloc/scratch.h"
#include "base/cpuset.h"

namespace dracpu::alloc {

class FreeState {
 public:
  // Nothing is free yet.
  explicit FreeState(const Layout& layout);

  const Layout& layout() const { return layout_; }
  void add(Index cpu);
  void add(const CpuSet& cpus);  // unknown numbers are ignored
  void take(Index cpu);
  // Takes all that is left free.
  void clear();

  bool is_free(Index cpu) const { return free_[cpu]; }
  std::size_t size() const { return size_; }
  std::size_t free_in_socket(Index i) const { return sockets_.count[i]; }
  std::size_t free_in_node(Index i) const { return nodes_.count[i]; }
  std::size_t free_in_cache(Index i) const { return caches_.count[i]; }
  std::size_t free_in_core(Index i) const { return cores_.count[i]; }
  // Every CPU that the machine gives the core is free.
  bool is_core_whole(Index i) const { return cores_.count[i] == layout_.cores()[i].cpus.size(); }

  // Orders, as indices of units or CPUs. A unit that lies in two units above it may appear twice. The result
  // is valid until the next call of the same function.
  std::span<const Index> node_order();
  std::span<const Index> socket_order();
  std::span<const Index> cache_order();
  std::span<const Index> core_order();
  ScratchVector<Index> packed_cpu_order();
  ScratchVector<Index> spread_cpu_order();

 private:
  struct Level {
    ScratchVector<Index> count;    // free CPUs by unit
    ScratchVector<Index> touched;  // units that had a free CPU since clear(), in no order
    ScratchVector<Index> order;
    void add(Index i) {
      if (count[i]++ == 0) touched.push_back(i);
    }
    void forget_taken();
  };
  // Sort key of a unit in an order below another order.
  struct Entry {
    Index above;  // rank of the unit above
    Index count;
    Index index;
    auto operator<=>(const Entry&) const = default;
  };
  std::span<const Index> order_alone(Level& level);
  // `parents` is Unit::nodes or Unit::sockets, `above` the order of that level, `place` its field of a CPU.
  std::span<const Index> order_below(Level& level, const std::vector<Unit>& units,
                                     std::vector<Index> Unit::*parents, Index Layout::Place::*place,
                                     std::span<const Index> above);

  const Layout& layout_;
  ScratchVector<bool> free_;
  std::size_t size_ = 0;
  Level nodes_, sockets_, caches_, cores_;
  ScratchVector<Entry> entries_;
  ScratchVector<Index> ranks_;
};

}  // namespace dracpu::alloc

#endif  // DRACPU_ALLOC_FREE_STATE_H_
