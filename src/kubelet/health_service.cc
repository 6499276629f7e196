// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/health_service.h"

#include <grpcpp/support/server_callback.h>

#include <utility>

#include "dra_health_v1.grpc.pb.h"
#include "dra_health_v1alpha1.grpc.pb.h"

namespace dracpu::kubelet {
namespace {

// The enums of both versions have the numbers of ours.
template <typename Response>
void encode(const Report& report, Response& out) {
  out.Clear();
  for (const DeviceHealth& in : report.devices) {
    auto& device = *out.add_devices();
    device.mutable_device()->set_pool_name(in.pool);
    device.mutable_device()->set_device_name(in.device);
    device.set_health(static_cast<decltype(device.health())>(in.health));
    device.set_last_updated_time(report.taken_at);
    device.set_health_check_timeout_seconds(report.lease_seconds);
    device.set_message(in.message);
  }
}

// One open stream. The hub owns it from add() until OnDone() takes it out; until then gRPC's plain pointer is
// good. At most one write is under way and at most one report waits behind it: the newest.
template <typename Response>
class HealthStream final : public grpc::ServerWriteReactor<Response>, public Watcher {
 public:
  explicit HealthStream(HealthHub& hub) : hub_(hub) {}

  void offer(std::shared_ptr<const Report> report) override {
    {
      const Locked lock(mutex_);
      if (ending_ || report->sequence < newest_) return;
      newest_ = report->sequence;
      if (writing_) {
        waiting_ = std::move(report);
        return;
      }
      writing_ = true;
    }
    write(*report);
  }

  void end() override { end_with(grpc::Status::OK); }
  void OnCancel() override { end_with(grpc::Status(grpc::StatusCode::CANCELLED, "the watcher has gone")); }

  void OnWriteDone(bool ok) override {
    std::shared_ptr<const Report> next;
    bool finish = false;
    {
      const Locked lock(mutex_);
      if (!ok) ending_ = true;
      finish = ending_;
      if (!finish) next = std::move(waiting_);
      waiting_ = nullptr;
      writing_ = next != nullptr;
    }
    if (finish) {
      this->Finish(status_);
    } else if (next != nullptr) {
      write(*next);
    }
  }

  void OnDone() override { hub_.remove(this); }

 private:
  // Called by the one who set `writing_`, so `response_` has one user at a time.
  void write(const Report& report) {
    encode(report, response_);
    this->StartWrite(&response_);
  }

  void end_with(grpc::Status status) {
    {
      const Locked lock(mutex_);
      if (ending_) return;
      ending_ = true;
      status_ = std::move(status);
      if (writing_) return;  // OnWriteDone() finishes
    }
    this->Finish(status_);  // settled: `ending_` is set once
  }

  HealthHub& hub_;
  Mutex mutex_;
  bool writing_ DRACPU_GUARDED_BY(mutex_) = false;
  bool ending_ DRACPU_GUARDED_BY(mutex_) = false;
  std::uint64_t newest_ DRACPU_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const Report> waiting_ DRACPU_GUARDED_BY(mutex_);
  grpc::Status status_ = grpc::Status::CANCELLED;  // written before Finish() only, by whoever sets `ending_`
  Response response_;
};

template <typename Base, typename Request, typename Response>
class HealthService final : public Base {
 public:
  explicit HealthService(HealthHub& hub) : hub_(hub) {}

  grpc::ServerWriteReactor<Response>* NodeWatchResources(grpc::CallbackServerContext* /*context*/,
                                                         const Request* /*request*/) override {
    const auto stream = std::make_shared<HealthStream<Response>>(hub_);
    hub_.add(stream);
    return stream.get();
  }

 private:
  HealthHub& hub_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_health_v1(HealthHub& hub) {
  using Service = HealthService<::v1::DRAResourceHealth::CallbackService, ::v1::NodeWatchResourcesRequest,
                                ::v1::NodeWatchResourcesResponse>;
  return std::make_unique<Service>(hub);
}

std::unique_ptr<grpc::Service> make_health_v1alpha1(HealthHub& hub) {
  using Service =
      HealthService<::v1alpha1::DRAResourceHealth::CallbackService, ::v1alpha1::NodeWatchResourcesRequest,
                    ::v1alpha1::NodeWatchResourcesResponse>;
  return std::make_unique<Service>(hub);
}

}  // namespace dracpu::kubelet
