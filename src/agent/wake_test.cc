// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/wake.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace dracpu::agent {
namespace {

using Clock = std::chrono::steady_clock;

// In a process of its own: it changes what signals do.
template <typename F>
void in_child(F&& f) {
  const std::unique_ptr<Wake> wake = Wake::create().value();
  ::_exit(f(*wake));
}

TEST(WakeDeathTest, ASignalAsksToStop) {
  for (const int number : {SIGTERM, SIGINT}) {
    EXPECT_EXIT(in_child([number](Wake& wake) {
                  std::jthread other([number] { ::kill(::getpid(), number); });
                  while (!wake.stop_requested()) wake.wait_until(Clock::now() + std::chrono::seconds(60));
                  return wake.signal() == number ? 7 : 8;
                }),
                testing::ExitedWithCode(7), "");
  }
}

// A step of the start that hangs in the kernel never looks whether it was asked to stop.
TEST(WakeDeathTest, TheSecondSignalEndsAProcessThatDoesNotLook) {
  EXPECT_EXIT(in_child([](Wake& wake) {
                ::raise(SIGTERM);
                if (!wake.stop_requested()) return 8;
                ::raise(SIGTERM);
                return 9;
              }),
              testing::KilledBySignal(SIGTERM), "");
}

TEST(WakeTest, ANudgeEndsTheWait) {
  const std::unique_ptr<Wake> wake = Wake::create().value();
  std::jthread other([&wake] { wake->notify(); });
  const Clock::time_point begun = Clock::now();
  wake->wait_until(begun + std::chrono::seconds(60));
  EXPECT_LT(Clock::now() - begun, std::chrono::seconds(30));
  EXPECT_FALSE(wake->stop_requested());
}

}  // namespace
}  // namespace dracpu::agent
