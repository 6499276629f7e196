// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Keeps gRPC's thread pools small on large nodes.
//
// gRPC 1.51 sizes its pools by the number of CPUs of the node: 53 threads from 64 CPUs up, of which this
// program needs a handful, each with its stack and its cache of freed memory (docs/dev/dependencies.md).
// There is no setting for it. The pools ask two functions of gRPC's portability library, gpr_cpu_num_cores()
// and gpr_cpu_current_cpu(), both public (<grpc/support/cpu.h>); the .cc file defines them anew. In a shared
// link ours come first in the symbol search, in a static one the archive member that holds exactly these two
// is then not pulled in: which is why both must be defined, and why the gRPC version is checked at compile
// time.

#ifndef DRACPU_KUBELET_GRPC_POOLS_H_
#define DRACPU_KUBELET_GRPC_POOLS_H_

namespace dracpu::kubelet {

// How many CPUs gRPC believes in. Call it before the first use of gRPC: the call is also what pulls the two
// definitions into the program.
unsigned limit_grpc_pools();

}  // namespace dracpu::kubelet

#endif  // DRACPU_KUBELET_GRPC_POOLS_H_
