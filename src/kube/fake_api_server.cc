// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/fake_api_server.h"

#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/strings.h"

namespace dracpu::kube {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace json = boost::json;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

const std::string kSlices = "/apis/resource.k8s.io/v1/resourceslices";

struct Answer {
  int status = 200;
  std::string body;
};

Answer status_answer(int code, const std::string& reason, const std::string& message) {
  return {code, json::serialize(json::object{
                    {"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message}})};
}

std::string version_of(const json::object& slice) {
  return slice.at("metadata").at("resourceVersion").get_string().c_str();
}

struct Stream {
  std::deque<std::string> chunks;
  bool end = false;
  bool cut = false;
};

}  // namespace

class FakeApiServer::Impl {
 public:
  Impl() { start(); }
  ~Impl() { stop(); }

  void start() {
    acceptor_.emplace(io_);
    acceptor_->open(tcp::v4());
    acceptor_->set_option(tcp::acceptor::reuse_address(true));
    acceptor_->bind(tcp::endpoint(asio::ip::address_v4::loopback(), port_));
    acceptor_->listen();
    port_ = acceptor_->local_endpoint().port();
    stopping_ = false;
    accepter_ = std::thread([this] { accept(); });
  }

  void stop() {
    if (!accepter_.joinable()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      ::shutdown(acceptor_->native_handle(), SHUT_RDWR);
      for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
      changed_.notify_all();
    }
    accepter_.join();
    for (std::thread& t : workers_) t.join();
    workers_.clear();
    acceptor_.reset();
  }

  void accept() {
    for (;;) {
      tcp::socket socket(io_);
      error_code ec;
      acceptor_->accept(socket, ec);
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_ || ec) return;
      open_.insert(socket.native_handle());
      workers_.emplace_back(
          [this, id = ++connections_, s = std::move(socket)]() mutable { serve(std::move(s), id); });
    }
  }

  void serve(tcp::socket socket, std::size_t id) {
    boost::beast::flat_buffer buffer;
    for (bool go_on = true; go_on;) {
      http::request<http::string_body> request;
      error_code ec;
      http::read(socket, buffer, request, ec);
      if (ec) break;
      go_on = handle(socket, request, id);
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    open_.erase(socket.native_handle());
    error_code ignored;
    socket.close(ignored);
  }

  // False: the connection is to be closed.
  bool handle(tcp::socket& socket, const http::request<http::string_body>& request, std::size_t id) {
    Seen seen{std::string(request.method_string()),
              std::string(request.target()),
              request.body(),
              std::string(request[http::field::authorization]),
              std::string(request[http::field::user_agent]),
              id,
              std::chrono::steady_clock::now()};
    Hook hook;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      seen_.push_back(seen);
      hook = hook_;
    }
    const Fault fault = hook ? hook(seen).value_or(Fault{}) : Fault{};
    std::this_thread::sleep_for(fault.delay);
    const bool watch = seen.target.find("watch=1") != std::string::npos;
    if (watch && fault.status == 0 && !fault.cut_before) return stream(socket, seen.target);
    Answer answer;
    if (fault.status == 0 || fault.carry_out) answer = carry_out(seen);
    if (fault.status != 0) answer = {fault.status, fault.body};
    if (fault.cut_before) return false;
    std::string out =
        fmt::format("HTTP/1.1 {} X\r\nContent-Type: application/json\r\n{}Content-Length: {}\r\n\r\n{}",
                    answer.status, fault.headers, answer.body.size(), answer.body);
    if (fault.cut_within) out.resize(out.size() - answer.body.size() / 2 - 1);
    error_code ec;
    asio::write(socket, asio::buffer(out), ec);
    return !ec && !fault.cut_within;
  }

  // Everything below with the lock held.

  Answer carry_out(const Seen& seen) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::string path = seen.target.substr(0, seen.target.find('?'));
    if (path == "/version") return {200, fmt::format(R"({{"major":"1","minor":"{}"}})", minor_)};
    if (path.starts_with("/api/v1/nodes/")) {
      const auto found = nodes_.find(path.substr(14));
      if (found == nodes_.end() || found->second.empty())
        return status_answer(404, "NotFound", "no such node");
      return {200, fmt::format(R"({{"kind":"Node","metadata":{{"uid":"{}"}}}})", found->second)};
    }
    if (path == kSlices && seen.method == "GET") return list();
    if (path == kSlices && seen.method == "POST") return create(json::parse(seen.body).get_object());
    if (path.starts_with(kSlices + "/")) return one_slice(seen, path.substr(kSlices.size() + 1));
    const auto claim = claims_.find(path);
    if (claim != claims_.end()) return {200, claim->second};
    return status_answer(404, "NotFound", "the server could not find the requested resource");
  }

  Answer list() const {
    json::array items;
    for (const auto& [name, slice] : slices_) items.push_back(slice);
    return {200, json::serialize(json::object{{"metadata", {{"resourceVersion", std::to_string(version_)}}},
                                              {"items", std::move(items)}})};
  }

  Answer create(json::object slice) {
    json::object& metadata = slice["metadata"].get_object();
    if (!metadata.contains("name")) {
      metadata["name"] =
          std::string(metadata.at("generateName").get_string()) + fmt::format("{:05}", ++names_);
    }
    const std::string name(metadata.at("name").get_string());
    if (slices_.contains(name)) return status_answer(409, "AlreadyExists", "already exists");
    metadata["uid"] = fmt::format("uid-{}", ++names_);
    store(name, std::move(slice), "ADDED");
    return {201, json::serialize(slices_.at(name))};
  }

  Answer one_slice(const Seen& seen, const std::string& name) {
    const auto found = slices_.find(name);
    if (found == slices_.end()) return status_answer(404, "NotFound", "slice not found");
    if (seen.method == "GET") return {200, json::serialize(found->second)};
    json::object body = json::parse(seen.body).get_object();
    const json::object& metadata = found->second.at("metadata").get_object();
    const json::object& given = body.at(seen.method == "DELETE" ? "preconditions" : "metadata").get_object();
    if (given.at("uid") != metadata.at("uid") ||
        given.at("resourceVersion") != metadata.at("resourceVersion")) {
      return status_answer(409, "Conflict", "the object has been modified");
    }
    if (seen.method == "DELETE") {
      erase(name);
      return {200, R"({"kind":"Status","status":"Success"})"};
    }
    store(name, std::move(body), "MODIFIED");
    return {200, json::serialize(slices_.at(name))};
  }

  void store(const std::string& name, json::object slice, const char* type) {
    if (filter_) filter_(slice);
    slice["metadata"].get_object()["resourceVersion"] = std::to_string(++version_);
    slices_[name] = slice;
    tell(type, slice);
  }

  void erase(const std::string& name) {
    json::object slice = slices_.at(name);
    slices_.erase(name);
    slice["metadata"].get_object()["resourceVersion"] = std::to_string(++version_);
    tell("DELETED", slice);
  }

  void tell(const char* type, const json::object& slice) {
    const std::string line = json::serialize(json::object{{"type", type}, {"object", slice}}) + "\n";
    history_.emplace_back(std::stoull(version_of(slice)), line);
    for (Stream* stream : streams_) stream->chunks.push_back(line);
    changed_.notify_all();
  }

  bool stream(tcp::socket& socket, const std::string& target) {
    const std::size_t at = target.find("resourceVersion=");
    const std::uint64_t from = std::stoull(target.substr(at + 16));
    error_code ec;
    Stream stream;
    std::unique_lock<std::mutex> lock(mutex_);
    if (from < forgotten_) {
      const Answer gone = status_answer(410, "Expired", "too old resource version");
      asio::write(socket,
                  asio::buffer(fmt::format("HTTP/1.1 410 Gone\r\nContent-Length: {}\r\n\r\n{}",
                                           gone.body.size(), gone.body)),
                  ec);
      return !ec;
    }
    for (const auto& [version, line] : history_) {
      if (version > from) stream.chunks.push_back(line);
    }
    streams_.insert(&stream);
    std::string out =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (;;) {
      for (const std::string& chunk : std::exchange(stream.chunks, {})) {
        out += fmt::format("{:x}\r\n{}\r\n", chunk.size(), chunk);
      }
      if (stream.end) out += "0\r\n\r\n";
      lock.unlock();
      asio::write(socket, asio::buffer(out), ec);
      out.clear();
      lock.lock();
      if (ec || stream.end || stream.cut || stopping_) break;
      if (stream.chunks.empty()) changed_.wait_for(lock, std::chrono::milliseconds(50));
      char byte = 0;  // the client has gone?
      if (::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) break;
    }
    streams_.erase(&stream);
    return !ec && stream.end;
  }

  asio::io_context io_;
  std::optional<tcp::acceptor> acceptor_;
  std::uint16_t port_ = 0;
  std::thread accepter_;
  std::vector<std::thread> workers_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::set<int> open_;
  std::size_t connections_ = 0;
  Hook hook_;
  std::function<void(json::object&)> filter_;
  std::vector<Seen> seen_;
  std::map<std::string, std::string> nodes_;
  std::map<std::string, std::string> claims_;  // by path
  std::map<std::string, json::object> slices_;
  std::vector<std::pair<std::uint64_t, std::string>> history_;
  std::set<Stream*> streams_;
  std::uint64_t version_ = 100;
  std::uint64_t forgotten_ = 0;
  std::uint64_t names_ = 0;
  int minor_ = 37;
};

FakeApiServer::FakeApiServer() : impl_(std::make_unique<Impl>()) {}
FakeApiServer::~FakeApiServer() = default;

ClientConfig FakeApiServer::config() const {
  ClientConfig out;
  out.endpoint = *parse_server_url(url());
  return out;
}

std::string FakeApiServer::url() const { return fmt::format("http://127.0.0.1:{}", impl_->port_); }
void FakeApiServer::stop() { impl_->stop(); }
void FakeApiServer::start() { impl_->start(); }

void FakeApiServer::set_hook(Hook hook) {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  impl_->hook_ = std::move(hook);
}
void FakeApiServer::set_filter(std::function<void(json::object&)> filter) {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  impl_->filter_ = std::move(filter);
}
void FakeApiServer::set_node(const std::string& name, const std::string& uid) {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  impl_->nodes_[name] = uid;
}
void FakeApiServer::set_claim(const std::string& ns, const std::string& name, const std::string& text) {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  impl_->claims_[fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}", ns, name)] = text;
}
void FakeApiServer::set_minor(int minor) {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  impl_->minor_ = minor;
}
std::string FakeApiServer::add_slice(json::object slice) {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  const Answer answer = impl_->create(std::move(slice));
  return json::parse(answer.body).at("metadata").at("name").get_string().c_str();
}
void FakeApiServer::edit_slice(const std::string& name, const std::function<void(json::object&)>& edit) {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  json::object slice = impl_->slices_.at(name);
  edit(slice);
  impl_->store(name, std::move(slice), "MODIFIED");
}
void FakeApiServer::remove_slice(const std::string& name) {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  impl_->erase(name);
}
std::vector<json::object> FakeApiServer::slices() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  std::vector<json::object> out;
  for (const auto& [name, slice] : impl_->slices_) out.push_back(slice);
  return out;
}
void FakeApiServer::end_watches() {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  for (Stream* stream : impl_->streams_) stream->end = true;
  impl_->changed_.notify_all();
}
void FakeApiServer::cut_watches() {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  for (Stream* stream : impl_->streams_) stream->cut = true;
  impl_->changed_.notify_all();
}
void FakeApiServer::send_to_watches(const std::string& raw) {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  for (Stream* stream : impl_->streams_) stream->chunks.push_back(raw);
  impl_->changed_.notify_all();
}
void FakeApiServer::forget_history() {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  impl_->history_.clear();
  impl_->forgotten_ = ++impl_->version_;
}
std::size_t FakeApiServer::watches() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  return impl_->streams_.size();
}
std::vector<FakeApiServer::Seen> FakeApiServer::requests() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex_);
  return impl_->seen_;
}
std::size_t FakeApiServer::count(const std::string& method, const std::string& part) const {
  std::size_t out = 0;
  for (const Seen& seen : requests()) {
    out += seen.method == method && seen.target.find(part) != std::string::npos ? 1U : 0U;
  }
  return out;
}
std::size_t FakeApiServer::writes() const { return count("POST") + count("PUT") + count("DELETE"); }

bool wait_for(const std::function<bool()>& done, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace dracpu::kube
