// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/dialer.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

namespace dracpu::kube {

namespace asio = boost::asio;

struct Dialer::Attempt {
  Attempt(asio::io_context& io, Opened d) : timer(io), done(std::move(d)) {}
  asio::steady_timer timer;
  Opened done;  // empty once called
  std::shared_ptr<Connection> connection;
  bool retried = false;

  void finish(Result<std::shared_ptr<Connection>> result) {
    const Opened call = std::exchange(done, nullptr);
    timer.cancel();
    connection.reset();
    if (call) call(std::move(result));
  }
};

Dialer::Dialer(asio::io_context& io, ClientConfig config, const ClientOptions& options)
    : io_(io),
      credentials_(std::move(config)),
      limit_(options.connect_limit),
      user_agent_(options.user_agent.empty() ? "dracpu/" DRACPU_VERSION : options.user_agent) {
  const Endpoint& e = credentials_.config().endpoint;
  const std::string& name = credentials_.config().tls_server_name;
  const std::string host = e.host.find(':') == std::string::npos ? e.host : "[" + e.host + "]";
  host_header_ = e.port == (e.tls ? 443 : 80) ? host : fmt::format("{}:{}", host, e.port);
  server_name_ = name.empty() ? e.host : name;
}

Status Dialer::refresh() {
  if (!credentials_.config().endpoint.tls) return ok_status();
  Result<TlsMaterial> material = credentials_.tls();
  if (!material.ok()) return tls_ ? ok_status() : Status(std::move(material).error());
  if (tls_ && *material == material_) return ok_status();
  Result<std::shared_ptr<TlsContext>> made = make_tls_context(*material, credentials_.config().skip_verify);
  if (!made.ok()) return tls_ ? ok_status() : Status(std::move(made).error().while_doing("preparing TLS"));
  tls_ = *std::move(made);
  material_ = *std::move(material);
  ++epoch_;
  return ok_status();
}

bool Dialer::reload() {
  credentials_.reload();
  return credentials_.config().token.given();
}

void Dialer::open(Opened done) {
  auto attempt = std::make_shared<Attempt>(io_, std::move(done));
  attempt->timer.expires_after(limit_);
  attempt->timer.async_wait([this, attempt](const boost::system::error_code& ec) {
    if (ec || !attempt->done) return;
    if (attempt->connection) attempt->connection->close();
    attempt->finish(make_error(Errc::kUnavailable, "connecting to {} took longer than {} ms", host_header_,
                               limit_.count()));
  });
  asio::post(io_, [this, attempt] { connect(attempt); });
}

void Dialer::connect(const std::shared_ptr<Attempt>& attempt) {
  if (!attempt->done) return;
  if (Status status = refresh(); !status.ok()) return attempt->finish(std::move(status).error());
  ++opened_;
  attempt->connection = Connection::create(io_, credentials_.config().endpoint, server_name_, tls_);
  attempt->connection->connect([this, attempt](Status status, bool tls_failed) {
    if (!attempt->done) return;
    if (status.ok()) return attempt->finish(attempt->connection);
    if (tls_failed && !attempt->retried) {
      attempt->retried = true;
      const std::uint64_t before = epoch_;
      reload();
      if (refresh().ok() && epoch_ != before) return connect(attempt);
    }
    attempt->finish(std::move(status).error());
  });
}

Result<std::string> Dialer::wire_form(const Request& request) {
  Result<std::string> token = credentials_.token();
  if (!token.ok()) return std::move(token).error();
  std::string out =
      fmt::format("{} {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: {}\r\nAccept: application/json\r\n",
                  name_of(request.method), credentials_.config().endpoint.path_prefix, request.path,
                  host_header_, user_agent_);
  if (!token->empty()) out += fmt::format("Authorization: Bearer {}\r\n", *token);
  if (!request.body.empty()) {
    out += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", request.body.size());
  }
  return out + "\r\n" + request.body;
}

}  // namespace dracpu::kube
