// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/claim_request.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "agent/opaque_config.h"
#include "config/load.h"
#include "device/build.h"
#include "memory/accounts.h"

namespace dracpu::agent {
namespace {

using config::Allocator;
using config::DeviceMode;
using config::GroupBy;

// The amount of CPUs that a result takes of its device: the qualified key wins over the plain one. Zero is an
// amount where the result takes memory.
Result<std::size_t> amount_of(const kube::AllocationResult& result, const std::string& driver,
                              bool has_memory) {
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
  const bool is_memory_alone =
      has_memory && amount == kube::Quantity(0) && memory::asks_for_memory(result.consumed_capacity);
  if (amount <= kube::Quantity(0) && !is_memory_alone) {
    return make_error(Errc::kInvalidInput,
                      "consumed capacity \"{}\" of device \"{}\" is {}; it must be positive{}", it->first,
                      result.device, amount.to_string(), has_memory ? ", or memory be asked for" : "");
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

std::vector<const kube::ConfigEntry*> configs_for(const kube::Claim& claim, const std::string& request,
                                                  const std::string& driver) {
  std::vector<const kube::ConfigEntry*> out;
  for (const kube::ConfigEntry& entry : claim.allocation->config) {
    if (entry.opaque && entry.driver == driver && applies(entry, request)) out.push_back(&entry);
  }
  return out;
}

// Several results of one request on the only device would be one after the other what the user wants at once
// (spec driver-behaviours 9.4).
Status check_machine_counts(const kube::Claim& claim, const std::string& request) {
  const std::string_view base = kube::base_request(request);
  for (const kube::ClaimRequest& r : claim.requests) {
    if (r.name != base) continue;
    if (r.exactly && r.exactly->count > 1) {
      return make_error(
          Errc::kInvalidInput,
          "request \"{}\": exactly.count is {}, with groupBy machine at most 1 is supported; ask for "
          "the number of CPUs in capacity.requests",
          r.name, r.exactly->count);
    }
    for (const kube::DeviceRequest& sub : r.first_available) {
      if (r.name + "/" + sub.name != request || sub.count <= 1) continue;
      return make_error(
          Errc::kInvalidInput,
          "request \"{}\": count of its subrequest \"{}\" in firstAvailable is {}, with groupBy "
          "machine at most 1 is supported; ask for the number of CPUs in capacity.requests",
          r.name, sub.name, sub.count);
    }
  }
  return ok_status();
}

Result<CpuSet> chosen_cpus(const kube::Claim& claim, const std::string& request, std::size_t amount,
                           const ClaimContext& context) {
  const std::vector<const kube::ConfigEntry*> configs = configs_for(claim, request, context.driver);
  if (configs.size() != 1) {
    return make_error(
        Errc::kInvalidInput,
        "request \"{}\" has {} opaque configurations for {}; allocator external needs exactly 1, with "
        "the CPUs that were chosen",
        request, configs.size(), context.driver);
  }
  if (configs[0]->source == kube::ConfigEntry::Source::kClass) {
    return make_error(
        Errc::kInvalidInput,
        "request \"{}\": the opaque configuration for {} comes from the DeviceClass; it must come from "
        "the claim",
        request, context.driver);
  }
  Result<CpuSet> cpus = parse_chosen_cpus(configs[0]->parameters);
  if (!cpus.ok()) {
    return std::move(cpus).error().while_doing(
        fmt::format("request \"{}\": opaque configuration for {}", request, context.driver));
  }
  if (cpus->size() != amount) {
    return make_error(
        Errc::kInvalidInput,
        "request \"{}\" was allocated {} CPUs, its configuration names {} ({}); the numbers must be equal",
        request, amount, cpus->size(), cpus->to_string());
  }
  if (const CpuSet unknown = *cpus - context.managed; !unknown.empty()) {
    return make_error(
        Errc::kInvalidInput,
        "request \"{}\": CPUs {} of its configuration are not managed by this driver (managed: {})", request,
        unknown.to_string(), context.managed.to_string());
  }
  if (const CpuSet reserved = *cpus & context.reserved; !reserved.empty()) {
    return make_error(Errc::kInvalidInput,
                      "request \"{}\": CPUs {} of its configuration are reserved (reservedCPUs: {})", request,
                      reserved.to_string(), context.reserved.to_string());
  }
  return cpus;
}

// The CPUs of each request as an external allocator has chosen them.
Status add_chosen_cpus(const kube::Claim& claim, const ClaimContext& context,
                       std::vector<ledger::Request>& out) {
  std::map<std::string, std::size_t> amounts;
  for (const ledger::Request& r : out) amounts[r.request] += r.cpus;
  std::map<std::string, CpuSet> chosen;
  for (ledger::Request& r : out) {
    if (!chosen.contains(r.request)) {
      Result<CpuSet> cpus = chosen_cpus(claim, r.request, amounts[r.request], context);
      if (!cpus.ok()) return std::move(cpus).error();
      chosen.emplace(r.request, *std::move(cpus));
    }
    r.chosen = chosen.at(r.request);
  }
  return ok_status();
}

Result<ledger::Request> request_of(const kube::Claim& claim, const kube::AllocationResult& result,
                                   const ClaimContext& context) {
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
    return make_error(
        Errc::kInvalidInput,
        "this node has no device \"{}\"; it may have been published under another device mode or "
        "grouping (now: {}{}{})",
        result.device, name_of(context.cpu.devices), context.cpu.devices == DeviceMode::kGrouped ? ", " : "",
        context.cpu.devices == DeviceMode::kGrouped ? name_of(context.cpu.group_by) : "");
  }
  for (const auto& [key, amount] : result.consumed_capacity) {
    if (context.has_memory || !memory::is_combined_key(key)) continue;
    return make_error(
        Errc::kUnsupported,
        "device \"{}\" was allocated with {} of {}, which it does not carry (any more): set memory: "
        "{{enabled: true, mode: combined}}, or delete the claim",
        result.device, amount.to_string(), key);
  }
  ledger::Request out{result.request, result.pool, result.device, result.share_id, 1, device->cpus};
  if (context.cpu.devices == DeviceMode::kIndividual) return out;  // one device is one CPU
  if (context.cpu.group_by == GroupBy::kMachine) {
    if (Status s = check_machine_counts(claim, result.request); !s.ok()) return std::move(s).error();
  }
  if (context.cpu.allocator == Allocator::kCpuManager &&
      !configs_for(claim, result.request, context.driver).empty()) {
    return make_error(
        Errc::kInvalidInput,
        "request \"{}\" carries an opaque configuration for {}; preferred CPUs are not supported with "
        "allocator cpumanager",
        result.request, context.driver);
  }
  Result<std::size_t> cpus = amount_of(result, context.driver, context.has_memory);
  if (!cpus.ok()) return std::move(cpus).error();
  if (*cpus == 0 && !configs_for(claim, result.request, context.driver).empty()) {
    return make_error(Errc::kInvalidInput,
                      "request \"{}\" carries an opaque configuration for {}, and takes no CPU",
                      result.request, context.driver);
  }
  out.cpus = *cpus;
  return out;
}

}  // namespace

ClaimContext claim_context(const Node& node, const Machine& machine) {
  return {node.config.publish.driver_name,
          node.name,
          node.config.cpu,
          &machine.devices,
          machine.managed,
          node.config.node.reserved_cpus,
          comes_with_memory(node.config)};
}

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
    Result<ledger::Request> request = request_of(claim, result, context);
    if (!request.ok()) return std::move(request).error();
    if (request->cpus > 0) out.push_back(*std::move(request));
  }
  if (context.cpu.devices == DeviceMode::kGrouped && context.cpu.allocator == Allocator::kExternal) {
    if (Status s = add_chosen_cpus(claim, context, out); !s.ok()) return std::move(s).error();
  }
  return out;
}

