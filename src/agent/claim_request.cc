// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/claim_request.h"

#include <algorithm>

#include "device/build.h"

namespace dracpu::agent {
namespace {

// The amount of CPUs that a result takes of its device: the qualified key wins over the plain one.
Result<std::size_t> amount_of(const kube::AllocationResult& result, const std::string& driver) {
  const std::string qualified = device::cpu_capacity_name(driver);
  auto it = result.consumed_capacity.find(qualified);
  if (it == result.consumed_capacity.end()) it = result.consumed_capacity.find("cpu");
  if (it == result.consumed_capacity.end()) {
    return make_error(
        Errc::kInvalidInput,
        "the allocation of device \"{}\" has no consumed capacity \"{}\"; ask for it in the claim's "
        "capacity.requests",
        result.device, qualified);
  }
  const kube::Quantity& amount = it->second;
  if (amount <= kube::Quantity(0)) {
    return make_error(Errc::kInvalidInput,
                      "consumed capacity \"{}\" of device \"{}\" is {}; it must be positive", it->first,
                      result.device, amount.to_string());
  }
  const std::optional<std::int64_t> whole = amount.to_int64();
  if (!whole) {
    return make_error(
        Errc::kInvalidInput,
        "consumed capacity \"{}\" of device \"{}\" is {}; exclusive CPUs must be a whole number", it->first,
        result.device, amount.to_string());
  }
  return static_cast<std::size_t>(*whole);
}

bool applies(const kube::ConfigEntry& entry, std::string_view request) {
  if (entry.requests.empty()) return true;
  return std::any_of(entry.requests.begin(), entry.requests.end(),
                     [&](const std::string& r) { return r == request || r == kube::base_request(request); });
}

}  // namespace

Result<std::vector<ledger::Request>> requests_of(const kube::Claim& claim, const ClaimUid& uid,
                                                 const ClaimContext& context) {
  const std::string full_name = claim.ns + "/" + claim.name;
  if (claim.uid != uid) {
    return make_error(Errc::kConflict,
                      "claim {} was replaced: the kubelet names uid {}, the API server has {}", full_name,
                      uid.get(), claim.uid.get());
  }
  if (!claim.allocation) return make_error(Errc::kUnavailable, "claim {} is not allocated", full_name);
  std::vector<ledger::Request> out;
  for (const kube::AllocationResult& result : claim.allocation->results) {
    if (result.driver != context.driver) continue;
    if (result.admin_access) {
      return make_error(Errc::kInvalidInput,
                        "device \"{}\" was allocated with admin access, which is not supported for CPUs",
                        result.device);
    }
    if (result.pool != context.pool) {
      return make_error(Errc::kInvalidInput, "device \"{}\" is of pool \"{}\", this node's pool is \"{}\"",
                        result.device, result.pool, context.pool);
    }
    const device::Device* device = device::device_by_name(*context.devices, result.device);
    if (device == nullptr) {
      return make_error(Errc::kInvalidInput,
                        "this node has no device \"{}\"; it may have been published under another grouping",
                        result.device);
    }
    for (const kube::ConfigEntry& entry : claim.allocation->config) {
      if (entry.opaque && entry.driver == context.driver && applies(entry, result.request)) {
        return make_error(
            Errc::kInvalidInput,
            "request \"{}\" carries an opaque configuration for {}; preferred CPUs are not supported with "
            "allocator cpumanager",
            result.request, context.driver);
      }
    }
    Result<std::size_t> cpus = amount_of(result, context.driver);
    if (!cpus.ok()) return std::move(cpus).error();
    out.push_back({result.request, result.pool, result.device, result.share_id, *cpus, device->cpus});
  }
  return out;
}

}  // namespace dracpu::agent
