// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the kubelet's side costs: opening and closing the two sockets, one prepare over the wire, one health
// report to several watchers' hub.

#include <benchmark/benchmark.h>
#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <string>

#include "base/strings.h"
#include "dra_v1.grpc.pb.h"
#include "kubelet/health_hub.h"
#include "kubelet/server.h"

namespace {

namespace fs = std::filesystem;
namespace wire = ::k8s::io::kubelet::pkg::apis::dra::v1;
using namespace dracpu;           // NOLINT: a benchmark of one file
using namespace dracpu::kubelet;  // NOLINT

class FourDevices final : public Handler {
 public:
  void prepare(std::vector<ClaimRef> claims, Deadline /*deadline*/,
               std::function<void(PrepareResults)> done) override {
    PrepareResults out;
    for (const ClaimRef& c : claims) {
      out.emplace(c.uid,
                  std::vector<PreparedDevice>(
                      4, {{"req"}, "node-1", "cpudevnuma000", {"dra.k8s.io/cpu=claim-" + c.uid.get()}, {}}));
    }
    done(std::move(out));
  }
  void unprepare(std::vector<ClaimRef> /*claims*/, Deadline /*deadline*/,
                 std::function<void(UnprepareResults)> done) override {
    done({});
  }
  void on_registration(bool /*registered*/, const std::string& /*error*/) override {}
};

class Root {
 public:
  Root() : path_(fs::temp_directory_path() / ("dracpu-kubelet-bench-" + random_hex(6))) {
    fs::create_directories(path_);
  }
  ~Root() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;
  ServerOptions options() const {
    ServerOptions out;
    out.kubelet_root_dir = path_;
    return out;
  }
  std::string dra_socket() const { return "unix:" + (path_ / "plugins/dra.cpu/dra.sock").string(); }

 private:
  fs::path path_;
};

void start_and_stop(benchmark::State& state) {
  const Root root;
  FourDevices handler;
  for (auto _ : state) {
    auto server = Server::start(root.options(), handler);
    if (!server.ok()) state.SkipWithError(server.error().text.c_str());
  }
}
BENCHMARK(start_and_stop)->Unit(benchmark::kMicrosecond);

void prepare_over_the_wire(benchmark::State& state) {
  const Root root;
  FourDevices handler;
  const auto server = Server::start(root.options(), handler);
  if (!server.ok()) return state.SkipWithError(server.error().text.c_str());
  const auto stub =
      wire::DRAPlugin::NewStub(grpc::CreateChannel(root.dra_socket(), grpc::InsecureChannelCredentials()));
  wire::NodePrepareResourcesRequest request;
  auto& claim = *request.add_claims();
  claim.set_namespace_("default");
  claim.set_name("web-cpus-x7k2p");
  claim.set_uid("ad4af911-5bcd-47c5-a554-f35cea869472");
  for (auto _ : state) {
    grpc::ClientContext context;
    wire::NodePrepareResourcesResponse response;
    if (!stub->NodePrepareResources(&context, request, &response).ok()) state.SkipWithError("call failed");
  }
}
BENCHMARK(prepare_over_the_wire)->Unit(benchmark::kMicrosecond)->UseRealTime();

void set_health_of_512_devices(benchmark::State& state) {
  HealthHub hub(std::chrono::seconds(100), std::chrono::seconds(200));
  std::vector<DeviceHealth> report;
  for (int i = 0; i < 512; ++i) {
    report.push_back({"node-1", "cpudev" + std::to_string(i), Health::kHealthy, "device initialized"});
  }
  for (auto _ : state) hub.set(report);
}
BENCHMARK(set_health_of_512_devices)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
