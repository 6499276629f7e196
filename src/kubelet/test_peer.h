// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// For tests: a kubelet root folder of its own, a handler that does as it is told, and clients of the real
// protocol.

#ifndef DRACPU_KUBELET_TEST_PEER_H_
#define DRACPU_KUBELET_TEST_PEER_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/strings.h"
#include "dra_health_v1.grpc.pb.h"
#include "dra_health_v1alpha1.grpc.pb.h"
#include "dra_v1.grpc.pb.h"
#include "dra_v1beta1.grpc.pb.h"
#include "kubelet/server.h"
#include "pluginregistration.grpc.pb.h"

namespace dracpu::kubelet {

namespace dra_v1 = ::k8s::io::kubelet::pkg::apis::dra::v1;
namespace dra_v1beta1 = ::k8s::io::kubelet::pkg::apis::dra::v1beta1;

// Answers every claim with one device, unless told otherwise. Keeps what it was asked.
class FakeHandler : public Handler {
 public:
  struct Asked {
    std::vector<ClaimRef> claims;
    Deadline deadline;
  };
  using PrepareDone = std::function<void(PrepareResults)>;
  using UnprepareDone = std::function<void(UnprepareResults)>;

  // Set before the server starts.
  std::function<void(const std::vector<ClaimRef>&, PrepareDone)> on_prepare;
  std::function<void(const std::vector<ClaimRef>&, UnprepareDone)> on_unprepare;

  static PreparedDevice device_for(const ClaimUid& uid) {
    return {{"req"}, "node-1", "cpudevnuma000", {"dra.k8s.io/cpu=claim-" + uid.get()}, std::nullopt};
  }
  static PrepareResults one_device_each(const std::vector<ClaimRef>& claims) {
    PrepareResults out;
    for (const ClaimRef& c : claims) out.insert_or_assign(c.uid, std::vector{device_for(c.uid)});
    return out;
  }

  void prepare(std::vector<ClaimRef> claims, Deadline deadline, PrepareDone done) override {
    note(claims, deadline);
    if (on_prepare) return on_prepare(claims, std::move(done));
    done(one_device_each(claims));
  }
  void unprepare(std::vector<ClaimRef> claims, Deadline deadline, UnprepareDone done) override {
    note(claims, deadline);
    if (on_unprepare) return on_unprepare(claims, std::move(done));
    UnprepareResults out;
    for (const ClaimRef& c : claims) out.insert_or_assign(c.uid, ok_status());
    done(std::move(out));
  }
  void on_registration(bool registered, const std::string& error) override {
    const Locked lock(mutex_);
    verdicts_.emplace_back(registered, error);
  }

  std::vector<Asked> asked() const {
    const Locked lock(mutex_);
    return asked_;
  }
  std::vector<std::pair<bool, std::string>> verdicts() const {
    const Locked lock(mutex_);
    return verdicts_;
  }

 private:
  void note(const std::vector<ClaimRef>& claims, Deadline deadline) {
    const Locked lock(mutex_);
    asked_.push_back({claims, deadline});
  }

  mutable Mutex mutex_;
  std::vector<Asked> asked_ DRACPU_GUARDED_BY(mutex_);
  std::vector<std::pair<bool, std::string>> verdicts_ DRACPU_GUARDED_BY(mutex_);
};

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / ("dracpu-kubelet-test-" + random_hex(6));
    std::filesystem::create_directories(root_);
    options_.kubelet_root_dir = root_;
  }
  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(root_);
  }

  void start() {
    Result<std::unique_ptr<Server>> server = Server::start(options_, handler_);
    ASSERT_TRUE(server.ok()) << server.error().text;
    server_ = *std::move(server);
  }
  std::filesystem::path registration_path() const { return root_ / "plugins_registry" / "dra.cpu-reg.sock"; }
  std::filesystem::path dra_path() const { return root_ / "plugins" / "dra.cpu" / "dra.sock"; }

  // A connection of its own, also when another one to the same path is open.
  static std::shared_ptr<grpc::Channel> dial(const std::filesystem::path& path,
                                             const std::string& authority = {}) {
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    if (!authority.empty()) args.SetString(GRPC_ARG_DEFAULT_AUTHORITY, authority);
    return grpc::CreateCustomChannel("unix:" + path.string(), grpc::InsecureChannelCredentials(), args);
  }
  std::shared_ptr<grpc::Channel> dial_dra() const { return dial(dra_path()); }

  static void limit(grpc::ClientContext& context, int ms = 5000) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(ms));
  }
  static dra_v1::NodePrepareResourcesRequest prepare_request(std::initializer_list<const char*> uids) {
    dra_v1::NodePrepareResourcesRequest out;
    for (const char* uid : uids) {
      auto& claim = *out.add_claims();
      claim.set_namespace_("ns");
      claim.set_name(std::string("name-") + uid);
      claim.set_uid(uid);
    }
    return out;
  }
  static std::pair<grpc::Status, dra_v1::NodePrepareResourcesResponse> prepare(
      const std::shared_ptr<grpc::Channel>& channel, std::initializer_list<const char*> uids, int ms = 5000) {
    grpc::ClientContext context;
    limit(context, ms);
    dra_v1::NodePrepareResourcesResponse response;
    const grpc::Status status =
        dra_v1::DRAPlugin::NewStub(channel)->NodePrepareResources(&context, prepare_request(uids), &response);
    return {status, std::move(response)};
  }

  std::filesystem::path root_;
  ServerOptions options_;
  FakeHandler handler_;
  std::unique_ptr<Server> server_;
};

}  // namespace dracpu::kubelet

#endif  // DRACPU_KUBELET_TEST_PEER_H_
