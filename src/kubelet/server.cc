// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <exception>
#include <mutex>
#include <utility>

#include "kubelet/call_gate.h"
#include "kubelet/dra_service.h"
#include "kubelet/grpc_pools.h"
#include "kubelet/health_hub.h"
#include "kubelet/health_service.h"
#include "kubelet/options.h"
#include "kubelet/registration_service.h"
#include "kubelet/socket_file.h"
#include "observe/log.h"

namespace dracpu::kubelet {
namespace {

namespace fs = std::filesystem;
using Services = std::vector<std::unique_ptr<grpc::Service>>;

constexpr int kMaxMessage = 4 << 20;  // what Go's gRPC takes at the other end (spec kubelet-dra-wire 1.6)
// After the calls have ended, for clients to close; one that does not answer is cut off.
constexpr std::chrono::milliseconds kGoodbye{50};

Result<std::unique_ptr<grpc::Server>> listen(const SocketFile& file, const Services& services) {
  if (Status s = file.clear_hidden(); !s.ok()) return std::move(s).error();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("unix:" + file.hidden_path().string(), grpc::InsecureServerCredentials(), &port);
  for (const auto& service : services) builder.RegisterService(service.get());
  builder.SetMaxReceiveMessageSize(kMaxMessage);
  builder.SetMaxSendMessageSize(kMaxMessage);
  // The kubelet takes a closed connection for a driver that is gone and wipes its slices 30 s later (1.6).
  // So: no limit to age or idleness (the default), no pings of ours that a stopped kubelet would leave
  // unanswered, none of its own counted against it, and no hurry for a client that connects and says nothing.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, INT_MAX);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server != nullptr && port != 0) return server;
  return make_error(Errc::kUnavailable, "cannot listen on \"{}\"", file.hidden_path().string());
}

Status make_folders(const Paths& paths) {
  struct stat st {};
  if (::stat(paths.root.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) {
    return make_error(
        Errc::kNotFound,
        "the kubelet root folder \"{}\" is not there: is it the right one, and mounted into the "
        "container at the same path?",
        paths.root.string());
  }
  for (const auto& [path, mode] : std::initializer_list<std::pair<const fs::path&, mode_t>>{
           {paths.plugins, 0750}, {paths.plugin_dir, 0750}, {paths.registry_dir, 0755}}) {
    if (Status s = ensure_folder(path, mode); !s.ok()) return s;
  }
  return ok_status();
}

class ServerImpl final : public Server {
 public:
  ServerImpl(ServerOptions options, Handler& handler)
      : paths_(paths_for(options)),
        hub_(options.health_resend, options.health_lease),
        dra_file_(paths_.dra_socket, paths_.hidden_dra_name),
        registration_file_(paths_.registration_socket, paths_.hidden_registration_name) {
    registration_services_.push_back(make_registration(
        handler, options.driver_name, paths_.dra_socket.string(), supported_services(options)));
    dra_services_.push_back(make_dra_v1(handler, gate_));
    dra_services_.push_back(make_dra_v1beta1(handler, gate_));
    if (!options.health) return;
    dra_services_.push_back(make_health_v1(hub_));
    dra_services_.push_back(make_health_v1alpha1(hub_));
  }

  ~ServerImpl() override { stop(std::chrono::milliseconds(2000)); }

  // A kubelet may call milliseconds after the registration socket appears: it comes last.
  Status open() {
    if (Status s = make_folders(paths_); !s.ok()) return s;
    if (Status s = open_one(dra_file_, dra_services_, dra_server_); !s.ok()) return s;
    if (Status s = open_one(registration_file_, registration_services_, registration_server_); !s.ok())
      return s;
    observe::log_info(
        0, "Listening for the kubelet",
        {{"registration", paths_.registration_socket.string()}, {"dra", paths_.dra_socket.string()}});
    return ok_status();
  }

  void stop(std::chrono::milliseconds grace) override {
    std::call_once(stopped_, [this, grace] { close(grace); });
  }

  void set_health(std::vector<DeviceHealth> devices) override { hub_.set(std::move(devices)); }

  bool sockets_replaced() const override {
    const bool ours = dra_file_.still_ours() && registration_file_.still_ours();
    return !ours && !stopping_;  // in this order: stop() removes them after it has said so
  }

 private:
  static Status open_one(SocketFile& file, const Services& services, std::unique_ptr<grpc::Server>& server) {
    Result<std::unique_ptr<grpc::Server>> listening = listen(file, services);
    if (!listening.ok()) return std::move(listening).error();
    server = *std::move(listening);
    return file.publish();
  }

  static void shut_down(const std::unique_ptr<grpc::Server>& server) {
    if (server != nullptr) server->Shutdown(std::chrono::system_clock::now() + kGoodbye);
  }

  void close(std::chrono::milliseconds grace) {
    const Deadline deadline = Deadline::after(std::max(grace, std::chrono::milliseconds::zero()));
    stopping_ = true;
    registration_file_.remove();
    shut_down(registration_server_);
    gate_.close();
    hub_.close();
    if (const std::size_t left = gate_.drain(deadline); left != 0) {
      observe::log_warning("Calls of the kubelet are cut off", {{"calls", left}});
    }
    shut_down(dra_server_);
    dra_file_.remove();
  }

  // The services and what they use outlive the servers, which are ended before by stop().
  const Paths paths_;
  CallGate gate_;
  HealthHub hub_;
  Services dra_services_;
  Services registration_services_;
  SocketFile dra_file_;
  SocketFile registration_file_;
  std::unique_ptr<grpc::Server> dra_server_;
  std::unique_ptr<grpc::Server> registration_server_;
  std::atomic<bool> stopping_ = false;
  std::once_flag stopped_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Handler& handler) {
  if (Status s = check_options(options); !s.ok()) return std::move(s).error();
  try {
    (void)limit_grpc_pools();
    auto server = std::make_unique<ServerImpl>(std::move(options), handler);
    if (Status s = server->open(); !s.ok())
      return std::move(s).error().while_doing("opening the kubelet's sockets");
    return std::unique_ptr<Server>(std::move(server));
  } catch (const std::exception& e) {  // no thread, no memory
    return make_error(Errc::kUnavailable, "opening the kubelet's sockets: {}", e.what());
  }
}

}  // namespace dracpu::kubelet