bool is_what_was_granted(const kube::Claim& claim, const std::string& driver,
                         const std::vector<ledger::Grant>& grants) {
  if (!claim.allocation || grants.empty()) return false;
  using Row = std::tuple<std::string, std::string, std::string, std::optional<std::string>>;
  std::multiset<Row> granted;
  for (const ledger::Grant& g : grants) granted.emplace(g.request, g.pool, g.device, g.share_id);
  std::multiset<Row> named;
  for (const kube::AllocationResult& r : claim.allocation->results) {
    if (r.driver == driver) named.emplace(r.request, r.pool, r.device, r.share_id);
  }
  return granted == named;
}

std::optional<RootMatch> root_match(const kube::Claim& claim, const std::string& driver) {
  if (!claim.allocation) return std::nullopt;
  for (const kube::ClaimConstraint& c : claim.constraints) {
    if (c.match_attribute != "resource.kubernetes.io/pcieRoot") continue;
    const auto covers = [&c](const kube::AllocationResult& r) {
      return c.requests.empty() ||
             std::any_of(c.requests.begin(), c.requests.end(), [&](const std::string& name) {
               return name == r.request || name == kube::base_request(r.request);
             });
    };
    RootMatch out;
    for (const kube::AllocationResult& r : claim.allocation->results) {
      if (!covers(r)) continue;
      if (r.driver == driver) {
        out.requests.emplace_back(r.request);
      } else if (out.other.driver.empty()) {
        out.other = {r.driver, r.pool, r.device};
      }
    }
    if (!out.requests.empty() && !out.other.driver.empty()) return out;
  }
  return std::nullopt;
}

}  // namespace dracpu::agent
