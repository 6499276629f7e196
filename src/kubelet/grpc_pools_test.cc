// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The number of threads must not grow with the node: this program lets gRPC see 512 CPUs, if it asks the
// kernel.

#include "kubelet/grpc_pools.h"

#include <dlfcn.h>
#include <grpc/support/cpu.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "kubelet/test_peer.h"

// Takes the C library's place in this program.
extern "C" long sysconf(int name) noexcept {
  if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) return 512;
  static const auto next = reinterpret_cast<long (*)(int)>(::dlsym(RTLD_NEXT, "sysconf"));
  return next(name);
}

namespace dracpu::kubelet {
namespace {

std::size_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST(GrpcPools, OursAreTheFunctionsThatCount) {
  ASSERT_EQ(::sysconf(_SC_NPROCESSORS_CONF), 512);
  EXPECT_EQ(limit_grpc_pools(), 2U);
  EXPECT_EQ(::gpr_cpu_num_cores(), 2U);
  for (int i = 0; i < 1000; ++i) ASSERT_LT(::gpr_cpu_current_cpu(), 2U);
}

class GrpcPoolsServer : public ServerTest {};

TEST_F(GrpcPoolsServer, AServerAtWorkHasFewThreads) {
  const std::size_t before = threads();
  start();
  std::vector<std::thread> clients;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([this] {
      const auto channel = dial_dra();
      for (int n = 0; n < 50; ++n) EXPECT_TRUE(prepare(channel, {"a"}).first.ok());
    });
  }
  for (std::thread& t : clients) t.join();
  RecordProperty("threads", static_cast<int>(threads() - before));
  std::printf("%zu threads after work, %zu before gRPC\n", threads(), before);
  // Server and clients in one process: 13 here, more than 53 without the limit. One is the health hub's.
  EXPECT_LE(threads() - before, 16U);
}

}  // namespace
}  // namespace dracpu::kubelet
