// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/http_client.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <thread>
#include <unordered_set>
#include <vector>

#include "kube/api_status.h"
#include "kube/dialer.h"
#include "kube/http_connection.h"
#include "kube/line_splitter.h"

namespace dracpu::kube {

namespace asio = boost::asio;
using Clock = Deadline::Clock;

namespace {

// A connection of the pool.
struct Slot {
  std::shared_ptr<Connection> connection;
  std::uint64_t epoch = 0;  // of the certificates it was made with
  Clock::time_point idle_since;
};

struct Job {
  Job(asio::io_context& io, Request r, Deadline d, HttpClient::Callback c)
      : request(std::move(r)), deadline(d), done(std::move(c)), timer(io), pause(io) {}
  Request request;
  Deadline deadline;
  HttpClient::Callback done;  // empty once called
  asio::steady_timer timer;   // the deadline
  asio::steady_timer pause;   // Retry-After
  std::shared_ptr<Slot> slot;
  int tries = 0;
  bool fresh = false;          // only on a new connection: a kept one was dead
  bool token_retried = false;  // one 401 is forgiven
};

struct WatchJob {
  WatchJob(asio::io_context& io, Request r, Deadline d, WatchCallbacks c, std::size_t line)
      : request(std::move(r)), deadline(d), calls(std::move(c)), timer(io), lines(line) {}
  Request request;
  Deadline deadline;
  WatchCallbacks calls;
  asio::steady_timer timer;
  LineSplitter lines;
  std::shared_ptr<Connection> connection;
  std::atomic<bool> over = false;  // ended or cancelled: no more calls
  bool token_retried = false;
};

bool worth_waiting(int status) { return status == 429 || status >= 500; }

}  // namespace

class HttpClient::Impl {
 public:
  Impl(ClientConfig config, ClientOptions options)
      : options_(std::move(options)),
        dialer_(io_, std::move(config), options_),
        work_(asio::make_work_guard(io_)),
        sweep_(io_) {}

  Status prepare() {
    if (Status status = dialer_.refresh(); !status.ok()) return status;
    thread_ = std::thread([this] { io_.run(); });
    return ok_status();
  }

  void stop() {
    asio::post(io_, [this] { shut_down(); });
    work_.reset();
    if (thread_.joinable()) thread_.join();
  }

  void submit(const std::shared_ptr<Job>& job) {
    if (stopped_) return finish(job, make_error(Errc::kUnavailable, "the API client has stopped"));
    jobs_.insert(job);
    if (job->deadline.at() != Clock::time_point::max()) {
      job->timer.expires_at(job->deadline.at());
      job->timer.async_wait([this, job](const boost::system::error_code& ec) {
        if (!ec) expire(job);
      });
    }
    dispatch(job);
  }

  void open_watch(const std::shared_ptr<WatchJob>& job) {
    if (stopped_ || job->over) return;
    watches_.insert(job);
    if (job->deadline.at() != Clock::time_point::max()) {
      job->timer.expires_at(job->deadline.at());
      job->timer.async_wait([this, job](const boost::system::error_code& ec) {
        if (!ec)
          end_watch(job, failed_watch(make_error(Errc::kUnavailable, "the watch outlived its time limit")));
      });
    }
    connect_watch(job);
  }

  void drop_watch(const std::shared_ptr<WatchJob>& job) {
    job->timer.cancel();
    if (job->connection) job->connection->close();
    watches_.erase(job);
  }

  asio::io_context& io() { return io_; }
  const ClientOptions& options() const { return options_; }
  bool on_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  ClientStats stats() const {
    return {requests_.load(), failures_.load(), error_answers_.load(), dialer_.opened()};
  }

 private:
  // ---- requests ----

