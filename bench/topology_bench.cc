// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Reading a machine: a synthetic tree of N CPUs in memory-backed files, and the machine this runs on.
//
// Budget: 512 CPUs under 50 ms. The counter heap_KiB is what the finished Topology and its reading left
// allocated at the most, peak_rss_KiB what the process has used at the most.

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <sys/resource.h>

#include "alloc/layout.h"
#include "data/corpus.h"
#include "data/tree.h"
#include "topology/reader.h"

namespace dracpu {
namespace {

double heap_kib() { return static_cast<double>(::mallinfo2().uordblks) / 1024; }

double peak_rss_kib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss);
}

void read_root(benchmark::State& state, const std::filesystem::path& root) {
  double heap = 0;
  std::size_t cpus = 0;
  for (auto _ : state) {
    const double before = heap_kib();
    const Result<topology::Topology> got = topology::read_topology({.root = root});
    if (!got.ok()) {
      state.SkipWithError(got.error().text.c_str());
      return;
    }
    cpus = got->usable.size();
    heap = std::max(heap, heap_kib() - before);
  }
  state.counters["cpus"] = static_cast<double>(cpus);
  state.counters["heap_KiB"] = heap;
  state.counters["peak_rss_KiB"] = peak_rss_kib();
}

void ReadTree(benchmark::State& state) {
  const auto cores = static_cast<std::uint32_t>(state.range(0) / 4);  // two sockets, two threads
  const test::TempDir dir;
  test::write_tree(test::make_tree({.cores_per_node = cores, .cores_per_l3 = 8}), dir.path());
  read_root(state, dir.path());
}
BENCHMARK(ReadTree)->Arg(64)->Arg(256)->Arg(512)->Arg(1024)->Unit(benchmark::kMillisecond);

void ReadThisMachine(benchmark::State& state) { read_root(state, "/"); }
BENCHMARK(ReadThisMachine)->Unit(benchmark::kMillisecond);

void BuildLayout(benchmark::State& state) {
  const auto cores = static_cast<std::uint32_t>(state.range(0) / 4);
  topology::MemorySource tree = test::make_tree({.cores_per_node = cores, .cores_per_l3 = 8});
  const topology::Topology machine = read_topology(tree).value();
  for (auto _ : state) benchmark::DoNotOptimize(alloc::Layout(machine));
}
BENCHMARK(BuildLayout)->Arg(512)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dracpu

BENCHMARK_MAIN();
