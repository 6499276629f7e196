// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One TCP or TLS connection that carries one HTTP/1.1 exchange after the other.
//
// A read is always outstanding, so that a connection that the server closes while idle is noticed at once.
// No timers and no repeats: the client above has them, and calls close().
// Errors  kUnavailable, or kCorrupt for answers that break HTTP or the size limit.
// Threads The io_context's.

#ifndef DRACPU_KUBE_HTTP_CONNECTION_H_
#define DRACPU_KUBE_HTTP_CONNECTION_H_

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kube/credentials.h"
#include "kube/http_client.h"

namespace dracpu::kube {

class TlsContext;  // certificates and roots, ready for use

// kInvalidInput when a certificate or key cannot be used.
Result<std::shared_ptr<TlsContext>> make_tls_context(const TlsMaterial& material, bool skip_verify);

struct ExchangeEnd {
  Result<Response> result;
  bool answered = false;    // at least one byte of an answer had come
  bool tls_failed = false;  // certificates may have been replaced
};

struct Exchange {
  std::string wire;  // the whole request
  std::size_t max_body = 0;
  std::function<void()> on_open;                  // streams: answer 200 has begun
  std::function<void(std::string_view)> on_data;  // streams: body pieces of an answer 200; empty otherwise
  std::function<void(ExchangeEnd)> on_done;
};

class Connection {
 public:
  virtual ~Connection() = default;
  // `tls` is empty for plain HTTP. `name` is what the certificate must be for.
  static std::shared_ptr<Connection> create(boost::asio::io_context& io, const Endpoint& endpoint,
                                            const std::string& name, std::shared_ptr<TlsContext> tls);

  // Calls back with success or the failure; `true` when TLS was the reason. Not after close().
  virtual void connect(std::function<void(Status, bool tls_failed)> done) = 0;
  // One at a time, after connect. on_done comes once, unless close() comes first.
  virtual void start(Exchange exchange) = 0;
  // False once closed by either side or when an answer left the connection in doubt.
  virtual bool reusable() const = 0;
  // Called when the server ends an idle connection.
  virtual void on_idle_end(std::function<void()> ended) = 0;
  virtual void close() = 0;
};

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_HTTP_CONNECTION_H_