  void dispatch(const std::shared_ptr<Job>& job) {
    if (!job->done) return;
    if (Status status = dialer_.refresh(); !status.ok()) return finish(job, std::move(status).error());
    close_idle([this](const Slot& slot) { return slot.epoch != dialer_.epoch(); });
    if (!job->fresh && !idle_.empty()) {
      const std::shared_ptr<Slot> slot = std::move(idle_.back());
      idle_.pop_back();
      return run(job, slot, true);
    }
    if (open_ >= options_.max_connections && !idle_.empty()) {  // a fresh one is wanted: make room
      close_idle([oldest = idle_.front().get()](const Slot& slot) { return &slot == oldest; });
    }
    if (open_ >= options_.max_connections) return waiting_.push_back(job);
    ++open_;
    dialer_.open([this, job](Result<std::shared_ptr<Connection>> opened) {
      if (!opened.ok()) {
        --open_;
        ++failures_;
        finish(job, std::move(opened).error());
        return next();
      }
      auto slot = std::make_shared<Slot>(Slot{*std::move(opened), dialer_.epoch(), {}});
      if (job->done) return run(job, slot, false);
      release(slot);  // its deadline came first: somebody else may use the connection
    });
  }

  void run(const std::shared_ptr<Job>& job, const std::shared_ptr<Slot>& slot, bool kept) {
    Result<std::string> wire = dialer_.wire_form(job->request);
    if (!wire.ok()) {
      job->slot.reset();
      release(slot);
      return finish(job, std::move(wire).error());
    }
    job->slot = slot;
    ++job->tries;
    ++requests_;
    Exchange exchange;
    exchange.wire = *std::move(wire);
    exchange.max_body = options_.max_response;
    exchange.on_done = [this, job, slot, kept](ExchangeEnd end) { ended(job, slot, kept, std::move(end)); };
    slot->connection->start(std::move(exchange));
  }

  void ended(const std::shared_ptr<Job>& job, const std::shared_ptr<Slot>& slot, bool kept, ExchangeEnd end) {
    job->slot.reset();
    if (!end.result.ok()) {
      ++failures_;
      drop(slot);
      // A kept connection that was dead says nothing about the server; nor does a client certificate that
      // was replaced while nobody looked.
      const bool stale = kept && !end.answered && job->request.method == Method::kGet;
      const bool again = !job->fresh && (stale || end.tls_failed);
      if (!again) return finish(job, std::move(end.result).error());
      if (end.tls_failed) dialer_.reload();
      job->fresh = true;
      return dispatch(job);
    }
    Response& response = end.result.value();
    if (response.status >= 400) ++error_answers_;
    std::optional<std::chrono::seconds> wait = response.retry_after;
    if (worth_waiting(response.status) && !wait) wait = parse_status(response.body).retry_after;
    response.retry_after = wait;
    if (response.status == 401 && !job->token_retried && dialer_.reload()) {
      job->token_retried = true;
      release(slot);
      return dispatch(job);
    }
    release(slot);
    if (worth_waiting(response.status) && wait && job->tries < options_.max_tries &&
        Clock::now() + *wait < job->deadline.at()) {
      job->pause.expires_after(*wait);
      return job->pause.async_wait([this, job](const boost::system::error_code& ec) {
        if (!ec) dispatch(job);
      });
    }
    finish(job, std::move(response));
  }

  void expire(const std::shared_ptr<Job>& job) {
    if (!job->done) return;
    ++failures_;
    const char* where = job->slot ? "waiting for the answer" : "waiting for a connection or a repeat";
    finish(job, make_error(Errc::kUnavailable, "deadline passed while {} ({} {})", where,
                           name_of(job->request.method), job->request.path));
  }

  void finish(const std::shared_ptr<Job>& job, Result<Response> result) {
    if (!job->done) return;
    const HttpClient::Callback done = std::exchange(job->done, nullptr);
    job->timer.cancel();
    job->pause.cancel();
    if (const std::shared_ptr<Slot> slot = std::exchange(job->slot, nullptr)) drop(slot);
    jobs_.erase(job);
    done(std::move(result));
  }

