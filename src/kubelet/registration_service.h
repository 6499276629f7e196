// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The registration service: who we are, from memory, and the kubelet's verdict.
//
// Source  spec kubelet-dra-wire section 1.2. The kubelet gives GetInfo one second, and may ask any number of
// times. Threads gRPC's.

#ifndef DRACPU_KUBELET_REGISTRATION_SERVICE_H_
#define DRACPU_KUBELET_REGISTRATION_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <memory>
#include <string>
#include <vector>

#include "kubelet/server.h"

namespace dracpu::kubelet {

// `endpoint` is the absolute path of the DRA socket. The handler outlives the service.
std::unique_ptr<grpc::Service> make_registration(Handler& handler, const std::string& driver_name,
                                                 const std::string& endpoint,
                                                 const std::vector<std::string>& services);

}  // namespace dracpu::kubelet

#endif  // DRACPU_KUBELET_REGISTRATION_SERVICE_H_
