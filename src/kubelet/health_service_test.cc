// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Device health over the wire. Line numbers are those of spec kubelet-dra-wire section 9.

#include "kubelet/health_service.h"

#include <atomic>
#include <thread>

#include "kubelet/test_peer.h"

namespace dracpu::kubelet {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Response = ::v1::NodeWatchResourcesResponse;

std::vector<DeviceHealth> report(Health health, const std::string& message = "ok") {
  return {{"node-1", "cpudev000", health, message}, {"node-1", "cpudev001", Health::kUnhealthy, "offline"}};
}

// One open stream, read by the test.
class Stream {
 public:
  explicit Stream(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(::v1::DRAResourceHealth::NewStub(channel)) {
    context_.set_deadline(std::chrono::system_clock::now() + seconds(20));
    reader_ = stub_->NodeWatchResources(&context_, {});
  }
  bool read(Response& out) { return reader_->Read(&out); }
  Response next() {
    Response out;
    EXPECT_TRUE(read(out));
    return out;
  }
  grpc::Status finish() { return reader_->Finish(); }
  void cancel() { context_.TryCancel(); }

 private:
  std::unique_ptr<::v1::DRAResourceHealth::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<Response>> reader_;
};

class HealthServiceTest : public ServerTest {};

TEST_F(HealthServiceTest, FullReportAtOnceThenChanges) {  // line 41
  start();
  server_->set_health(report(Health::kHealthy));
  Stream stream(dial_dra());
  const Response first = stream.next();
  ASSERT_EQ(first.devices_size(), 2);
  EXPECT_EQ(first.devices(0).device().pool_name(), "node-1");
  EXPECT_EQ(first.devices(0).device().device_name(), "cpudev000");
  EXPECT_EQ(first.devices(0).health(), ::v1::HEALTHY);
  EXPECT_EQ(first.devices(0).message(), "ok");
  EXPECT_EQ(first.devices(0).health_check_timeout_seconds(), 20);
  EXPECT_NEAR(static_cast<double>(first.devices(0).last_updated_time()), static_cast<double>(::time(nullptr)),
              5);
  EXPECT_EQ(first.devices(1).health(), ::v1::UNHEALTHY);
  server_->set_health(report(Health::kUnknown));
  EXPECT_EQ(stream.next().devices(0).health(), ::v1::UNKNOWN);
}

TEST_F(HealthServiceTest, SilenceIsBrokenWithinTheLease) {  // line 41
  options_.health_resend = seconds(1);
  options_.health_lease = seconds(2);
  start();
  server_->set_health(report(Health::kHealthy));
  Stream stream(dial_dra());
  const Response first = stream.next();
  const auto t0 = std::chrono::steady_clock::now();
  EXPECT_EQ(stream.next().SerializeAsString(), first.SerializeAsString());
  EXPECT_LT(std::chrono::steady_clock::now() - t0, milliseconds(1900));
  EXPECT_EQ(first.devices(0).health_check_timeout_seconds(), 2);
}

TEST_F(HealthServiceTest, AWatcherMayComeBeforeTheFirstReport) {
  start();
  Stream stream(dial_dra());
  std::thread later([this] { server_->set_health(report(Health::kHealthy)); });
  EXPECT_EQ(stream.next().devices_size(), 2);
  later.join();
}

TEST_F(HealthServiceTest, TwoVersionsSameBytes) {  // lines 42 and 45
  start();
  server_->set_health(report(Health::kHealthy, "fine"));
  Stream newer(dial_dra());
  const auto stub = ::v1alpha1::DRAResourceHealth::NewStub(dial_dra());
  grpc::ClientContext context;
  limit(context);
  const auto older = stub->NodeWatchResources(&context, {});
  for (int i = 0; i < 3; ++i) {
    ::v1alpha1::NodeWatchResourcesResponse message;
    ASSERT_TRUE(older->Read(&message));
    EXPECT_EQ(newer.next().SerializeAsString(), message.SerializeAsString());
    server_->set_health(report(Health::kUnknown, std::to_string(i)));
  }
}

TEST_F(HealthServiceTest, LongMessagesAreCut) {  // line 44
  start();
  server_->set_health(
      {{"p", "d", Health::kHealthy, std::string(1023, 'x') + "\xc3\xa4" + std::string(4000, 'y')}});
  EXPECT_EQ(Stream(dial_dra()).next().devices(0).message(), std::string(1023, 'x'));
}

TEST_F(HealthServiceTest, ASlowReaderHoldsUpNobody) {  // line 42
  start();
  const auto big = [](int i) {
    std::vector<DeviceHealth> out;
    for (int d = 0; d < 500; ++d) {
      out.push_back({"node-1", "cpudev" + std::to_string(d), Health::kHealthy,
                     std::to_string(i) + "/" + std::string(1000, 'm')});
    }
    return out;
  };
  server_->set_health(big(0));
  Stream slow(dial_dra());
  EXPECT_EQ(slow.next().devices_size(), 500);
  Stream quick(dial_dra());
  quick.next();
  // Half a MiB each: far more than any buffer between takes.
  for (int i = 1; i <= 60; ++i) {
    server_->set_health(big(i));
    EXPECT_TRUE(quick.next().devices(0).message().starts_with(std::to_string(i) + "/"));
  }
  // The slow one finds old reports that were under way, then the newest; those between are not kept.
  int seen = 0;
  for (Response r; seen < 60 && slow.read(r); ++seen) {
    if (r.devices(0).message().starts_with("60/")) break;
  }
  EXPECT_LT(seen, 50);
  EXPECT_TRUE(prepare(dial_dra(), {"u"}).first.ok());
}

TEST_F(HealthServiceTest, WatchersComeAndGo) {
  start();
  server_->set_health(report(Health::kHealthy));
  for (int i = 0; i < 50; ++i) {
    Stream stream(dial_dra());
    if (i % 2 == 0) stream.next();
    stream.cancel();
    server_->set_health(report(Health::kUnknown));
    EXPECT_EQ(stream.finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_EQ(Stream(dial_dra()).next().devices_size(), 2);
}

TEST_F(HealthServiceTest, StopEndsStreamsCleanly) {
  start();
  server_->set_health(report(Health::kHealthy));
  Stream a(dial_dra());
  Stream b(dial_dra());
  a.next();
  b.next();
  const auto t0 = std::chrono::steady_clock::now();
  server_->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - t0, seconds(1)) << "an open stream is no running call";
  Response r;
  EXPECT_FALSE(a.read(r));
  EXPECT_TRUE(a.finish().ok());
  EXPECT_FALSE(b.read(r));
  EXPECT_TRUE(b.finish().ok());
}

TEST_F(HealthServiceTest, StopIsNotHeldUpByASlowReader) {
  start();
  std::vector<DeviceHealth> big(2000, {"node-1", "cpudev", Health::kHealthy, std::string(1000, 'm')});
  server_->set_health(big);
  Stream slow(dial_dra());
  slow.next();
  for (int i = 0; i < 4; ++i) server_->set_health(big);
  const auto t0 = std::chrono::steady_clock::now();
  server_->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - t0, seconds(1));
}

TEST_F(HealthServiceTest, OffIsUnimplementedAndNotAdvertised) {  // line 43
  options_.health = false;
  start();
  server_->set_health(report(Health::kHealthy));
  Response r;
  Stream stream(dial_dra());
  EXPECT_FALSE(stream.read(r));
  EXPECT_EQ(stream.finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
  grpc::ClientContext context;
  limit(context);
  ::pluginregistration::PluginInfo info;
  ASSERT_TRUE(::pluginregistration::Registration::NewStub(dial(registration_path()))
                  ->GetInfo(&context, {}, &info)
                  .ok());
  EXPECT_EQ(info.supported_versions_size(), 2);
}

}  // namespace
}  // namespace dracpu::kubelet
