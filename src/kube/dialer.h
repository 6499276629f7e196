// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Opens connections to the API server with the current certificates, and writes request heads with the
// current token.
//
// Rotation  epoch() grows when the certificates in use were replaced: connections of an older epoch should
//           not be used for further requests. Broken new files leave the old certificates in use.
// Errors    kUnavailable, with host and step; kInvalidInput for unusable certificates.
// Threads   The io_context's. Counters may be read by any.

#ifndef DRACPU_KUBE_DIALER_H_
#define DRACPU_KUBE_DIALER_H_

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kube/credentials.h"
#include "kube/http_client.h"
#include "kube/http_connection.h"

namespace dracpu::kube {

class Dialer {
 public:
  using Opened = std::function<void(Result<std::shared_ptr<Connection>>)>;

  Dialer(boost::asio::io_context& io, ClientConfig config, const ClientOptions& options);

  // Reads the certificates, now or again. Fails only when there are no usable ones at all.
  Status refresh();
  // Calls back once, never from inside. After a failed handshake the certificates are read again, and if
  // they are others now, tried once more.
  void open(Opened done);
  // Head and body as they go over the wire.
  Result<std::string> wire_form(const Request& request);
  // After a 401 or a refused certificate: forget what was read. True if there is a token that may differ.
  bool reload();

  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t opened() const { return opened_.load(); }

 private:
  struct Attempt;
  void connect(const std::shared_ptr<Attempt>& attempt);

  boost::asio::io_context& io_;
  Credentials credentials_;
  std::chrono::milliseconds limit_;
  std::string user_agent_;
  std::string host_header_;
  std::string server_name_;  // expected in the certificate
  std::shared_ptr<TlsContext> tls_;
  TlsMaterial material_;
  std::uint64_t epoch_ = 0;
  std::atomic<std::uint64_t> opened_ = 0;
};

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_DIALER_H_
