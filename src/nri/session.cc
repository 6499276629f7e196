// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "nri/session.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>
#include <utility>

#include "nri/mux.h"
#include "nri/trunk.h"
#include "observe/log.h"

namespace dracpu::nri {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A runtime sends one hook at a time; far more than it could have open, far less than memory.
constexpr std::size_t kMaxOpenCalls = 1024;
constexpr milliseconds kSendTimeout{5000};
constexpr milliseconds kLinger{20};

}  // namespace

Budget make_budget(nanoseconds timeout, Deadline::Clock::time_point now) {
  const nanoseconds margin = std::min<nanoseconds>(
      timeout / 2, std::clamp<nanoseconds>(timeout / 5, milliseconds(10), milliseconds(200)));
  return {Deadline::after(timeout - margin, now), Deadline::after(timeout - margin / 2, now)};
}

Session::Session(UniqueFd socket, const PluginOptions& options, OnCall on_call)
    : options_(options), on_call_(std::move(on_call)), socket_(std::move(socket)) {}

Error Session::run() {
  std::thread second([this] { serve_deadlines(); });
  Status ok = set_send_timeout(socket_.get(), kSendTimeout);
  if (ok) ok = register_plugin();
  if (ok) {
    read_all();
  } else {
    close(std::move(ok).error());
  }
  second.join();
  const Locked lock(mutex_);
  return reason_;
}

Status Session::register_plugin() {
  {
    const Locked lock(mutex_);
    close_timer_ = {Deadline::after(options_.register_timeout).at(),
                    Error{Errc::kUnavailable, "no answer to RegisterPlugin"}};
    changed_.notify_all();  // the second thread may wait already, without a limit
  }
  Result<std::uint32_t> stream = start_call("RegisterPlugin", encode_register(options_.name, options_.index));
  if (!stream) return std::move(stream).error();
  register_stream_ = *stream;
  const Locked lock(mutex_);
  own_calls_.erase(*stream);  // nobody waits; on_response() knows the id
  return ok_status();
}

void Session::read_all() {
  FrameParser frames;
  MessageAssembler requests;
  MessageAssembler responses;
  const auto on_request = [this](Message message) { this->on_request(std::move(message)); };
  const auto on_response = [this](Message message) { this->on_response(std::move(message)); };
  const FrameParser::Sink sink = [&](std::uint32_t connection, std::string_view piece) {
    if (connection == kPluginConnection) {
      requests.feed(piece, on_request);
    } else {
      responses.feed(piece, on_response);
    }
  };
  std::array<char, std::size_t{64} << 10U> buffer;
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return close(Error{Errc::kUnavailable, "the runtime closed the connection"});
    if (got < 0) return close(make_error(Errc::kUnavailable, "recv: {}", errno_text(errno)));
    Status ok = frames.feed({buffer.data(), static_cast<std::size_t>(got)}, sink);
    if (!ok) return close(std::move(ok).error());
    const Locked lock(mutex_);
    if (closed_) return;
  }
}

std::optional<std::string> Session::refusal(const Message& message, Request& request, Method& method) {
  const std::uint32_t stream = message.stream;
  if (const auto text = stream_ids_.refuse(stream)) {
    return encode_error(stream, Code::kInvalidArgument, *text);
  }
  if (message.oversized()) {
    return encode_error(stream, Code::kResourceExhausted,
                        fmt::format("message length {} exceed maximum message size of {}", message.announced,
                                    kMaxReceiveData));
  }
  Result<Request> parsed = parse_request(message.data);
  if (!parsed) {
    return encode_error(stream, Code::kInvalidArgument, "unmarshal request error: " + parsed.error().text);
  }
  request = std::move(parsed).value();
  if (request.service != kPluginService) {
    return encode_error(stream, Code::kUnimplemented, "service " + request.service);
  }
  const std::optional<Method> known = find_method(request.method);
  if (!known) return encode_error(stream, Code::kUnimplemented, "method " + request.method);
  if (*known == Method::kEmptyReply) return encode_response(stream, {});
  method = *known;
  return std::nullopt;
}

