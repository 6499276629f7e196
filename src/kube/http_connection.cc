// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The only file that knows Beast and OpenSSL.

#include "kube/http_connection.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <vector>

#include "base/strings.h"

namespace dracpu::kube {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

class TlsContext {
 public:
  asio::ssl::context ssl{asio::ssl::context::tls_client};
  bool skip_verify = false;
};

Result<std::shared_ptr<TlsContext>> make_tls_context(const TlsMaterial& material, bool skip_verify) {
  auto out = std::make_shared<TlsContext>();
  out->skip_verify = skip_verify;
  asio::ssl::context& ssl = out->ssl;
  error_code ec;
  const auto fail = [&](std::string_view what) {
    return make_error(Errc::kInvalidInput, "{}: {}", what, ec.message());
  };
  SSL_CTX_set_min_proto_version(ssl.native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_session_cache_mode(ssl.native_handle(), SSL_SESS_CACHE_OFF);
  if (skip_verify) {
    ssl.set_verify_mode(asio::ssl::verify_none, ec);
  } else {
    ssl.set_verify_mode(asio::ssl::verify_peer, ec);
    if (material.ca.empty()) {
      ssl.set_default_verify_paths(ec);
    } else {
      ssl.add_certificate_authority(asio::buffer(material.ca), ec);
    }
    if (ec) return fail("certificate authority");
  }
  if (!material.cert.empty()) {
    ssl.use_certificate_chain(asio::buffer(material.cert), ec);
    if (ec) return fail("client certificate");
    ssl.use_private_key(asio::buffer(material.key), asio::ssl::context::pem, ec);
    if (ec) return fail("client key");
  }
  return out;
}

namespace {

// A dead peer is noticed after 15 + 3·5 s on a silent connection and after 30 s on one with data under way.
void tune(tcp::socket& socket) {
  const int fd = socket.native_handle();
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);  // best effort: a hint to the kernel
  };
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

bool is_tls_error(const error_code& ec) {
  return ec.category() == asio::error::get_ssl_category() || ec == asio::ssl::error::stream_truncated;
}

constexpr std::size_t kReadSize = std::size_t{16} << 10U;
constexpr std::uint32_t kMaxHeader = std::uint32_t{64} << 10U;

class AsioConnection final : public Connection, public std::enable_shared_from_this<AsioConnection> {
 public:
  AsioConnection(asio::io_context& io, Endpoint endpoint, std::string name, std::shared_ptr<TlsContext> tls)
      : endpoint_(std::move(endpoint)),
        name_(std::move(name)),
        context_(std::move(tls)),
        resolver_(io),
        socket_(io) {}

  void connect(std::function<void(Status, bool)> done) override {
    connected_ = std::move(done);
    error_code ec;
    const asio::ip::address address = asio::ip::make_address(endpoint_.host, ec);
    if (!ec) {
      connect_to(std::vector<tcp::endpoint>{{address, endpoint_.port}});
      return;
    }
    resolver_.async_resolve(
        endpoint_.host, std::to_string(endpoint_.port),
        [self = shared_from_this()](const error_code& failed, const tcp::resolver::results_type& found) {
          if (self->closed_) return;
          if (failed) return self->connect_failed("looking up the host", failed, false);
          std::vector<tcp::endpoint> all;
          for (const auto& entry : found) all.push_back(entry.endpoint());
          self->connect_to(all);
        });
  }

  void start(Exchange exchange) override {
    exchange_ = std::move(exchange);
    parser_.emplace();
    parser_->eager(true);
    parser_->header_limit(kMaxHeader);
    if (exchange_->on_data) {
      parser_->body_limit(boost::none);  // pieces are taken out as they come
    } else {
      parser_->body_limit(exchange_->max_body);
    }
    answered_ = false;
    opened_ = false;
    writing_ = true;
    out_ = std::move(exchange_->wire);
    const auto written = [self = shared_from_this()](const error_code& ec, std::size_t) {
      self->writing_ = false;
      // An answer may still be on its way, for instance one that refuses a large body: the reader decides.
      if (ec && !self->closed_) self->broken_ = true;
    };
    if (tls_) {
      asio::async_write(*tls_, asio::buffer(out_), written);
    } else {
      asio::async_write(socket_, asio::buffer(out_), written);
    }
  }

  bool reusable() const override { return !closed_ && !broken_ && !exchange_; }
  void on_idle_end(std::function<void()> ended) override { idle_end_ = std::move(ended); }

  void close() override {
    if (closed_) return;
    closed_ = true;
    resolver_.cancel();
    error_code ignored;
    socket_.close(ignored);
    exchange_.reset();
    connected_ = nullptr;
    idle_end_ = nullptr;
  }

 private:
  void connect_to(const std::vector<tcp::endpoint>& all) {
    asio::async_connect(socket_, all,
                        [self = shared_from_this()](const error_code& ec, const tcp::endpoint&) {
                          if (self->closed_) return;
                          if (ec) return self->connect_failed("connecting", ec, false);
                          tune(self->socket_);
                          if (self->context_) {
                            self->handshake();
                          } else {
                            self->ready();
                          }
                        });
  }

  void handshake() {
    tls_.emplace(socket_, context_->ssl);
    SSL* ssl = tls_->native_handle();
    X509_VERIFY_PARAM* expect = SSL_get0_param(ssl);
    error_code no_address;
    asio::ip::make_address(name_, no_address);
    if (no_address) {
      X509_VERIFY_PARAM_set1_host(expect, name_.c_str(), name_.size());
      // What the macro SSL_set_tlsext_host_name does, without its C cast.
      SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name_.data());
    } else {
      X509_VERIFY_PARAM_set1_ip_asc(expect, name_.c_str());
    }
    constexpr unsigned char kAlpn[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
    SSL_set_alpn_protos(ssl, kAlpn, sizeof kAlpn);
    tls_->async_handshake(asio::ssl::stream_base::client, [self = shared_from_this()](const error_code& ec) {
      if (self->closed_) return;
      if (!ec) return self->ready();
      const long verdict = SSL_get_verify_result(self->tls_->native_handle());
      if (verdict != X509_V_OK && !self->context_->skip_verify) {
        return self->connect_error(
            make_error(Errc::kUnavailable, "TLS with {}:{}: server certificate: {}", self->endpoint_.host,
                       self->endpoint_.port, X509_verify_cert_error_string(verdict)),
            true);
      }
      self->connect_failed("TLS handshake", ec, true);
    });
  }

  void connect_failed(std::string_view step, const error_code& ec, bool tls) {
    connect_error(
        make_error(Errc::kUnavailable, "{} ({}:{}): {}", step, endpoint_.host, endpoint_.port, ec.message()),
        tls);
  }

  void connect_error(Error error, bool tls) {
    const auto done = std::move(connected_);
    close();
    if (done) done(std::move(error), tls);
  }

  void ready() {
    read();
    const auto done = std::move(connected_);
    connected_ = nullptr;
    if (done) done(ok_status(), false);
  }

  void read() {
    const auto got = [self = shared_from_this()](const error_code& ec, std::size_t n) {
      self->on_read(ec, n);
    };
    const auto space = buffer_.prepare(kReadSize);
    if (tls_) {
      tls_->async_read_some(space, got);
    } else {
      socket_.async_read_some(space, got);
    }
  }

  void on_read(const error_code& ec, std::size_t n) {
    if (closed_) return;
    buffer_.commit(n);
    if (!exchange_) {  // idle: an end, or bytes nobody asked for
      const auto ended = std::move(idle_end_);
      close();
      if (ended) ended();
      return;
    }
    if (n > 0) {
      answered_ = true;
      if (!feed()) return;
    }
    if (ec) return on_end(ec);
    read();
  }

  // False when this connection is closed.
  bool feed() {
    error_code ec;
    while (buffer_.size() > 0 && !parser_->is_done()) {
      buffer_.consume(parser_->put(buffer_.data(), ec));
      if (ec == http::error::need_more) break;
      if (ec) {
        finish(ExchangeEnd{make_error(Errc::kCorrupt, "reading the answer: {}", ec.message()), true, false},
               true);
        return false;
      }
    }
    if (exchange_->on_data && parser_->is_header_done() && !deliver()) return false;
    if (!parser_->is_done()) return true;
    const bool drop = !parser_->keep_alive() || buffer_.size() > 0 || writing_ || broken_;
    finish(ExchangeEnd{take_response(), true, false}, drop);
    return !closed_;
  }

  // Hands out what a stream has brought. False when the receiver closed us or the answer is too long.
  bool deliver() {
    std::string& body = parser_->get().body();
    if (parser_->get().result_int() != 200) {
      if (body.size() <= exchange_->max_body) return true;
      finish(ExchangeEnd{make_error(Errc::kCorrupt, "the answer is too long"), true, false}, true);
      return false;
    }
    const std::shared_ptr<AsioConnection> alive = shared_from_this();
    if (!opened_) {
      opened_ = true;
      if (exchange_->on_open) exchange_->on_open();
      if (closed_) return false;
    }
    if (!body.empty()) {
      const std::string piece = std::exchange(body, {});
      const auto on_data = exchange_->on_data;  // the receiver may end the exchange meanwhile
      on_data(piece);
    }
    return !closed_;
  }

  void on_end(const error_code& ec) {
    if (ec == asio::error::eof && answered_) {
      error_code incomplete;
      parser_->put_eof(incomplete);  // an answer without a length ends here
      if (!incomplete && parser_->is_done()) return finish(ExchangeEnd{take_response(), true, false}, true);
    }
    const bool tls = is_tls_error(ec) && ec != asio::ssl::error::stream_truncated;
    const char* when =
        answered_ ? "the connection ended within the answer" : "the connection ended before an answer";
    finish(ExchangeEnd{make_error(Errc::kUnavailable, "{}: {}", when, ec.message()), answered_, tls}, true);
  }

  Response take_response() {
    Response out;
    auto& message = parser_->get();
    out.status = static_cast<int>(message.result_int());
    if (const auto found = message.find(http::field::retry_after); found != message.end()) {
      const std::string_view text(found->value().data(), found->value().size());
      if (const auto wait = parse_number<std::uint32_t>(trim(text)))
        out.retry_after = std::chrono::seconds(*wait);
    }
    out.body = std::move(message.body());
    return out;
  }

  void finish(ExchangeEnd end, bool drop) {
    const auto done = std::move(exchange_->on_done);
    exchange_.reset();
    if (drop) close();
    done(std::move(end));
  }

  Endpoint endpoint_;
  std::string name_;
  std::shared_ptr<TlsContext> context_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  std::optional<asio::ssl::stream<tcp::socket&>> tls_;
  beast::flat_buffer buffer_;
  std::optional<http::response_parser<http::string_body>> parser_;
  std::optional<Exchange> exchange_;
  std::string out_;
  std::function<void(Status, bool)> connected_;
  std::function<void()> idle_end_;
  bool answered_ = false;  // in this exchange
  bool opened_ = false;    // on_open was called
  bool writing_ = false;
  bool broken_ = false;  // a write failed
  bool closed_ = false;
};

}  // namespace

std::shared_ptr<Connection> Connection::create(asio::io_context& io, const Endpoint& endpoint,
                                               const std::string& name, std::shared_ptr<TlsContext> tls) {
  return std::make_shared<AsioConnection>(io, endpoint, name, std::move(tls));
}

}  // namespace dracpu::kube
