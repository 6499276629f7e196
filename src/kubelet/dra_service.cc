// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/dra_service.h"

#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <set>
#include <utility>

#include "dra_v1.grpc.pb.h"
#include "dra_v1beta1.grpc.pb.h"
#include "kubelet/utf8.h"
#include "observe/log.h"

namespace dracpu::kubelet {
namespace {

namespace wire_v1 = ::k8s::io::kubelet::pkg::apis::dra::v1;
namespace wire_v1beta1 = ::k8s::io::kubelet::pkg::apis::dra::v1beta1;

// The kubelet takes a claim for prepared when its error is empty, so an error always has a text.
std::string error_text(const Error& error) {
  return to_utf8(error.text.empty() ? name_of(error.code) : error.text);
}

void put_share(wire_v1::Device& out, const PreparedDevice& in) {
  if (in.share_id) out.set_share_id(*in.share_id);
}
void put_share(wire_v1beta1::Device& /*out*/, const PreparedDevice& /*in*/) {}

template <typename Entry>
void put(Entry& out, const Result<std::vector<PreparedDevice>>& result) {
  if (!result.ok()) {
    out.set_error(error_text(result.error()));
    return;
  }
  for (const PreparedDevice& in : *result) {
    auto& device = *out.add_devices();
    device.mutable_request_names()->Add(in.request_names.begin(), in.request_names.end());
    device.set_pool_name(in.pool);
    device.set_device_name(in.device);
    device.mutable_cdi_device_ids()->Add(in.cdi_device_ids.begin(), in.cdi_device_ids.end());
    put_share(device, in);
  }
}

template <typename Entry>
void put(Entry& out, const Status& status) {
  if (!status.ok()) out.set_error(error_text(status.error()));
}

// The two calls, as the handler knows them.
struct Prepare {
  using Results = PrepareResults;
  static constexpr const char* kName = "prepare";
  static void ask(Handler& handler, std::vector<ClaimRef> claims, Deadline deadline,
                  std::function<void(Results)> done) {
    handler.prepare(std::move(claims), deadline, std::move(done));
  }
};
struct Unprepare {
  using Results = UnprepareResults;
  static constexpr const char* kName = "unprepare";
  static void ask(Handler& handler, std::vector<ClaimRef> claims, Deadline deadline,
                  std::function<void(Results)> done) {
    handler.unprepare(std::move(claims), deadline, std::move(done));
  }
};

Deadline deadline_of(const grpc::CallbackServerContext& context) {
  using std::chrono::system_clock;
  const system_clock::time_point at = context.deadline();  // far in the future if the client set none
  const system_clock::time_point now = system_clock::now();
  if (at >= now + kMaxCallTime) return Deadline::after(kMaxCallTime);
  return Deadline::after(std::chrono::duration_cast<Deadline::Clock::duration>(at - now));
}

// One running RPC. gRPC holds it by plain pointer until OnDone(), which is what `self_` stands for; the
// handler's `done` holds it too, for it may come after the caller has gone. Whoever sets `answered_` finishes
// the RPC.
template <typename Op, typename Response>
class Call final : public grpc::ServerUnaryReactor {
 public:
  Call(Response* response, CallGate& gate) : response_(response), gate_(gate) {}

  template <typename Request>
  static grpc::ServerUnaryReactor* start(const grpc::CallbackServerContext& context, const Request& request,
                                         Response* response, Handler& handler, CallGate& gate) {
    const auto call = std::make_shared<Call>(response, gate);
    call->self_ = call;
    call->run(context, request, handler);
    return call.get();
  }

  void OnCancel() override { finish(grpc::Status(grpc::StatusCode::CANCELLED, "the caller has gone")); }

  void OnDone() override {
    const std::shared_ptr<Call> last = std::move(self_);
    if (entered_) gate_.leave();
  }

 private:
  // Lives in the handler's callback; when the last copy goes without an answer, this is the answer.
  class Reply {
   public:
    explicit Reply(std::shared_ptr<Call> call) : call_(std::move(call)) {}
    Reply(const Reply&) = delete;
    Reply& operator=(const Reply&) = delete;
    ~Reply() { call_->finish(grpc::Status(grpc::StatusCode::INTERNAL, "the driver dropped the call")); }
    void operator()(const typename Op::Results& results) const { call_->answer(results); }

   private:
    std::shared_ptr<Call> call_;
  };

