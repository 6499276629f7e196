// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the integration tests share: a machine that does not exist, a node around the real driver binary.
//
// The binary is $DRACPU_BINARY, or the one of this build. Without one the tests fail, unless
// $DRACPU_SKIP_WITHOUT_BINARY says that it may be so.

#ifndef DRACPU_SANDBOX_FIXTURE_H_
#define DRACPU_SANDBOX_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "machine.h"
#include "node.h"

namespace dracpu::sandbox {

#define ASSERT_OK(expression)                                   \
  do {                                                          \
    const auto& ok_ = (expression);                             \
    ASSERT_TRUE(ok_.ok()) << ok_.error().text << "\n" << log(); \
  } while (false)
#define EXPECT_OK(expression)                                   \
  do {                                                          \
    const auto& ok_ = (expression);                             \
    EXPECT_TRUE(ok_.ok()) << ok_.error().text << "\n" << log(); \
  } while (false)

class SandboxTest : public ::testing::Test {
 protected:
  // Up to the driver's start, which wait_ready() awaits.
  void bring_up(MachineShape shape = {}, NodeOptions options = {});
  void start_and_wait();
  // bring_up() and start_and_wait().
  void ready(MachineShape shape = {}, NodeOptions options = {}) {
    bring_up(shape, std::move(options));
    if (!HasFatalFailure() && !IsSkipped()) start_and_wait();
  }

  Node& node() { return *node_; }
  std::string log() const { return node_ ? "the driver's log ends:\n" + node_->driver_log() : ""; }

  // A claim and its pod, which must work.
  ClaimName claim(const std::string& name, std::size_t cpus);
  Pod pod(const std::string& name, const std::vector<ClaimName>& claims = {});
  CpuSet cpus_of(const Pod& p);
  CpuSet cpus_of(const ClaimName& c);
  CpuSet all_cpus() const;
  // Requests that wrote something, since the n-th.
  std::vector<SeenRequest> writes(std::size_t since = 0) const;

  MachineShape shape_;
  std::optional<Folder> folder_;
  std::unique_ptr<Node> node_;
};

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_FIXTURE_H_
