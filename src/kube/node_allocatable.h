// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the kubelet says that pods may have of its node: `status.allocatable` of the Node.
//
// Errors  kCorrupt      not JSON, or the resource is missing or no quantity
//         kNotFound     there is no such node; kUnavailable everything else, with the server's words
// Threads Any; the callback runs on the client's thread.

#ifndef DRACPU_KUBE_NODE_ALLOCATABLE_H_
#define DRACPU_KUBE_NODE_ALLOCATABLE_H_

#include <functional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/quantity.h"
#include "base/result.h"
#include "kube/http_client.h"

namespace dracpu::kube {

// `resource`: "cpu", "memory", "hugepages-2Mi".
Result<Quantity> parse_allocatable(std::string_view json, std::string_view resource);

void get_allocatable(HttpClient& client, const std::string& node, const std::string& resource,
                     Deadline deadline, std::function<void(Result<Quantity>)> done);

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_NODE_ALLOCATABLE_H_
