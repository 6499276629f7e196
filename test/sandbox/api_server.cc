// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The only file of the sandbox that knows Asio and Beast.

#include "api_server.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
#include <list>
#include <mutex>
#include <set>
#include <thread>

#include "base/strings.h"

namespace dracpu::sandbox {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Request = http::request<http::string_body>;

constexpr std::uint64_t kMaxBody = 3U << 20U;  // what a real server takes
constexpr std::chrono::milliseconds kWatchTick{100};

class Server final : public ApiServer {
 public:
  explicit Server(ServerProfile profile) : store_(profile), token_(random_hex(16)) {}
  ~Server() override { stop(); }

  Status take_port(std::uint16_t port) {
    error_code ec;
    const tcp::endpoint address(asio::ip::address_v4::loopback(), port);
    acceptor_.open(address.protocol(), ec);
    if (!ec) acceptor_.set_option(asio::socket_base::reuse_address(true), ec);
    if (!ec) acceptor_.bind(address, ec);
    if (!ec) port_ = acceptor_.local_endpoint(ec).port();
    if (ec) return make_error(Errc::kUnavailable, "bind 127.0.0.1:{}: {}", port, ec.message());
    return ok_status();
  }

  Status start() override {
    error_code ec;
    acceptor_.listen(asio::socket_base::max_listen_connections, ec);
    if (ec) return make_error(Errc::kUnavailable, "listen: {}", ec.message());
    up_ = true;
    accepting_ = std::thread([this] { accept_all(); });
    return ok_status();
  }

  void stop() override {
    if (!up_.exchange(false)) return;
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    accepting_.join();
    error_code ec;
    acceptor_.close(ec);
    cut_connections();
    store_.interrupt();
    for (std::thread& t : serving_) t.join();
    serving_.clear();
    (void)take_port(port_);
  }

  std::uint16_t port() const override { return port_; }
  ApiStore& store() override { return store_; }

  std::string kubeconfig(const std::string& who) const override {
    return fmt::format(
        "apiVersion: v1\nkind: Config\ncurrent-context: sandbox\n"
        "clusters: [{{name: sandbox, cluster: {{server: \"http://127.0.0.1:{}\"}}}}]\n"
        "users: [{{name: driver, user: {{token: \"{}.{}\"}}}}]\n"
        "contexts: [{{name: sandbox, context: {{cluster: sandbox, user: driver}}}}]\n",
        port_, token_, who);
  }

