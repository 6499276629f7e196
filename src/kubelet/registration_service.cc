// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/registration_service.h"

#include <grpcpp/support/server_callback.h>

#include <exception>

#include "observe/log.h"
#include "pluginregistration.grpc.pb.h"

namespace dracpu::kubelet {
namespace {

namespace wire = ::pluginregistration;

class RegistrationService final : public wire::Registration::CallbackService {
 public:
  RegistrationService(Handler& handler, wire::PluginInfo info) : handler_(handler), info_(std::move(info)) {}

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const wire::InfoRequest* /*request*/,
                                    wire::PluginInfo* response) override {
    *response = info_;
    return finished(context, grpc::Status::OK);
  }

  // OK also for a refusal: the kubelet gives up this attempt either way.
  grpc::ServerUnaryReactor* NotifyRegistrationStatus(
      grpc::CallbackServerContext* context, const wire::RegistrationStatus* request,
      wire::RegistrationStatusResponse* /*response*/) override {
    if (request->plugin_registered()) {
      observe::log_info(0, "Registered with the kubelet", {{"driver", info_.name()}});
    } else {
      observe::log_warning("The kubelet refused the registration",
                           {{"driver", info_.name()}, {"err", request->error()}});
    }
    try {
      handler_.on_registration(request->plugin_registered(), request->error());
    } catch (const std::exception& e) {
      observe::log_error("Handler failed", make_error(Errc::kInternal, "{}", e.what()),
                         {{"call", "on_registration"}});
      return finished(context, grpc::Status(grpc::StatusCode::INTERNAL, "the driver failed"));
    }
    return finished(context, grpc::Status::OK);
  }

 private:
  static grpc::ServerUnaryReactor* finished(grpc::CallbackServerContext* context,
                                            const grpc::Status& status) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }

  Handler& handler_;
  const wire::PluginInfo info_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_registration(Handler& handler, const std::string& driver_name,
                                                 const std::string& endpoint,
                                                 const std::vector<std::string>& services) {
  wire::PluginInfo info;
  info.set_type("DRAPlugin");
  info.set_name(driver_name);
  info.set_endpoint(endpoint);
  info.mutable_supported_versions()->Add(services.begin(), services.end());
  return std::make_unique<RegistrationService>(handler, std::move(info));
}

}  // namespace dracpu::kubelet
