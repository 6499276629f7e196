// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "observe/http_server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "base/bind_address.h"
#include "base/file_id.h"
#include "base/mutex.h"

namespace dracpu::observe {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using Stream = beast::basic_stream<asio::generic::stream_protocol>;

constexpr std::uint32_t kHeaderLimit = 16384;
constexpr std::size_t kBufferLimit = std::size_t{2} * kHeaderLimit;
constexpr std::chrono::milliseconds kGoodbye{1000};
constexpr std::chrono::milliseconds kAcceptPause{100};  // when descriptors have run out

using Routes = std::map<std::string, HttpHandler, std::less<>>;

HttpResponse text_response(int status, std::string body) { return {status, std::move(body)}; }

// The path itself is not repeated: what a stranger sends does not come back.
HttpResponse not_found(const Routes& routes) {
  std::string body = "no page at this path; there are:\n";
  for (const auto& [known, handler] : routes) body += known + "\n";
  return text_response(404, std::move(body));
}

// The absolute form, "http://host/path?query", means the same here as the origin form (RFC 9112, 3.2.2).
std::string_view origin_form(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  const bool is_absolute =
      target.size() > kScheme.size() && beast::iequals({target.data(), kScheme.size()}, kScheme);
  if (!is_absolute) return target;
  const std::size_t at = target.find_first_of("/?", kScheme.size());
  return at == std::string_view::npos ? std::string_view("/") : target.substr(at);
}

HttpResponse answer(const Routes& routes, const HttpRequest& request) {
  const auto it = routes.find(request.path);
  if (it == routes.end()) return not_found(routes);
  try {
    return it->second(request);
  } catch (const std::exception& e) {
    return text_response(500, std::string("fault while answering: ") + e.what() + "\n");
  }
}

}  // namespace

// Everything but start(), stop() and port() runs on the one thread.
class HttpServer::Impl {
 public:
  explicit Impl(HttpOptions options) : options_(std::move(options)), timer_(io_) {}

  void route(std::string path, HttpHandler handler) {
    routes_.insert_or_assign(std::move(path), std::move(handler));
  }

  void route_put(std::string path, HttpHandler handler) {
    puts_.insert_or_assign(std::move(path), std::move(handler));
  }

  Status start();
  void stop(std::chrono::milliseconds grace);
  std::uint16_t port() const { return port_.load(); }

 private:
  class Session;

  Status bind();
  Status bind_tcp();
  Status bind_unix();
  void remove_socket_file();
  void serve();
  template <typename Acceptor>
  void accept(Acceptor& acceptor);
  void admit(asio::generic::stream_protocol::socket socket);
  void retry_bind();
  void run();
  void shut();

  HttpOptions options_;
  BindAddress address_;
  Routes routes_;
  Routes puts_;
  // They own themselves through their pending operations; outlives io_, whose end ends them.
  std::set<Session*> sessions_;
  asio::io_context io_{1};
  asio::steady_timer timer_;
  std::optional<asio::ip::tcp::acceptor> tcp_;
  std::optional<asio::local::stream_protocol::acceptor> unix_;
  FileId socket_file_;  // as we made it
  bool stopping_ = false;
  std::atomic<std::uint16_t> port_{0};
  std::jthread thread_;
  Mutex mutex_;
  Condition finished_;
  bool done_ DRACPU_GUARDED_BY(mutex_) = false;
};