  void inject(Fault fault) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    faults_.push_back(std::move(fault));
  }
  void clear_faults() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    faults_.clear();
  }
  void cut_connections() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  std::vector<SeenRequest> requests() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return seen_;
  }
  void on_request(std::function<void(const SeenRequest&)> call) override { on_request_ = std::move(call); }
  void set_bookmark_interval(std::chrono::milliseconds interval) override { bookmark_interval_ = interval; }

 private:
  void accept_all() {
    while (up_) {
      error_code ec;
      tcp::socket socket(io_);
      acceptor_.accept(socket, ec);
      if (ec) continue;  // shut down, or the peer gave up already
      const std::lock_guard<std::mutex> lock(mutex_);
      open_.insert(socket.native_handle());
      serving_.emplace_back([this, s = std::move(socket)]() mutable { serve(s); });
    }
  }

  void serve(tcp::socket& socket) {
    error_code ec;
    socket.set_option(tcp::no_delay(true), ec);
    boost::beast::flat_buffer buffer;
    while (up_) {
      http::request_parser<http::string_body> parser;
      parser.body_limit(kMaxBody);
      http::read(socket, buffer, parser, ec);
      if (ec) break;
      if (!answer(socket, parser.release())) break;
    }
    // Out of the set before the descriptor can be used by another connection.
    const std::lock_guard<std::mutex> lock(mutex_);
    open_.erase(socket.native_handle());
    socket.close(ec);
  }

  Fault take_fault(const Request& request) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = faults_.begin(); it != faults_.end(); ++it) {
      if (!it->method.empty() && it->method != request.method_string()) continue;
      if (!request.target().starts_with(it->path)) continue;
      const Fault found = *it;
      if (it->times > 0 && --it->times == 0) faults_.erase(it);
      return found;
    }
    return {};
  }

  // Whose token it is, or nothing.
  std::string who(const Request& request) const {
    const std::string_view given(request[http::field::authorization]);
    const std::string wanted = "Bearer " + token_ + ".";
    return given.starts_with(wanted) ? std::string(given.substr(wanted.size())) : std::string();
  }

  void note(const Request& request, unsigned status) {
    const SeenRequest seen{who(request), std::string(request.method_string()), std::string(request.target()),
                           status, Clock::now()};
    if (on_request_) on_request_(seen);
    const std::lock_guard<std::mutex> lock(mutex_);
    seen_.push_back(seen);
  }

  // False: the connection ends.
  bool answer(tcp::socket& socket, const Request& request) {
    const Fault fault = take_fault(request);
    for (const auto until = Clock::now() + fault.delay; up_ && Clock::now() < until;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (fault.cut) {
      note(request, 0);
      return false;
    }
    ApiReply reply;
    const Caller caller = who(request).empty() ? Caller::kNobody : Caller::kDriver;
    if (fault.status != 0) {
      reply = api_error(fault.status, fault.status == 429 ? "TooManyRequests" : "InternalError",
                        "injected fault");
    } else if (parse_target(request.target()).query.contains("watch")) {
      ApiStore::WatchStart start = store_.watch(caller, request.target());
      if (start.watch) {
        note(request, 200);
        return stream(socket, request, *start.watch);
      }
      reply = std::move(start.refusal);
    } else {
      reply = store_.handle(caller, request.method_string(), request.target(), request.body());
    }
    note(request, reply.status);
    http::response<http::string_body> response(static_cast<http::status>(reply.status), request.version());
    response.set(http::field::content_type, "application/json");
    if (!reply.warning.empty()) response.set(http::field::warning, reply.warning);
    if (fault.retry_after != 0) response.set(http::field::retry_after, std::to_string(fault.retry_after));
    response.keep_alive(request.keep_alive());
    response.body() = std::move(reply.body);
    response.prepare_payload();
    error_code ec;
    http::write(socket, response, ec);
    return !ec && response.keep_alive();
  }

  // A watch lives until its own time-out, the end of its history, or the end of the connection.
  bool stream(tcp::socket& socket, const Request& request, ApiStore::Watch watch) {
    http::response<http::empty_body> header(http::status::ok, request.version());
    header.set(http::field::content_type, "application/json");
    header.chunked(true);
    http::response_serializer<http::empty_body> serializer(header);
    error_code ec;
    http::write_header(socket, serializer, ec);
    const auto query = parse_target(request.target()).query;
    const auto limit = query.find("timeoutSeconds");
    const auto seconds = limit == query.end() ? 1800 : parse_number<int>(limit->second).value_or(1800);
    const auto until = Clock::now() + std::chrono::seconds(seconds);
    auto last = Clock::now();
    while (!ec && up_ && Clock::now() < until && !peer_left(socket)) {
      ApiStore::Events events = store_.next(watch, kWatchTick);
      if (events.lines.empty() && watch.bookmarks && Clock::now() - last >= bookmark_interval_.load()) {
        events.lines = store_.bookmark(watch);
      }
      if (!events.lines.empty()) {
        last = Clock::now();
        asio::write(socket, http::make_chunk(asio::buffer(events.lines)), ec);
      }
      if (events.ended) break;
    }
    if (!ec) asio::write(socket, http::make_chunk_last(), ec);
    return !ec && up_;
  }

  static bool peer_left(tcp::socket& socket) {
    char byte = 0;
    const ssize_t n = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
  }

  ApiStore store_;
  const std::string token_;
  std::uint16_t port_ = 0;
  asio::io_context io_;
  tcp::acceptor acceptor_{io_};
  std::atomic<bool> up_ = false;
  std::atomic<std::chrono::milliseconds> bookmark_interval_{std::chrono::milliseconds(60'000)};
  std::thread accepting_;
  mutable std::mutex mutex_;
  std::list<std::thread> serving_;  // finished ones stay until stop(): a sandbox lives for minutes
  std::set<int> open_;
  std::list<Fault> faults_;
  std::vector<SeenRequest> seen_;
  std::function<void(const SeenRequest&)> on_request_;
};

}  // namespace

Result<std::unique_ptr<ApiServer>> ApiServer::create(ServerProfile profile) {
  auto server = std::make_unique<Server>(profile);
  if (Status s = server->take_port(0); !s.ok()) return std::move(s).error();
  return std::unique_ptr<ApiServer>(std::move(server));
}

}  // namespace dracpu::sandbox