  // The connection is free again.
  void release(const std::shared_ptr<Slot>& slot) {
    if (!slot->connection->reusable() || slot->epoch != dialer_.epoch() || stopped_) return drop(slot);
    slot->idle_since = Clock::now();
    slot->connection->on_idle_end([this, weak = std::weak_ptr<Slot>(slot)] {
      if (const std::shared_ptr<Slot> gone = weak.lock()) {
        close_idle([&](const Slot& other) { return &other == gone.get(); });
      }
    });
    idle_.push_back(slot);
    next();
    arm_sweep();
  }

  // The connection is of no more use.
  void drop(const std::shared_ptr<Slot>& slot) {
    if (!slot->connection) return;
    slot->connection->close();
    slot->connection.reset();
    --open_;
    next();
  }

  void next() {
    while (!waiting_.empty() && (!idle_.empty() || open_ < options_.max_connections)) {
      const std::shared_ptr<Job> job = std::move(waiting_.front());
      waiting_.pop_front();
      dispatch(job);
    }
  }

  template <typename Which>
  void close_idle(Which which) {
    const auto end = std::remove_if(idle_.begin(), idle_.end(), [&](const std::shared_ptr<Slot>& slot) {
      if (!which(*slot)) return false;
      slot->connection->close();
      slot->connection.reset();
      --open_;
      return true;
    });
    idle_.erase(end, idle_.end());
  }

  void arm_sweep() {
    if (sweeping_ || idle_.empty() || stopped_) return;
    sweeping_ = true;
    sweep_.expires_after(options_.idle_limit);
    sweep_.async_wait([this](const boost::system::error_code& ec) {
      sweeping_ = false;
      if (ec) return;
      const Clock::time_point old = Clock::now() - options_.idle_limit;
      close_idle([old](const Slot& slot) { return slot.idle_since <= old; });
      arm_sweep();
    });
  }

  // ---- watches ----

  static WatchEnd failed_watch(Error error) { return WatchEnd{0, {}, std::move(error)}; }

  void connect_watch(const std::shared_ptr<WatchJob>& job) {
    dialer_.open([this, job](Result<std::shared_ptr<Connection>> opened) {
      if (!opened.ok()) {
        ++failures_;
        return end_watch(job, failed_watch(std::move(opened).error()));
      }
      if (job->over) return (*opened)->close();
      job->connection = *std::move(opened);
      run_watch(job);
    });
  }

  void run_watch(const std::shared_ptr<WatchJob>& job) {
    Result<std::string> wire = dialer_.wire_form(job->request);
    if (!wire.ok()) return end_watch(job, failed_watch(std::move(wire).error()));
    ++requests_;
    Exchange exchange;
    exchange.wire = *std::move(wire);
    exchange.max_body = options_.max_response;
    exchange.on_open = [job] {
      if (!job->over && job->calls.on_open) job->calls.on_open();
    };
    exchange.on_data = [this, job](std::string_view piece) {
      Status status = job->lines.push(piece, [&](std::string_view line) {
        if (!job->over) job->calls.on_line(line);
        return !job->over;
      });
      if (!status.ok()) end_watch(job, failed_watch(std::move(status).error()));
    };
    exchange.on_done = [this, job](ExchangeEnd end) {
      if (!end.result.ok()) {
        ++failures_;
        return end_watch(job, failed_watch(std::move(end.result).error()));
      }
      Response& response = end.result.value();
      if (response.status >= 400) ++error_answers_;
      if (response.status == 401 && !job->token_retried && dialer_.reload()) {
        job->token_retried = true;
        job->connection->close();
        return connect_watch(job);
      }
      if (worth_waiting(response.status) && !response.retry_after) {
        response.retry_after = parse_status(response.body).retry_after;
      }
      end_watch(job, WatchEnd{response.status, std::move(response), {}});
    };
    job->connection->start(std::move(exchange));
  }

  void end_watch(const std::shared_ptr<WatchJob>& job, WatchEnd end) {
    if (job->over.exchange(true)) return;
    drop_watch(job);
    job->calls.on_end(std::move(end));
  }

