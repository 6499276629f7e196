// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One attribute of another driver's device on this node, read from its ResourceSlices.
//
// Errors  kNotFound the device or the attribute is not published; kUnavailable the server's words; kCorrupt
// what
//         it sent cannot be read.
// Threads Any; the callback runs on the client's thread.

#ifndef DRACPU_KUBE_DEVICE_LOOKUP_H_
#define DRACPU_KUBE_DEVICE_LOOKUP_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/result.h"
#include "kube/http_client.h"

namespace dracpu::kube {

struct DeviceName {
  std::string driver;
  std::string pool;
  std::string device;
};

// The texts of a string attribute, one or several, in a list of slices as the server sends it.
Result<std::vector<std::string>> find_attribute(std::string_view slice_list, const DeviceName& device,
                                                std::string_view attribute);

void get_attribute(HttpClient& client, const std::string& node, const DeviceName& device,
                   const std::string& attribute, Deadline deadline,
                   std::function<void(Result<std::vector<std::string>>)> done);

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_DEVICE_LOOKUP_H_
