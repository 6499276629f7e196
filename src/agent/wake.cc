// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/wake.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace dracpu::agent {

Result<std::unique_ptr<Wake>> Wake::create() {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (const int err = ::pthread_sigmask(SIG_BLOCK, &set, nullptr); err != 0) {
    return make_error(Errc::kInternal, "blocking signals: {}", errno_text(err));
  }
  UniqueFd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.valid()) return make_error(Errc::kInternal, "signalfd: {}", errno_text(errno));
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) return make_error(Errc::kInternal, "eventfd: {}", errno_text(errno));
  return std::unique_ptr<Wake>(new Wake(std::move(event), std::move(signals)));
}

void Wake::notify() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n =
      ::write(event_.get(), &one, sizeof one);  // full means: a nudge is pending
}

void Wake::wait_until(std::chrono::steady_clock::time_point at) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(at - std::chrono::steady_clock::now());
  const int timeout = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
  std::array<pollfd, 2> fds{pollfd{event_.get(), POLLIN, 0}, pollfd{signals_.get(), POLLIN, 0}};
  if (::poll(fds.data(), fds.size(), timeout) <= 0) return;
  std::uint64_t nudges = 0;
  [[maybe_unused]] const ssize_t drained = ::read(event_.get(), &nudges, sizeof nudges);
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
  signal_ = static_cast<int>(info.ssi_signo);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace dracpu::agent
