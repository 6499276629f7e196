// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "alloc/packed.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace dracpu::alloc {
namespace {

// One run: what is free, what was taken, what is still missing.
struct Run {
  FreeState& free;
  std::size_t need;
  ScratchVector<Index> taken;

  void take(Index cpu) {
    if (need == 0 || !free.is_free(cpu)) return;
    free.take(cpu);
    taken.push_back(cpu);
    --need;
  }
  void take_all(std::span<const Index> cpus) {
    for (const Index cpu : cpus) take(cpu);
  }
};

// Goes through an order once and takes every unit that is whole and not above the need. Taking one unit never
// makes another one of its level whole, so asking on the way gives the same as asking before.
template <typename CountFree>
void take_whole(Run& run, std::span<const Index> order, const std::vector<Unit>& units,
                CountFree&& count_free) {
  for (const Index i : order) {
    if (run.need == 0) return;
    const std::size_t size = units[i].cpus.size();
    if (size <= run.need && count_free(i) == size) run.take_all(units[i].cpus);
  }
}

void take_whole_nodes(Run& run) {
  take_whole(run, run.free.node_order(), run.free.layout().nodes(),
             [&](Index i) { return run.free.free_in_node(i); });
}

void take_whole_sockets(Run& run) {
  take_whole(run, run.free.socket_order(), run.free.layout().sockets(),
             [&](Index i) { return run.free.free_in_socket(i); });
}

void take_whole_caches(Run& run) {
  take_whole(run, run.free.cache_order(), run.free.layout().caches(),
             [&](Index i) { return run.free.free_in_cache(i); });
}

void take_whole_cores(Run& run) {
  take_whole(run, run.free.core_order(), run.free.layout().cores(),
             [&](Index i) { return run.free.free_in_core(i); });
}

void take_single_cpus(Run& run, Sorting sorting) {
  if (run.need == 0) return;
  run.take_all(sorting == Sorting::kPacked ? run.free.packed_cpu_order() : run.free.spread_cpu_order());
}

// The tries to serve a request from one cache.
class SingleCache {
 public:
  explicit SingleCache(Run& run) : run_(run), layout_(run.free.layout()), alone_(layout_) {}

  // Takes all that is missing from the first cache of the list that a try accepts; false if none does.
  bool serve(std::span<const Index> list) {
    for (const Index cache : list) {
      if (run_.free.free_in_cache(cache) < run_.need) continue;
      if (plain_try(cache) || cores_and_remainder(cache, Accept::kFewSplitCores)) return commit();
    }
    for (const Index cache : list) {
      if (run_.free.free_in_cache(cache) < run_.need) continue;
      if (cores_and_remainder(cache, Accept::kAnything)) return commit();
    }
    return false;
  }

 private:
  enum class Accept { kFewSplitCores, kAnything };

  bool commit() {
    run_.take_all(found_);
    return true;
  }

  // The lowest cores with a free CPU, as many as full cores would be needed; right only if they have exactly
  // the CPUs that are needed, or one more where an odd count leaves one over.
  bool plain_try(Index cache) {
    const std::size_t threads = layout_.threads_per_core();
    const std::size_t cores_wanted = (run_.need + threads - 1) / threads;
    found_.clear();
    std::size_t cores = 0;
    for (const Index core : layout_.caches()[cache].cores) {
      const std::size_t before = found_.size();
      for (const Index cpu : layout_.cores()[core].cpus) {
        if (run_.free.is_free(cpu) && layout_.cpus()[cpu].cache == cache) found_.push_back(cpu);
      }
      if (found_.size() > before && ++cores == cores_wanted) break;
    }
    if (run_.need % 2 == 1 && threads > 1 && found_.size() > run_.need) {
      found_.erase(std::max_element(found_.begin(), found_.end()));
    }
    return found_.size() == run_.need;
  }

  // Whole cores, then single CPUs, with this cache's free CPUs as if they were all there is.
  bool cores_and_remainder(Index cache, Accept accept) {
    alone_.clear();
    std::size_t smallest_core = SIZE_MAX;
    for (const Index cpu : layout_.caches()[cache].cpus) {
      if (!run_.free.is_free(cpu)) continue;
      alone_.add(cpu);
      smallest_core = std::min(smallest_core, layout_.cores()[layout_.cpus()[cpu].core].cpus.size());
    }
    Run inner{alone_, run_.need, {}};
    take_whole_cores(inner);
    if (accept == Accept::kFewSplitCores && inner.need >= smallest_core) return false;
    take_single_cpus(inner, Sorting::kPacked);
    found_ = std::move(inner.taken);
    return inner.need == 0;
  }

  Run& run_;
  const Layout& layout_;
  FreeState alone_;
  ScratchVector<Index> found_;
};

void take_from_caches(Run& run) {
  if (run.need == 0) return;
  const std::span<const Index> order = run.free.cache_order();
  const ScratchVector<Index> list(order.begin(), order.end());
  SingleCache single(run);
  if (single.serve(list) || run.need < run.free.layout().average_cache()) return;
  take_whole_caches(run);
  if (run.need > 0) single.serve(list);
}

}  // namespace

CpuSet take_packed(FreeState& free, std::size_t count, Sorting sorting, bool prefer_caches) {
  Run run{free, count, {}};
  run.taken.reserve(count);
  if (free.layout().is_numa_first()) {
    take_whole_nodes(run);
    take_whole_sockets(run);
  } else {
    take_whole_sockets(run);
    take_whole_nodes(run);
  }
  if (prefer_caches) take_from_caches(run);
  if (sorting == Sorting::kPacked) take_whole_cores(run);
  take_single_cpus(run, sorting);

  CpuSet out;
  for (const Index cpu : run.taken) out.insert(CpuId(free.layout().cpus()[cpu].number));
  return out;
}

}  // namespace dracpu::alloc
