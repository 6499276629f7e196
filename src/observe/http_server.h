// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A small HTTP/1.1 server for metrics, health and pages: one thread, few connections. GET and HEAD, and PUT
// without a body where a route takes it.
//
//   HttpServer server({.bind_address = config.observe.bind_address, .on_bound = …});
//   server.route("/livez", [&](const HttpRequest&) { return health.livez(); });
//   if (Status s = server.start(); !s.ok()) log_error("HTTP endpoint not open", s.error());
//
// Address  ":8080" (all addresses, IPv6 and IPv4), "127.0.0.1:8080", "[::1]:8080", "localhost:8080", or
//          "unix:/path" (the socket gets mode 0600; a dead one in its place is replaced). Port 0 is any port.
// Errors   start() gives kInvalidInput for an address that does not parse: nothing will listen. kUnavailable
//          if it cannot be bound now (in a rolling update the old pod may still hold it): the server is
//          running and tries again until it succeeds, which on_bound reports.
// Limits   Timeouts as release 0.3.0 (header 5 s, write 10 s, idle 120 s; its 10 s for reading are for
// bodies, which we refuse), 64 connections (one more
//          is closed at once), 16 KiB of header, no body. A handler that throws gives 500.
// Threads  route() before start(); handlers run on the server's own thread, so they must not block.
//          stop() and port() from any other thread. The destructor stops.

#ifndef DRACPU_OBSERVE_HTTP_SERVER_H_
#define DRACPU_OBSERVE_HTTP_SERVER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "observe/http_types.h"

namespace dracpu::observe {

struct HttpOptions {
  std::string bind_address;
  std::chrono::milliseconds header_timeout{5000};
  std::chrono::milliseconds write_timeout{10000};
  std::chrono::milliseconds idle_timeout{120000};
  std::chrono::milliseconds bind_retry{3000};
  std::size_t max_connections = 64;
  // On the server's thread: bound at last, after start() had said kUnavailable.
  std::function<void()> on_bound{};
};

class HttpServer {
 public:
  explicit HttpServer(HttpOptions options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void route(std::string path, HttpHandler handler);
  // The same for PUT: a switch, its value in the query.
  void route_put(std::string path, HttpHandler handler);
  Status start();
  // Accepts no more, lets answers under way finish for up to `grace`, then closes. Idempotent.
  void stop(std::chrono::milliseconds grace = std::chrono::seconds(5));
  // The port that is open; 0 while there is none, and for a unix socket.
  std::uint16_t port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dracpu::observe

#endif  // DRACPU_OBSERVE_HTTP_SERVER_H_
