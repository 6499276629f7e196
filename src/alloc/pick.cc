// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "alloc/pick.h"

#include "alloc/distributed.h"
#include "alloc/free_state.h"
#include "alloc/packed.h"

namespace dracpu::alloc {

Result<CpuSet> pick(const Layout& layout, const CpuSet& free, std::size_t count, const Options& options) {
  if (count == 0) return CpuSet();
  FreeState state(layout);
  state.add(free);
  if (state.size() < count) {
    return make_error(Errc::kNoCapacity, "asked for {} CPUs, {} are available", count, free.size());
  }

  CpuSet out;
  if (!options.distribute) {
    out = take_packed(state, count, options.sorting, options.prefer_caches);
  } else if (options.group_size == 0 || count % options.group_size != 0) {
    out = take_packed(state, count, options.sorting, false);
  } else {
    out = take_distributed(state, count, options.sorting, options.group_size);
  }

  // The last line of defence: whatever the orders say, nobody gets a CPU that is not free.
  if (out.size() != count || !out.is_subset_of(free)) {
    return make_error(Errc::kInternal, "selection of {} CPUs gave \"{}\", which is not {} of the free ones",
                      count, out.to_string(), count);
  }
  return out;
}

}  // namespace dracpu::alloc