void Session::on_request(Message message) {
  if (message.type != MessageType::kRequest) return;
  Request request;
  Method method = Method::kEmptyReply;
  if (std::optional<std::string> reply = refusal(message, request, method)) {
    return reply_later(std::move(*reply));
  }
  const std::uint32_t stream = message.stream;
  message = Message();  // megabytes, in a Synchronize
  accept(stream, method, std::move(request));
}

void Session::accept(std::uint32_t stream, Method method, Request request) {
  nanoseconds timeout = request_timeout_.load();
  if (request.timeout_nano > 0) {
    timeout = std::min<nanoseconds>(nanoseconds(request.timeout_nano), std::chrono::hours(1));
  }
  const Budget budget = make_budget(timeout, Deadline::Clock::now());
  bool full = false;
  {
    const Locked lock(mutex_);
    full = open_.size() >= kMaxOpenCalls;
    if (!full) open_.emplace(stream, budget.refuse.at());
  }
  if (full) {
    return reply_later(encode_error(stream, Code::kUnavailable, "too many calls are open"));
  }
  changed_.notify_all();
  on_call_(Call{stream, method, std::move(request.payload), budget.handler});
}

void Session::on_response(Message message) {
  if (message.type != MessageType::kResponse) return;
  Result<Response> response =
      message.oversized() ? make_error(Errc::kInvalidInput, "an answer of {} bytes", message.announced)
                          : parse_response(message.data);
  if (message.stream == register_stream_) {
    if (!response) return close(std::move(response).error().while_doing("answer to RegisterPlugin"));
    if (response->code != 0) {
      // The runtime leaves such a connection open, but dead (spec 4.2).
      return close(make_error(Errc::kUnavailable, "the runtime refused to register us: code {}: {}",
                              response->code, response->text));
    }
    const Locked lock(mutex_);
    if (!configured_) {
      close_timer_ = {Deadline::after(options_.configure_timeout).at(),
                      Error{Errc::kUnavailable, "registered, but no Configure came"}};
    }
    changed_.notify_all();
    return;
  }
  bool waited_for = false;
  {
    const Locked lock(mutex_);
    if (const auto slot = own_calls_.find(message.stream); slot != own_calls_.end()) {
      slot->second = std::move(response);
      waited_for = true;
    }
  }
  changed_.notify_all();
  if (!waited_for) observe::log_info(2, "NRI answer that nobody waits for", {{"stream", message.stream}});
}

void Session::reply_later(std::string message) {
  {
    const Locked lock(mutex_);
    outbox_.push_back(std::move(message));
  }
  changed_.notify_all();
}

Session::TimePoint Session::next_due() const {
  TimePoint at = close_timer_.at;
  for (const auto& [stream, due] : open_) at = std::min(at, due);
  return at;
}

std::vector<std::string> Session::take_due(TimePoint now) {
  std::vector<std::string> out = std::exchange(outbox_, {});
  for (auto it = open_.begin(); it != open_.end();) {
    if (it->second > now) {
      ++it;
      continue;
    }
    out.push_back(
        encode_error(it->first, Code::kDeadlineExceeded, "the CPU driver could not decide in time"));
    it = open_.erase(it);
  }
  if (close_timer_.at <= now) end_locked(close_timer_.reason);
  return out;
}

void Session::serve_deadlines() {
  for (;;) {
    std::vector<std::string> messages;
    {
      const Locked lock(mutex_);
      while (!closed_ && outbox_.empty() && next_due() > Deadline::Clock::now()) {
        if (const TimePoint at = next_due(); at == TimePoint::max()) {
          changed_.wait(mutex_);
        } else {
          changed_.wait_until(mutex_, at);
        }
      }
      messages = take_due(Deadline::Clock::now());
      if (closed_) return;
    }
    changed_.notify_all();
    for (const std::string& message : messages) {
      if (!send(kPluginConnection, message)) return;
    }
  }
}

