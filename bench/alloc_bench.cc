// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One selection: CPUs of the machine, kind of selection, CPUs wanted (a 64th, an 8th, a quarter of the free
// ones). Half of the cores are free at random. Reported: median and 99th percentile over many free sets, in
// microseconds, and what a selection asked of the heap after the first round.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <random>
#include <vector>

#include "alloc/pick.h"
#include "data/tree.h"
#include "topology/reader.h"

namespace dracpu {
namespace {

std::uint64_t allocations = 0;  // one thread

enum Kind : std::int64_t { kPacked, kCaches, kSpread, kDistributed };

alloc::Options options_of(std::int64_t kind) {
  return {.sorting = kind == kSpread ? alloc::Sorting::kSpread : alloc::Sorting::kPacked,
          .prefer_caches = kind == kCaches,
          .distribute = kind == kDistributed};
}

CpuSet half_of_cores(const topology::Topology& machine, std::mt19937& random) {
  CpuSet out;
  for (const topology::Core& core : machine.cores) {
    if (random() % 2 == 0) out |= core.cpus;
  }
  return out;
}

// `nodes` on each of two sockets, two threads, eight cores to a cache.
void pick_on(benchmark::State& state, std::uint32_t nodes) {
  const auto cores = static_cast<std::uint32_t>(state.range(0)) / (4 * nodes);
  topology::MemorySource tree = test::make_tree({.nodes_per_socket = nodes,
                                                 .cores_per_node = cores,
                                                 .cores_per_l3 = std::min(8U, cores),
                                                 .has_masks = false});
  const topology::Topology machine = read_topology(tree).value();
  const alloc::Layout layout(machine);
  const alloc::Options options = options_of(state.range(1));
  std::mt19937 random(1);
  std::vector<CpuSet> free_sets;
  for (int i = 0; i < 64; ++i) free_sets.push_back(half_of_cores(machine, random));

  const auto wanted_of = [&](const CpuSet& free) {
    return std::max<std::size_t>(1, free.size() / static_cast<std::size_t>(state.range(2)));
  };
  for (const CpuSet& free : free_sets)
    benchmark::DoNotOptimize(alloc::pick(layout, free, wanted_of(free), options));
  std::vector<double> us;
  us.reserve(1'000'000);
  std::uint64_t heap = 0;
  std::size_t next = 0;
  for (auto _ : state) {
    const CpuSet& free = free_sets[next++ % free_sets.size()];
    const std::size_t wanted = wanted_of(free);
    const std::uint64_t before = allocations;
    const auto begin = std::chrono::steady_clock::now();
    Result<CpuSet> got = alloc::pick(layout, free, wanted, options);
    benchmark::DoNotOptimize(got);
    heap += allocations - before;
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(us.begin(), us.end());
  state.counters["median_us"] = us[us.size() / 2];
  state.counters["p99_us"] = us[us.size() * 99 / 100];
  state.counters["heap"] = static_cast<double>(heap) / static_cast<double>(us.size());
}

void Pick(benchmark::State& state) { pick_on(state, 4); }
void PickOnSixteenNodes(benchmark::State& state) { pick_on(state, 8); }
BENCHMARK(PickOnSixteenNodes)
    ->ArgNames({"cpus", "kind", "part"})
    ->ArgsProduct({{256, 1024}, {kDistributed}, {64, 8, 4}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(Pick)
    ->ArgNames({"cpus", "kind", "part"})
    ->ArgsProduct({{64, 256, 512, 1024}, {kPacked, kCaches, kSpread, kDistributed}, {64, 8, 4}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace dracpu

// Counted, that is all. Not inlined, or GCC sees free() meet operator new.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++dracpu::allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t /*size*/) noexcept { std::free(p); }

BENCHMARK_MAIN();
