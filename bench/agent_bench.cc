// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The hot paths without their wires: the runtime's hooks, and prepare with its files. 256 CPUs, 2 sockets.
// Reported: median and 99th percentile in microseconds. `disk` is the folder for temporary files, `shm` is
// memory, where a sync costs nothing.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "agent/books.h"
#include "agent/runtime_service.h"
#include "agent/test_node.h"
#include "agent/worker.h"
#include "data/tree.h"
#include "observe/log.h"
#include "topology/reader.h"

namespace dracpu::agent {
namespace {

topology::Topology two_sockets() {
  topology::MemorySource tree =
      test::make_tree({.nodes_per_socket = 1, .cores_per_node = 64, .cores_per_l3 = 8, .has_masks = false});
  return read_topology(tree).value();
}

class Place : public TestNode {
 public:
  explicit Place(const std::filesystem::path& parent)
      : TestNode(two_sockets(), parent), books(node, machine) {
    observe::set_log_level(0);
    if (!books.load().ok()) std::abort();
  }

  Books books;
};

nri::ContainerInfo container(std::size_t i) {
  nri::ContainerInfo out;
  out.id = ContainerId(fmt::format("{:064x}", i));
  out.pod_uid = PodUid(fmt::format("pod-{}", i));
  out.pod_namespace = "ns";
  out.pod_name = "pod";
  out.name = "main";
  for (int e = 0; e < 40; ++e) out.env.push_back(fmt::format("SOME_SERVICE_HOST_NUMBER_{}=10.0.0.{}", e, e));
  out.cpus = "0-255";
  return out;
}

template <typename Before, typename Once>
void measure(benchmark::State& state, Before&& before, Once&& once) {
  std::vector<double> us;
  for (auto _ : state) {
    state.PauseTiming();
    before();
    state.ResumeTiming();
    const auto begin = std::chrono::steady_clock::now();
    once();
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(us.begin(), us.end());
  state.counters["median_us"] = us[us.size() / 2];
  state.counters["p99_us"] = us[us.size() * 99 / 100];
}

// The first container of a claim: every shared one is told the smaller pool.
void CreateOwner(benchmark::State& state) {
  Place place("/dev/shm");
  Worker worker;
  observe::Metrics metrics;
  RuntimeService service(place.node, place.books, worker, metrics, {[] {}, [](const std::string&) {}});
  std::vector<nri::ContainerInfo> shared;
  for (std::size_t i = 0; i < static_cast<std::size_t>(state.range(0)); ++i) shared.push_back(container(i));
  nri::ContainerInfo owner = container(1'000'000);
  measure(
      state,
      [&] {
        (void)place.books.unprepare({ClaimUid("a")});
        (void)service.on_synchronize(shared, Deadline::after(std::chrono::seconds(2)));
        const auto got = place.books.prepare({place.order("a", 4)});
        owner.env.back() = "DRA_CPUSET_a=" + got[0]->cpus.to_string();
      },
      [&] {
        const auto answer = service.on_create(owner, Deadline::after(std::chrono::seconds(2)));
        if (!answer.ok() || answer->updates.size() != shared.size()) state.SkipWithError("wrong answer");
      });
}
BENCHMARK(CreateOwner)
    ->ArgName("shared")
    ->Arg(100)
    ->Arg(1000)
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(300);

void Synchronize(benchmark::State& state) {
  Place place("/dev/shm");
  Worker worker;
  observe::Metrics metrics;
  RuntimeService service(place.node, place.books, worker, metrics, {[] {}, [](const std::string&) {}});
  std::vector<nri::ContainerInfo> all;
  for (std::size_t i = 0; i < static_cast<std::size_t>(state.range(0)); ++i) all.push_back(container(i));
  for (std::size_t i = 0; i < 32; ++i) {
    const std::string uid = fmt::format("claim-{}", i);
    const auto got = place.books.prepare({place.order(uid, 2)});
    all[i * 3].env.back() = fmt::format("DRA_CPUSET_{}={}", uid, got[0]->cpus.to_string());
  }
  std::vector<nri::ContainerInfo> sent;
  measure(
      state, [&] { sent = all; },
      [&] {
        const auto updates =
            service.on_synchronize(std::move(sent), Deadline::after(std::chrono::seconds(2)));
        if (!updates.ok() || updates->size() != all.size()) state.SkipWithError("wrong answer");
      });
}
BENCHMARK(Synchronize)
    ->ArgName("containers")
    ->Arg(1000)
    ->Arg(5000)
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(50);

// `together` claims in one batch, with one write of the state file, 64 claims being held already.
void Prepare(benchmark::State& state, const std::filesystem::path& parent) {
  Place place(parent);
  for (std::size_t i = 0; i < 64; ++i) (void)place.books.prepare({place.order(fmt::format("held-{}", i), 1)});
  std::vector<PrepareOrder> orders;
  std::vector<ClaimUid> uids;
  for (std::size_t i = 0; i < static_cast<std::size_t>(state.range(0)); ++i) {
    orders.push_back(place.order(fmt::format("new-{}", i), 1));
    uids.push_back(orders.back().uid);
  }
  measure(
      state, [&] { (void)place.books.unprepare(uids); },
      [&] {
        for (const auto& got : place.books.prepare(orders)) {
          if (!got.ok()) state.SkipWithError("refused");
        }
      });
}
void PrepareOnDisk(benchmark::State& state) { Prepare(state, std::filesystem::temp_directory_path()); }
void PrepareInMemory(benchmark::State& state) { Prepare(state, "/dev/shm"); }
BENCHMARK(PrepareOnDisk)
    ->ArgName("together")
    ->Arg(1)
    ->Arg(100)
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(100);
BENCHMARK(PrepareInMemory)
    ->ArgName("together")
    ->Arg(1)
    ->Arg(100)
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(100);

}  // namespace
}  // namespace dracpu::agent

BENCHMARK_MAIN();