Status Session::send(std::uint32_t connection, std::string_view message) {
  Status ok = ok_status();
  {
    const Locked lock(write_);
    ok = send_message(socket_.get(), connection, message);
  }
  if (!ok) close(ok.error());
  return ok;
}

bool Session::wanted(std::uint32_t stream) const {
  const Locked lock(mutex_);
  return !closed_ && open_.contains(stream);
}

bool Session::answer(std::uint32_t stream, std::string_view message) {
  {
    const Locked lock(mutex_);
    if (closed_ || open_.erase(stream) == 0) return false;
    last_answer_ = Deadline::Clock::now();
  }
  const bool sent = send(kPluginConnection, message).ok();
  changed_.notify_all();
  return sent;
}

void Session::set_configured(milliseconds request_timeout) {
  request_timeout_ = request_timeout;
  const Locked lock(mutex_);
  configured_ = true;
  close_timer_ = Timer();  // what follows has no limit: the runtime waits for its own work (spec 4.1)
  changed_.notify_all();
}

void Session::set_synchronized() {
  const Locked lock(mutex_);
  synchronized_ = true;
  changed_.notify_all();
}

bool Session::is_synchronized() const {
  const Locked lock(mutex_);
  return synchronized_;
}

void Session::close_at(Deadline at, Error reason) {
  const Locked lock(mutex_);
  close_timer_ = {at.at(), std::move(reason)};
  changed_.notify_all();
}

void Session::end_locked(Error reason) {
  if (closed_) return;
  closed_ = true;
  reason_ = std::move(reason);
  open_.clear();
  ::shutdown(socket_.get(), SHUT_RDWR);  // wakes the reader and any writer
  changed_.notify_all();
}

void Session::close(Error reason) {
  const Locked lock(mutex_);
  end_locked(std::move(reason));
}

bool Session::closed() const {
  const Locked lock(mutex_);
  return closed_;
}

Result<std::uint32_t> Session::start_call(std::string_view method, std::string payload) {
  const Locked lock(write_);
  const std::uint32_t stream = next_stream_;
  Result<std::string> message = encode_request(
      stream, Request{std::string(kRuntimeService), std::string(method), std::move(payload), 0});
  if (!message) return std::move(message).error();
  {
    const Locked inner(mutex_);
    if (closed_) return Error{Errc::kUnavailable, "not connected to the runtime"};
    own_calls_[stream] = std::nullopt;
  }
  next_stream_ += 2;
  if (Status ok = send_message(socket_.get(), kRuntimeConnection, *message); !ok) {
    close(ok.error());
    return std::move(ok).error();
  }
  return stream;
}

bool Session::wait_idle(Deadline deadline) {
  const Locked lock(mutex_);
  while (!closed_ && !open_.empty()) {
    if (deadline.passed()) return false;
    changed_.wait_until(mutex_, deadline.at());
  }
  return true;
}

void Session::linger() const {
  TimePoint until;
  {
    const Locked lock(mutex_);
    if (closed_ || last_answer_ == TimePoint::min()) return;
    until = last_answer_ + kLinger;
  }
  std::this_thread::sleep_until(until);
}

Result<Response> Session::call(std::string_view method, std::string payload, Deadline deadline) {
  if (!wait_idle(deadline)) return make_error(Errc::kUnavailable, "{}: hooks are in progress", method);
  const Result<std::uint32_t> stream = start_call(method, std::move(payload));
  if (!stream) return stream.error();
  const Locked lock(mutex_);
  std::optional<Result<Response>>& slot = own_calls_[*stream];
  while (!slot && !closed_ && !deadline.passed()) changed_.wait_until(mutex_, deadline.at());
  std::optional<Result<Response>> out = std::move(slot);
  own_calls_.erase(*stream);
  if (out) return std::move(*out);
  return make_error(Errc::kUnavailable, "{}: {}", method, closed_ ? "connection lost" : "no answer in time");
}

}  // namespace dracpu::nri
