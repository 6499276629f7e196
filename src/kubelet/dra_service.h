// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The DRA service in its two wire versions, both answered by one Handler.
//
// Source  spec kubelet-dra-wire section 2.
// Output  One entry for every distinct UID asked for and for no other, whatever the handler returns; an RPC
// fails as
//         a whole only when the handler throws or drops the call, or the server stops.
// Threads gRPC's.

#ifndef DRACPU_KUBELET_DRA_SERVICE_H_
#define DRACPU_KUBELET_DRA_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <chrono>
#include <memory>

#include "kubelet/call_gate.h"
#include "kubelet/server.h"

namespace dracpu::kubelet {

// What the kubelet waits for prepare and unprepare (spec kubelet-dra-wire 1.6); longer is never of use.
inline constexpr std::chrono::seconds kMaxCallTime{45};

// Both arguments outlive the service.
std::unique_ptr<grpc::Service> make_dra_v1(Handler& handler, CallGate& gate);
std::unique_ptr<grpc::Service> make_dra_v1beta1(Handler& handler, CallGate& gate);

}  // namespace dracpu::kubelet

#endif  // DRACPU_KUBELET_DRA_SERVICE_H_
