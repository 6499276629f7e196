// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/wake.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace dracpu::agent {
namespace {

// What a signal handler may touch. One Wake at a time hears signals, the newest.
std::atomic<int> g_signal{0};
std::atomic<int> g_event{-1};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  const int saved = errno;
  g_signal.store(number);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(g_event.load(), &one, sizeof one);
  errno = saved;
}

}  // namespace

Result<std::unique_ptr<Wake>> Wake::create() {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) return make_error(Errc::kInternal, "eventfd: {}", errno_text(errno));
  std::unique_ptr<Wake> out(new Wake(std::move(event)));
  g_signal.store(0);
  g_event.store(out->event_.get());
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = on_signal;
  // One shot: the second signal does what it does by default, even where a step that blocks never looks here.
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGINT, SIGTERM}) {
    if (::sigaction(number, &action, nullptr) != 0)
      return make_error(Errc::kInternal, "handling signal {}: {}", number, errno_text(errno));
  }
  return out;
}

Wake::~Wake() {
  int mine = event_.get();
  g_event.compare_exchange_strong(mine, -1);
}

void Wake::notify() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n =
      ::write(event_.get(), &one, sizeof one);  // full means: a nudge is pending
}

int Wake::signal() const { return g_signal.load(); }

void Wake::wait_until(std::chrono::steady_clock::time_point at) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(at - std::chrono::steady_clock::now());
  const int timeout = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
  pollfd fd{event_.get(), POLLIN, 0};
  if (::poll(&fd, 1, timeout) <= 0) return;
  std::uint64_t nudges = 0;
  [[maybe_unused]] const ssize_t drained = ::read(event_.get(), &nudges, sizeof nudges);
}

}  // namespace dracpu::agent
