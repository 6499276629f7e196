// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Cost of the wire work in hooks: encoding an answer with 1,000 updates, reading 5,000 containers of 3 kB.
// Beside the mean, each benchmark reports the median and p99 of its single runs in microseconds.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "nri.pb.h"
#include "nri/messages.h"
#include "nri/mux.h"
#include "nri/ttrpc.h"

namespace {

namespace api = ::nri::pkg::api::v1alpha1;
using namespace dracpu;       // NOLINT(google-build-using-namespace)
using namespace dracpu::nri;  // NOLINT(google-build-using-namespace)

template <typename F>
void measure(benchmark::State& state, F&& once) {
  std::vector<double> micros;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    once();
    micros.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(micros.begin(), micros.end());
  state.counters["median_us"] = micros[micros.size() / 2];
  state.counters["p99_us"] = micros[micros.size() * 99 / 100];
}

void encode_create(benchmark::State& state) {
  CreateAnswer answer{{2, 3}, {}};
  for (int i = 0; i < state.range(0); ++i) {
    answer.updates.push_back(
        {ContainerId(fmt::format("{:064x}", i)), CpuSet{0, 1, 4, 5, 6, 7, 9, 11, 64, 65}});
  }
  const ContainerId own("new");
  measure(state, [&] {
    const auto reply = encode_create_reply(own, answer, kMaxSendData);
    benchmark::DoNotOptimize(encode_response(5, reply->payload));
  });
}
BENCHMARK(encode_create)->Arg(0)->Arg(1000)->Unit(benchmark::kMicrosecond);

std::string container(int i) {
  api::Container c;
  c.set_id(fmt::format("{:064x}", i));
  c.set_pod_sandbox_id(fmt::format("{:064x}", i / 5));
  c.set_name("main");
  for (int e = 0; e < 40; ++e) c.add_env(fmt::format("SOME_SERVICE_HOST_NUMBER_{}=10.0.0.{}", e, e));
  c.add_env("DRA_CPUSET_claim=0-3");
  for (int m = 0; m < 14; ++m) {
    auto& mount = *c.add_mounts();
    mount.set_destination(fmt::format("/var/lib/some/path/{}", m));
    mount.set_source(fmt::format("/var/lib/kubelet/pods/volumes/{}", m));
    mount.add_options("rprivate");
    mount.add_options("rw");
  }
  (*c.mutable_labels())["io.kubernetes.container.name"] = "main";
  c.mutable_linux()->mutable_resources()->mutable_cpu()->set_cpus("0-63");
  return c.SerializeAsString();
}

// The whole way from frames to ContainerInfo, in chunks of less than 4 MiB as a runtime sends them.
void synchronize(benchmark::State& state) {
  std::string trunk;
  std::string chunk;
  std::uint32_t stream = 1;
  const auto flush = [&](bool more) {
    if (more) chunk += std::string("\x18\x01", 2);
    const auto message =
        encode_request(stream, Request{std::string(kPluginService), "Synchronize", std::move(chunk), 0});
    trunk += encode_message(kPluginConnection, *message);
    stream += 2;
    chunk.clear();
  };
  for (int i = 0; i < state.range(0); ++i) {
    api::SynchronizeRequest one;
    one.add_containers()->ParseFromString(container(i));
    if (i % 5 == 0) one.add_pods()->set_id(fmt::format("{:064x}", i / 5));
    one.AppendToString(&chunk);
    if (chunk.size() > 4'000'000) flush(true);
  }
  flush(false);
  measure(state, [&] {
    SyncSet set;
    FrameParser frames;
    MessageAssembler messages;
    const auto on_message = [&](Message message) {
      const auto request = parse_request(message.data);
      benchmark::DoNotOptimize(set.add(request->payload).ok());
    };
    constexpr std::size_t kRead = std::size_t{64} << 10U;
    for (std::string_view rest = trunk; !rest.empty(); rest.remove_prefix(std::min(kRead, rest.size()))) {
      const Status ok = frames.feed(rest.substr(0, kRead), [&](std::uint32_t, std::string_view piece) {
        messages.feed(piece, on_message);
      });
      if (!ok) state.SkipWithError("bad trunk");
    }
    benchmark::DoNotOptimize(set.take());
  });
  state.counters["MB"] = static_cast<double>(trunk.size()) / 1e6;
}
BENCHMARK(synchronize)->Arg(5000)->Unit(benchmark::kMillisecond)->MinTime(3.0);

}  // namespace

BENCHMARK_MAIN();
