// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/grpc_pools.h"

#include <grpc/support/cpu.h>
#include <grpcpp/version_info.h>
#include <sched.h>

// Known to hold for 1.51 only: another version may keep further functions in the same archive member (a
// static link then fails with a double definition) or ask elsewhere (grpc_pools_test then counts the
// threads). Look at both before moving the number.
static_assert(GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51);

namespace {
constexpr unsigned kCpus = 2;  // the least that each pool of 1.51 takes
}  // namespace

extern "C" {

unsigned gpr_cpu_num_cores(void) { return kCpus; }

// Below kCpus, as the contract in <grpc/support/cpu.h> asks: the value is an index into per-CPU tables.
unsigned gpr_cpu_current_cpu(void) {
  const int cpu = ::sched_getcpu();
  return cpu < 0 ? 0 : static_cast<unsigned>(cpu) % kCpus;
}

}  // extern "C"

namespace dracpu::kubelet {

unsigned limit_grpc_pools() { return ::gpr_cpu_num_cores(); }

}  // namespace dracpu::kubelet