  void shut_down() {
    stopped_ = true;
    sweep_.cancel();
    for (const std::shared_ptr<WatchJob>& job : std::exchange(watches_, {})) {
      job->over = true;
      drop_watch(job);
    }
    waiting_.clear();
    for (const std::shared_ptr<Job>& job : std::exchange(jobs_, {})) {
      finish(job, make_error(Errc::kUnavailable, "the API client has stopped"));
    }
    close_idle([](const Slot&) { return true; });
    io_.stop();
  }

  asio::io_context io_{1};  // first: everything below refers to it
  ClientOptions options_;
  Dialer dialer_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  asio::steady_timer sweep_;
  std::thread thread_;

  std::unordered_set<std::shared_ptr<Job>> jobs_;  // not yet answered
  std::deque<std::shared_ptr<Job>> waiting_;       // for a connection
  std::vector<std::shared_ptr<Slot>> idle_;
  std::size_t open_ = 0;  // connections of the pool, connecting, busy or idle
  bool sweeping_ = false;
  bool stopped_ = false;
  std::unordered_set<std::shared_ptr<WatchJob>> watches_;

  std::atomic<std::uint64_t> requests_ = 0;
  std::atomic<std::uint64_t> failures_ = 0;
  std::atomic<std::uint64_t> error_answers_ = 0;
};

Watch& Watch::operator=(Watch&& other) noexcept {
  if (this != &other) {
    cancel();
    cancel_ = std::exchange(other.cancel_, nullptr);
  }
  return *this;
}

Watch::~Watch() { cancel(); }

void Watch::cancel() {
  if (const std::function<void()> cancel = std::exchange(cancel_, nullptr)) cancel();
}

HttpClient::HttpClient(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<HttpClient>> HttpClient::create(ClientConfig config, ClientOptions options) {
  auto impl = std::make_shared<Impl>(std::move(config), std::move(options));
  if (Status status = impl->prepare(); !status.ok()) {
    return std::move(status).error().while_doing("setting up the API client");
  }
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(impl)));
}

HttpClient::~HttpClient() { impl_->stop(); }

void HttpClient::send(Request request, Deadline deadline, Callback done) {
  auto job = std::make_shared<Job>(impl_->io(), std::move(request), deadline, std::move(done));
  asio::post(impl_->io(), [impl = impl_.get(), job = std::move(job)] { impl->submit(job); });
}

Watch HttpClient::watch(Request request, Deadline deadline, WatchCallbacks callbacks) {
  auto job = std::make_shared<WatchJob>(impl_->io(), std::move(request), deadline, std::move(callbacks),
                                        impl_->options().max_watch_line);
  asio::post(impl_->io(), [impl = impl_.get(), job] { impl->open_watch(job); });
  return Watch([weak = std::weak_ptr<Impl>(impl_), handle = std::weak_ptr<WatchJob>(job)] {
    const std::shared_ptr<Impl> impl = weak.lock();
    const std::shared_ptr<WatchJob> watch = handle.lock();
    if (!impl || !watch || watch->over.exchange(true)) return;
    asio::post(impl->io(), [raw = impl.get(), watch] { raw->drop_watch(watch); });
  });
}

void HttpClient::post(std::function<void()> work) { asio::post(impl_->io(), std::move(work)); }

void HttpClient::post_after(std::chrono::milliseconds delay, std::function<void()> work) {
  asio::post(impl_->io(), [impl = impl_.get(), delay, work = std::move(work)]() mutable {
    auto timer = std::make_shared<asio::steady_timer>(impl->io(), delay);
    timer->async_wait([timer, work = std::move(work)](const boost::system::error_code& ec) {
      if (!ec) work();
    });
  });
}

bool HttpClient::on_client_thread() const { return impl_->on_thread(); }
ClientStats HttpClient::stats() const { return impl_->stats(); }

std::string_view name_of(Method method) {
  switch (method) {
    case Method::kGet:
      return "GET";
    case Method::kPost:
      return "POST";
    case Method::kPut:
      return "PUT";
    case Method::kDelete:
      return "DELETE";
  }
  return "?";
}

std::string url_escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", u);
  }
  return out;
}

}  // namespace dracpu::kube
