// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The device health streams, v1 and v1alpha1, fed from one hub.
//
// Source  spec kubelet-dra-wire section 3.
// Output  The same bytes in both versions. A reader that does not keep up gets the newest report when it can
// take
//         one and misses those between; nobody waits for it.
// Threads gRPC's and the hub's callers'.

#ifndef DRACPU_KUBELET_HEALTH_SERVICE_H_
#define DRACPU_KUBELET_HEALTH_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>

#include "kubelet/health_hub.h"

namespace dracpu::kubelet {

// The hub outlives the service.
std::unique_ptr<grpc::Service> make_health_v1(HealthHub& hub);
std::unique_ptr<grpc::Service> make_health_v1alpha1(HealthHub& hub);

}  // namespace dracpu::kubelet

#endif  // DRACPU_KUBELET_HEALTH_SERVICE_H_