class HttpServer::Impl::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Impl& server, asio::generic::stream_protocol::socket socket)
      : server_(server), stream_(std::move(socket)) {
    server_.sessions_.insert(this);
  }
  ~Session() { server_.sessions_.erase(this); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A fresh connection has the header's time for its first byte; a kept one waits longer between requests.
  void begin() { read_header(); }

  void stop_reading() {
    if (!writing_) close();
  }

 private:
  void close() {
    error_code ignored;
    stream_.socket().shutdown(asio::socket_base::shutdown_both, ignored);
    stream_.close();
  }

  // Closing while bytes wait unread would send a reset, which can overtake the answer; so the rest is read
  // and thrown away for a moment.
  void say_goodbye() {
    error_code ignored;
    stream_.socket().shutdown(asio::socket_base::shutdown_send, ignored);
    stream_.expires_after(kGoodbye);
    drain(kBufferLimit);
  }

  void drain(std::size_t most) {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(4096),
                            [self = shared_from_this(), most](const error_code& ec, std::size_t n) {
                              if (ec || n >= most) return;
                              self->drain(most - n);
                            });
  }

  void wait_for_next() {
    if (buffer_.size() != 0) return read_header();
    stream_.expires_after(server_.options_.idle_timeout);
    stream_.async_read_some(buffer_.prepare(4096),
                            [self = shared_from_this()](const error_code& ec, std::size_t n) {
                              if (ec) return;
                              self->buffer_.commit(n);
                              self->read_header();
                            });
  }

  void read_header() {
    parser_.emplace();
    parser_->header_limit(kHeaderLimit);
    parser_->body_limit(boost::none);  // bodies are refused by handle(), after the method
    stream_.expires_after(server_.options_.header_timeout);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](const error_code& ec, std::size_t) { self->handle(ec); });
  }

  void handle(const error_code& ec) {
    if (ec == http::error::header_limit || ec == http::error::buffer_overflow) {
      return write(text_response(431, "request header over 16 KiB\n"), false);
    }
    if (ec && ec.category() == http::make_error_code(http::error::bad_method).category() &&
        ec != http::error::end_of_stream && ec != http::error::partial_message) {
      return write(text_response(400, "malformed request\n"), false);
    }
    if (ec) return;  // closed by the peer, or out of time
    const auto& message = parser_->get();
    const std::string_view target = origin_form({message.target().data(), message.target().size()});
    head_ = message.method() == http::verb::head;
    const std::size_t mark = target.find('?');
    const bool is_put = message.method() == http::verb::put && server_.puts_.contains(target.substr(0, mark));
    if (message.method() != http::verb::get && !head_ && !is_put) {
      return write(text_response(405, "only GET and HEAD are answered here\n"), false);
    }
    if (!parser_->is_done()) return write(text_response(413, "no body is taken here\n"), false);
    HttpRequest request;
    request.method = head_ ? "HEAD" : is_put ? "PUT" : "GET";
    request.path = mark == 0 ? "/" : target.substr(0, mark);
    if (mark != std::string_view::npos) request.query = target.substr(mark + 1);
    const auto accept = message[http::field::accept];
    request.accept.assign(accept.data(), accept.size());
    write(answer(is_put ? server_.puts_ : server_.routes_, request), message.keep_alive());
  }

  void write(HttpResponse response, bool keep_alive) {
    const bool keep = keep_alive && !server_.stopping_;
    response_.emplace();
    response_->result(static_cast<unsigned>(response.status));
    response_->set(http::field::content_type, response.content_type);
    response_->set(http::field::cache_control, "no-store");
    response_->set("X-Content-Type-Options", "nosniff");
    if (response.status == 405) response_->set(http::field::allow, "GET, HEAD");
    response_->keep_alive(keep);
    response_->body() = std::move(response.body);
    response_->prepare_payload();
    if (std::exchange(head_, false)) response_->body().clear();  // the length stays in the header
    writing_ = true;
    stream_.expires_after(server_.options_.write_timeout);
    http::async_write(stream_, *response_,
                      [self = shared_from_this(), keep](const error_code& ec, std::size_t) {
                        self->writing_ = false;
                        if (ec) return;
                        if (self->server_.stopping_) return self->close();
                        if (!keep) return self->say_goodbye();
                        self->wait_for_next();
                      });
  }

  Impl& server_;
  Stream stream_;
  beast::flat_buffer buffer_{kBufferLimit};
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
  bool head_ = false;
  bool writing_ = false;
};

Status HttpServer::Impl::bind() { return address_.unix_path.empty() ? bind_tcp() : bind_unix(); }

Status HttpServer::Impl::bind_tcp() {
  using asio::ip::tcp;
  error_code ec;
  const auto try_bind = [&](const asio::ip::address& ip) {
    tcp::acceptor acceptor(io_);
    acceptor.open(ip.is_v6() ? tcp::v6() : tcp::v4(), ec);
    if (!ec && ip.is_v6() && ip.is_unspecified()) acceptor.set_option(asio::ip::v6_only(false), ec);
    if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
    if (!ec) acceptor.bind(tcp::endpoint(ip, address_.port), ec);
    if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
    if (!ec) tcp_.emplace(std::move(acceptor));
  };
  if (address_.host.empty()) {
    try_bind(asio::ip::address_v6::any());
    if (ec == asio::error::address_family_not_supported || ec.value() == EADDRNOTAVAIL) {
      try_bind(asio::ip::address_v4::any());  // a node without IPv6
    }
  } else {
    const asio::ip::address ip = asio::ip::make_address(address_.host, ec);
    if (!ec) try_bind(ip);
  }
  if (ec) return make_error(Errc::kUnavailable, "listen on \"{}\": {}", options_.bind_address, ec.message());
  error_code ignored;
  port_.store(tcp_->local_endpoint(ignored).port());
  return ok_status();
}

// Unless somebody has put another one there.
void HttpServer::Impl::remove_socket_file() {
  const FileId ours = std::exchange(socket_file_, {});
  struct stat st {};
  if (::lstat(address_.unix_path.c_str(), &st) == 0 && FileId(st) == ours)
    ::unlink(address_.unix_path.c_str());
}