  template <typename Request>
  void run(const grpc::CallbackServerContext& context, const Request& request, Handler& handler) {
    entered_ = gate_.enter();
    if (!entered_) {
      finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the driver is stopping"));
      return;
    }
    std::vector<ClaimRef> claims;
    for (const auto& claim : request.claims()) {
      claims.push_back({claim.namespace_(), claim.name(), ClaimUid(claim.uid())});
      uids_.insert(claims.back().uid);
    }
    if (claims.empty()) {
      finish(grpc::Status::OK);
      return;
    }
    try {
      const auto reply = std::make_shared<Reply>(self_);
      Op::ask(handler, std::move(claims), deadline_of(context),
              [reply](typename Op::Results results) { (*reply)(results); });
    } catch (const std::exception& e) {
      observe::log_error("Handler failed", make_error(Errc::kInternal, "{}", e.what()),
                         {{"call", Op::kName}});
      finish(grpc::Status(grpc::StatusCode::INTERNAL, to_utf8(e.what())));
    }
  }

  void answer(const typename Op::Results& results) {
    if (answered_.exchange(true)) return;
    for (const ClaimUid& uid : uids_) {
      auto& entry = (*response_->mutable_claims())[uid.get()];
      const auto it = results.find(uid);
      if (it != results.end()) {
        put(entry, it->second);
        continue;
      }
      observe::log_warning("Handler gave no result", {{"call", Op::kName}, {"claimUID", uid.get()}});
      entry.set_error("internal: the driver gave no result for this claim");
    }
    // The kubelet fails the whole batch over an answer that it did not ask for.
    for (const auto& [uid, result] : results) {
      if (uids_.contains(uid)) continue;
      observe::log_warning("Handler gave a result nobody asked for",
                           {{"call", Op::kName}, {"claimUID", uid.get()}});
    }
    Finish(grpc::Status::OK);
  }

  void finish(grpc::Status status) {
    if (!answered_.exchange(true)) Finish(std::move(status));
  }

  Response* const response_;  // gRPC's, valid until Finish()
  CallGate& gate_;
  bool entered_ = false;
  std::set<ClaimUid> uids_;
  std::atomic<bool> answered_ = false;
  std::shared_ptr<Call> self_;
};

template <typename Op, typename Request, typename Response>
grpc::ServerUnaryReactor* start_call(const grpc::CallbackServerContext* context, const Request* request,
                                     Response* response, Handler& handler, CallGate& gate) {
  return Call<Op, Response>::start(*context, *request, response, handler, gate);
}

template <typename Base, typename PrepareRequest, typename PrepareResponse, typename UnprepareRequest,
          typename UnprepareResponse>
class DraService final : public Base {
 public:
  DraService(Handler& handler, CallGate& gate) : handler_(handler), gate_(gate) {}

  grpc::ServerUnaryReactor* NodePrepareResources(grpc::CallbackServerContext* context,
                                                 const PrepareRequest* request,
                                                 PrepareResponse* response) override {
    return start_call<Prepare>(context, request, response, handler_, gate_);
  }
  grpc::ServerUnaryReactor* NodeUnprepareResources(grpc::CallbackServerContext* context,
                                                   const UnprepareRequest* request,
                                                   UnprepareResponse* response) override {
    return start_call<Unprepare>(context, request, response, handler_, gate_);
  }

 private:
  Handler& handler_;
  CallGate& gate_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_dra_v1(Handler& handler, CallGate& gate) {
  using Service = DraService<wire_v1::DRAPlugin::CallbackService, wire_v1::NodePrepareResourcesRequest,
                             wire_v1::NodePrepareResourcesResponse, wire_v1::NodeUnprepareResourcesRequest,
                             wire_v1::NodeUnprepareResourcesResponse>;
  return std::make_unique<Service>(handler, gate);
}

std::unique_ptr<grpc::Service> make_dra_v1beta1(Handler& handler, CallGate& gate) {
  using Service =
      DraService<wire_v1beta1::DRAPlugin::CallbackService, wire_v1beta1::NodePrepareResourcesRequest,
                 wire_v1beta1::NodePrepareResourcesResponse, wire_v1beta1::NodeUnprepareResourcesRequest,
                 wire_v1beta1::NodeUnprepareResourcesResponse>;
  return std::make_unique<Service>(handler, gate);
}

}  // namespace dracpu::kubelet
