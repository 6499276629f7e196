// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The fields of a ResourceClaim that a driver reads (spec kubelet-dra-wire 5.13).
//
// Input   resource.k8s.io/v1 JSON. Unknown fields are ignored, absent and null ones keep their default.
// Errors  kCorrupt  not JSON, or a field has the wrong type; the text names its path, as in
//                   `status.allocation.devices.results[0].device: expected a string`
//         get_claim adds kNotFound (404) and kUnavailable (everything else, with the server's words).
// Threads Values. get_claim: any; the callback runs on the client's thread.

#ifndef DRACPU_KUBE_CLAIM_H_
#define DRACPU_KUBE_CLAIM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/ids.h"
#include "base/quantity.h"
#include "base/result.h"
#include "kube/http_client.h"

namespace dracpu::kube {

using dracpu::Quantity;

// `exactly` of a request, or one alternative of `firstAvailable`.
struct DeviceRequest {
  std::string name;  // of the subrequest; empty for `exactly`
  std::string device_class;
  std::string mode;        // "ExactCount" or "All"
  std::int64_t count = 0;  // as sent; 0 with mode All
  bool admin_access = false;
  std::map<std::string, Quantity> capacity{};  // capacity.requests: qualified or plain name → amount
};

struct ClaimRequest {
  std::string name;
  std::optional<DeviceRequest> exactly;
  std::vector<DeviceRequest> first_available;
};

struct ClaimConstraint {
  std::vector<std::string> requests;  // empty: all
  std::string match_attribute;        // fully qualified name, or empty
};

struct AllocationResult {
  std::string request;  // "main" or "main/sub"
  std::string driver;
  std::string pool;
  std::string device;
  bool admin_access = false;
  std::optional<std::string> share_id;
  std::map<std::string, Quantity> consumed_capacity;  // qualified name → amount
};

struct ConfigEntry {
  enum class Source { kClass, kClaim };
  Source source = Source::kClaim;
  std::vector<std::string> requests;  // empty: all
  bool opaque = false;                // false: a kind of config that this version does not know
  std::string driver;                 // of the opaque form
  std::string parameters;             // JSON text of the opaque form; empty if absent
};

struct Allocation {
  std::vector<AllocationResult> results;
  std::vector<ConfigEntry> config;
};

struct Consumer {
  std::string api_group;
  std::string resource;  // "pods" or "podgroups"
  std::string name;
  std::string uid;
};

struct Claim {
  std::string ns;
  std::string name;
  ClaimUid uid;
  std::string pod_claim_name;  // annotation of template claims; empty otherwise
  bool deleting = false;       // deletionTimestamp is set
  std::vector<ClaimRequest> requests;
  std::vector<ClaimConstraint> constraints;
  std::vector<ConfigEntry> config;       // of the spec; the scheduler copies it into the allocation
  std::optional<Allocation> allocation;  // empty: not allocated
  std::vector<Consumer> reserved_for;
};

Result<Claim> parse_claim(std::string_view json);

void get_claim(HttpClient& client, const std::string& ns, const std::string& name, Deadline deadline,
               std::function<void(Result<Claim>)> done);

// Part of a request name before the first "/".
std::string_view base_request(std::string_view request);

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_CLAIM_H_