Status HttpServer::Impl::bind_unix() {
  using asio::local::stream_protocol;
  const stream_protocol::endpoint at(address_.unix_path);
  error_code ec;
  stream_protocol::acceptor acceptor(io_);
  acceptor.open(stream_protocol(), ec);
  if (!ec) acceptor.bind(at, ec);
  if (ec == asio::error::address_in_use) {
    std::error_code unknown;
    const auto there = std::filesystem::symlink_status(address_.unix_path, unknown);
    if (there.type() != std::filesystem::file_type::socket) {  // somebody's file: not ours to remove
      return make_error(Errc::kUnavailable,
                        "listen on \"{}\": there is a file at that path that is no socket; take it away or "
                        "choose another path",
                        options_.bind_address);
    }
    error_code probe;
    stream_protocol::socket(io_).connect(at, probe);
    if (probe == asio::error::connection_refused) {  // left by a process that is gone
      std::error_code removed;
      std::filesystem::remove(address_.unix_path, removed);
      ec = {};
      acceptor.bind(at, ec);
    }
  }
  struct stat made {};
  if (!ec && (::chmod(address_.unix_path.c_str(), S_IRUSR | S_IWUSR) != 0 ||
              ::lstat(address_.unix_path.c_str(), &made) != 0)) {
    ec = error_code(errno, boost::system::system_category());
  }
  socket_file_ = FileId(made);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return make_error(Errc::kUnavailable, "listen on \"{}\": {}", options_.bind_address, ec.message());
  unix_.emplace(std::move(acceptor));
  return ok_status();
}

void HttpServer::Impl::serve() {
  if (tcp_) accept(*tcp_);
  if (unix_) accept(*unix_);
}

template <typename Acceptor>
void HttpServer::Impl::accept(Acceptor& acceptor) {
  acceptor.async_accept(
      [this, &acceptor](const error_code& ec, typename Acceptor::protocol_type::socket socket) {
        if (stopping_) return;
        if (ec) {
          timer_.expires_after(kAcceptPause);
          timer_.async_wait([this, &acceptor](const error_code& cancelled) {
            if (!cancelled && !stopping_) accept(acceptor);
          });
          return;
        }
        admit(asio::generic::stream_protocol::socket(std::move(socket)));
        accept(acceptor);
      });
}

void HttpServer::Impl::admit(asio::generic::stream_protocol::socket socket) {
  if (sessions_.size() >= options_.max_connections) return;
  std::make_shared<Session>(*this, std::move(socket))->begin();
}

void HttpServer::Impl::retry_bind() {
  timer_.expires_after(options_.bind_retry);
  timer_.async_wait([this](const error_code& cancelled) {
    if (cancelled || stopping_) return;
    if (!bind().ok()) return retry_bind();
    serve();
    if (options_.on_bound) options_.on_bound();
  });
}

void HttpServer::Impl::run() {
  for (;;) {
    try {
      io_.run();
      break;
    } catch (const std::exception&) {  // out of memory in one session; the others go on
    }
  }
  const Locked lock(mutex_);
  done_ = true;
  finished_.notify_all();
}

Status HttpServer::Impl::start() {
  Result<BindAddress> address = parse_bind_address(options_.bind_address);
  if (!address) return std::move(address).error();
  address_ = *std::move(address);
  Status bound = bind();
  if (bound.ok()) {
    serve();
  } else {
    retry_bind();
  }
  thread_ = std::jthread([this] { run(); });
  return bound;
}

void HttpServer::Impl::shut() {
  stopping_ = true;
  timer_.cancel();
  error_code ignored;
  if (tcp_) tcp_->close(ignored);
  if (unix_) {
    remove_socket_file();  // while it listens: nobody takes it for a dead one and puts his own there
    unix_->close(ignored);
  }
  // close() may drop the last owner of a session, which then leaves sessions_.
  const std::set<Session*> present = sessions_;
  for (Session* session : present) {
    if (sessions_.contains(session)) session->stop_reading();
  }
}

void HttpServer::Impl::stop(std::chrono::milliseconds grace) {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] { shut(); });
  {
    const auto until = std::chrono::steady_clock::now() + grace;
    const Locked lock(mutex_);
    while (!done_ && finished_.wait_until(mutex_, until)) {
    }
  }
  io_.stop();
  thread_.join();
  port_.store(0);
  if (unix_) remove_socket_file();  // shut() may not have had its turn
}

HttpServer::HttpServer(HttpOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpServer::~HttpServer() { impl_->stop(std::chrono::milliseconds(0)); }
void HttpServer::route(std::string path, HttpHandler handler) {
  impl_->route(std::move(path), std::move(handler));
}
void HttpServer::route_put(std::string path, HttpHandler handler) {
  impl_->route_put(std::move(path), std::move(handler));
}
Status HttpServer::start() { return impl_->start(); }
void HttpServer::stop(std::chrono::milliseconds grace) { impl_->stop(grace); }
std::uint16_t HttpServer::port() const { return impl_->port(); }

}  // namespace dracpu::observe
