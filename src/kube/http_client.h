// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// HTTP/1.1 client for one Kubernetes API server: a few requests and a watch or two, on one thread.
//
// Requests   go over at most `max_connections` kept-alive connections and queue when all are busy. Each has
//            a deadline that covers queueing, connecting, repeats and the whole body.
// Repeats    GET once at once when a kept-alive connection turns out to be dead; 401 once after the token was
//            read again; 429 and 5xx that carry Retry-After (or details.retryAfterSeconds in the body) after
//            that time, at most `max_tries` in all and never beyond the deadline. Nothing else.
// Watches    have a connection of their own; complete lines are handed over as they arrive.
// Results    Any HTTP answer is a Response, whatever its status; status_error() turns it into an Error.
//            kUnavailable: no answer (network, TLS, deadline, too large, client stopped). Every callback is
//            called exactly once.
// Security   TLS 1.2 or later, the server's name or address is always checked unless the kubeconfig says
//            insecure-skip-tls-verify. Replaced certificate files are used for new connections, and idle
//            connections made with the old ones are closed.
// Threads    Everything public may be called from any thread, also from callbacks; callbacks run on the
//            client's own thread and must not block. The destructor must not run there.

#ifndef DRACPU_KUBE_HTTP_CLIENT_H_
#define DRACPU_KUBE_HTTP_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/result.h"
#include "kube/credentials.h"

namespace dracpu::kube {

enum class Method { kGet, kPost, kPut, kDelete };
std::string_view name_of(Method method);

struct Request {
  Method method = Method::kGet;
  std::string path;  // with query, percent-encoded, without the kubeconfig's path prefix
  std::string body;  // JSON
};

struct Response {
  int status = 0;
  std::string body;
  std::optional<std::chrono::seconds> retry_after;

  bool ok() const { return status >= 200 && status < 300; }
};

// The server's own words: `HTTP 422 Invalid: spec.devices[0]…`. 404 and 410 kNotFound, 409 kConflict,
// 400 and 422 kInvalidInput, others kUnavailable.
Error status_error(const Response& response);

struct ClientOptions {
  std::size_t max_connections = 8;
  std::size_t max_response = std::size_t{16} << 20U;   // bytes of one body
  std::size_t max_watch_line = std::size_t{8} << 20U;  // bytes of one watch line
  int max_tries = 10;                                  // as the Go client
  std::chrono::milliseconds connect_limit{10'000};     // name, TCP and TLS together
  std::chrono::milliseconds idle_limit{60'000};        // a connection unused for so long is closed
  std::string user_agent{};                            // default "dracpu/<version>"
};

struct ClientStats {
  std::uint64_t requests = 0;       // attempts sent, repeats included, watches too
  std::uint64_t failures = 0;       // attempts without an HTTP answer
  std::uint64_t error_answers = 0;  // answers of 400 and above
  std::uint64_t connections = 0;    // opened so far
};

// How a watch ended. `status` 200: the stream ended in order. Another HTTP status: refused with `body`.
// 0: no answer or cut, with `error`.
struct WatchEnd {
  int status = 0;
  Response response;
  Error error;
};

struct WatchCallbacks {
  std::function<void()> on_open;  // answer 200 has come; may be empty
  std::function<void(std::string_view line)> on_line;
  std::function<void(WatchEnd)> on_end;  // last call; not after cancel
};

// A handle for one thread at a time. Ends the watch when destroyed or assigned over; after that no callback
// starts (destroy it on the client's thread, or be ready for one that is running).
class Watch {
 public:
  Watch() = default;
  Watch(Watch&&) noexcept = default;
  Watch& operator=(Watch&& other) noexcept;
  ~Watch();
  void cancel();
  bool active() const { return static_cast<bool>(cancel_); }

 private:
  friend class HttpClient;
  explicit Watch(std::function<void()> cancel) : cancel_(std::move(cancel)) {}
  std::function<void()> cancel_;
};

class HttpClient {
 public:
  using Callback = std::function<void(Result<Response>)>;

  // Reads certificates and starts the thread; connects only when something is sent.
  static Result<std::unique_ptr<HttpClient>> create(ClientConfig config, ClientOptions options = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void send(Request request, Deadline deadline, Callback done);
  // Ends with an error when the server has not closed the stream by `deadline`.
  Watch watch(Request request, Deadline deadline, WatchCallbacks callbacks);

  // Runs `work` on the client's thread, soon or after a time. Dropped when the client ends.
  void post(std::function<void()> work);
  void post_after(std::chrono::milliseconds delay, std::function<void()> work);
  bool on_client_thread() const;

  ClientStats stats() const;

 private:
  class Impl;
  explicit HttpClient(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

// Percent-encodes one path segment or query value.
std::string url_escape(std::string_view text);

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_HTTP_CLIENT_H_
