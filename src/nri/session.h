// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One connection to the runtime, from RegisterPlugin to the end of the socket.
//
// Promise Every request of the runtime is answered once and in time. A request that waits for its handler is
//         answered with an error shortly before the runtime would give up, because a time-out there means "no
//         change" (spec nri-wire 4.9): the container would start without its CPUs.
// Threads run() is the reader and never writes after RegisterPlugin, so the trunk is always drained (spec
// 0.4).
//         A second thread of the session sends what needs no handler and watches the deadlines. All other
//         functions may be called from any thread, answer() from the worker.

#ifndef DRACPU_NRI_SESSION_H_
#define DRACPU_NRI_SESSION_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "nri/messages.h"
#include "nri/plugin.h"
#include "nri/ttrpc.h"

namespace dracpu::nri {

// A request for the handler.
struct Call {
  std::uint32_t stream = 0;
  Method method = Method::kEmptyReply;
  std::string payload;
  Deadline deadline = Deadline::never();  // for the handler; the answer still has time to travel
};

// When a handler must be done and when the session refuses in its place, for a request that arrives now and
// that the runtime gives up after `timeout`.
struct Budget {
  Deadline handler;
  Deadline refuse;
};
Budget make_budget(std::chrono::nanoseconds timeout, Deadline::Clock::time_point now);

class Session {
 public:
  using OnCall = std::function<void(Call call)>;

  Session(UniqueFd socket, const PluginOptions& options, OnCall on_call);

  // Registers and reads until the connection is over; the reason comes back. Once per session.
  Error run();

  // Ends the connection; the first reason counts.
  void close(Error reason);
  bool closed() const;

  // Sends the answer to a call if it is still wanted. False: refused in the meantime, or the connection is
  // gone.
  bool answer(std::uint32_t stream, std::string_view message);
  bool wanted(std::uint32_t stream) const;

  void set_configured(std::chrono::milliseconds request_timeout);
  void set_synchronized();
  bool is_synchronized() const;
  // The runtime should close after what we answered; if it has not until then, we do.
  void close_at(Deadline at, Error reason);

  // A call of the runtime's own service. Waits until no hook is open, then for the answer.
  Result<Response> call(std::string_view method, std::string payload, Deadline deadline);
  // Waits until no hook is open. False when the deadline came first.
  bool wait_idle(Deadline deadline);
  // Lets the last answer arrive before the end of the stream: Go may deliver the end first (spec 1.7).
  void linger() const;

 private:
  using TimePoint = Deadline::Clock::time_point;
  struct Timer {
    TimePoint at = TimePoint::max();
    Error reason;
  };

  Status send(std::uint32_t connection, std::string_view message);
  Result<std::uint32_t> start_call(std::string_view method, std::string payload);
  Status register_plugin();
  void read_all();
  void on_request(Message message);
  void on_response(Message message);
  void reply_later(std::string message);
  std::optional<std::string> refusal(const Message& message, Request& request, Method& method);
  void accept(std::uint32_t stream, Method method, Request request);
  void serve_deadlines();
  std::vector<std::string> take_due(TimePoint now) DRACPU_REQUIRES(mutex_);
  TimePoint next_due() const DRACPU_REQUIRES(mutex_);
  void end_locked(Error reason) DRACPU_REQUIRES(mutex_);

  const PluginOptions options_;
  const OnCall on_call_;
  const UniqueFd socket_;  // closed with the session, so that no other descriptor takes its number meanwhile
  std::atomic<std::chrono::milliseconds> request_timeout_{std::chrono::milliseconds(2000)};  // spec 4.3

  // Held over writes on purpose: frames of one message must follow each other, and ids must go out in order.
  Mutex write_;
  std::uint32_t next_stream_ DRACPU_GUARDED_BY(write_) = 1;

  StreamIdCheck stream_ids_;  // reader only
  std::uint32_t register_stream_ = 0;

  mutable Mutex mutex_;
  Condition changed_;
  bool closed_ DRACPU_GUARDED_BY(mutex_) = false;
  bool configured_ DRACPU_GUARDED_BY(mutex_) = false;
  bool synchronized_ DRACPU_GUARDED_BY(mutex_) = false;
  Error reason_ DRACPU_GUARDED_BY(mutex_);
  TimePoint last_answer_ DRACPU_GUARDED_BY(mutex_) = TimePoint::min();
  Timer close_timer_ DRACPU_GUARDED_BY(mutex_);
  std::map<std::uint32_t, TimePoint> open_ DRACPU_GUARDED_BY(mutex_);  // calls not answered: when to refuse
  std::vector<std::string> outbox_ DRACPU_GUARDED_BY(mutex_);
  std::map<std::uint32_t, std::optional<Result<Response>>> own_calls_ DRACPU_GUARDED_BY(mutex_);
};

}  // namespace dracpu::nri

#endif  // DRACPU_NRI_SESSION_H_
