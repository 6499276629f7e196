// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "agent/claim_request.h"
#include "base/escape.h"
#include "device/build.h"
#include "memory/types.h"

namespace dracpu::agent {
namespace {

// "a, b, c, …": a message names only the first of many.
class ShortList {
 public:
  void add(std::string_view item) {
    constexpr std::size_t kMost = 16;
    if (++items_ <= kMost) {
      text_ += fmt::format("{}{}", items_ == 1 ? "" : ", ", item);
    } else if (items_ == kMost + 1) {
      text_ += ", …";
    }
  }
  std::string or_else(std::string_view nothing) const { return items_ == 0 ? std::string(nothing) : text_; }

 private:
  std::string text_;
  std::size_t items_ = 0;
};

// Gives devices to claims that have none, as a scheduler would at its simplest: the first that has room.
class FirstFit {
 public:
  FirstFit(const Node& node, const Machine& machine, const CpuSet& usable)
      : driver_(node.config.publish.driver_name),
        pool_(node.name),
        devices_(machine.devices),
        usable_(usable),
        has_memory_(comes_with_memory(node.config)) {}

  void take(const std::string& device, std::size_t cpus) { taken_[device] += cpus; }
  // What somebody holds outside of what may be used takes no room.
  void take_held(const ledger::Claim& claim) {
    for (const ledger::Grant& grant : claim.grants) {
      const auto device = std::find_if(devices_.begin(), devices_.end(),
                                       [&](const device::Device& d) { return d.name == grant.device; });
      if (device == devices_.end()) continue;
      take(grant.device, std::min(grant.cpus, (device->cpus & usable_ & claim.cpus).size()));
    }
  }

  Result<kube::Allocation> allocate(const kube::Claim& claim) const {
    std::map<std::string, std::size_t> taken = taken_;
    kube::Allocation out;
    for (const kube::ClaimRequest& request : claim.requests) {
      if (request.exactly) {
        if (Status s = add(*request.exactly, request.name, taken, out); !s.ok()) return std::move(s).error();
        continue;
      }
      Status last = ok_status();
      bool is_placed = false;
      for (const kube::DeviceRequest& sub : request.first_available) {
        last = add(sub, request.name + "/" + sub.name, taken, out);
        is_placed = last.ok();
        if (is_placed) break;
      }
      if (!is_placed && !last.ok()) return std::move(last).error();
    }
    if (out.results.empty()) {
      return make_error(Errc::kInvalidInput,
                        "no request with device class \"{}\"; the claim has no allocation either", driver_);
    }
    out.config = claim.config;
    return out;
  }

 private:
  // Other classes are other drivers': skipped.
  Status add(const kube::DeviceRequest& request, const std::string& name,
             std::map<std::string, std::size_t>& taken, kube::Allocation& out) const {
    if (request.device_class != driver_) return ok_status();
    const bool is_all = request.mode == "All";
    if (Status s = check(request, name); !s.ok()) return s;
    const std::size_t count = is_all ? devices_.size() : static_cast<std::size_t>(request.count);
    std::map<std::string, std::size_t> tried = taken;
    std::vector<kube::AllocationResult> results;
    for (std::size_t i = 0; i < count; ++i) {
      Result<kube::AllocationResult> result = place(request, name, is_all ? &devices_[i] : nullptr, tried);
      if (!result.ok()) {
        if (count == 1) return std::move(result).error();
        return std::move(result).error().while_doing(fmt::format("device {} of {}", i + 1, count));
      }
      results.push_back(*std::move(result));
    }
    taken = std::move(tried);
    std::move(results.begin(), results.end(), std::back_inserter(out.results));
    return ok_status();
  }

  // What the API server or the scheduler would not let through.
  Status check(const kube::DeviceRequest& request, const std::string& name) const {
    constexpr std::int64_t kMostDevices = 32;  // of one claim, resource.k8s.io/v1 AllocationResultsMaxSize
    if (request.mode != "ExactCount" && request.mode != "All") {
      return make_error(Errc::kInvalidInput,
                        "request \"{}\": allocationMode {} is not known; use ExactCount or All", name,
                        in_quotes(request.mode));
    }
    if (request.mode == "All" && request.count != 0) {
      return make_error(Errc::kInvalidInput, "request \"{}\": allocationMode All takes no count, found {}",
                        name, request.count);
    }
    if (request.mode == "ExactCount" && (request.count < 1 || request.count > kMostDevices)) {
      return make_error(Errc::kInvalidInput,
                        "request \"{}\": count {} is not from 1 to {}, the devices of a claim", name,
                        request.count, kMostDevices);
    }
    const std::string key = device::cpu_capacity_name(driver_);
    const bool shares = devices_.empty() || devices_.front().allow_multiple_allocations;
    for (const auto& [asked, amount] : request.capacity) {
      if (shares && (asked == key || asked == "cpu")) continue;
      if (has_memory_ && memory::is_combined_key(asked)) {
        return make_error(Errc::kUnsupported, "request \"{}\": memory is not planned yet; leave {} out", name,
                          in_quotes(asked));
      }
      return make_error(Errc::kNoCapacity, "request \"{}\": no device here has a capacity {}; {}", name,
                        in_quotes(asked),
                        shares ? fmt::format("ask for \"{}\"", key)
                               : std::string("each device is one CPU, so ask with count"));
    }
    return ok_status();
  }

  Result<kube::AllocationResult> place(const kube::DeviceRequest& request, const std::string& name,
                                       const device::Device* only,
                                       std::map<std::string, std::size_t>& taken) const {
    const std::string key = device::cpu_capacity_name(driver_);
    ShortList rooms;
    for (const device::Device& d : devices_) {
      if (only != nullptr && only != &d) continue;
      const std::size_t most = (d.cpus & usable_).size();
      const std::size_t room = most - std::min(taken[d.name], most);
      if (room > 0) rooms.add(fmt::format("{} {}", d.name, room));
      const std::optional<kube::Quantity> amount = amount_of(request, key);
      std::size_t wanted = amount ? whole(*amount) : d.cpus.size();
      if (!d.allow_multiple_allocations) wanted = 1;
      if (wanted > room || room == 0) continue;
      taken[d.name] += wanted;
      kube::AllocationResult out;
      out.request = name;
      out.driver = driver_;
      out.pool = pool_;
      out.device = d.name;
      out.admin_access = request.admin_access;
      if (d.allow_multiple_allocations) {
        out.consumed_capacity.emplace(key,
                                      amount.value_or(kube::Quantity(static_cast<std::int64_t>(wanted))));
      }
      return out;
    }
    const std::optional<kube::Quantity> amount = amount_of(request, key);
    return make_error(
        Errc::kNoCapacity, "request \"{}\": no device has room for {}; CPUs left: {}", name,
        amount ? fmt::format("{} CPU{}", amount->to_string(), amount->to_string() == "1" ? "" : "s")
               : std::string("it"),
        rooms.or_else("none"));
  }

  static std::optional<kube::Quantity> amount_of(const kube::DeviceRequest& request, const std::string& key) {
    for (const std::string& k : {key, std::string("cpu")}) {
      if (const auto it = request.capacity.find(k); it != request.capacity.end()) return it->second;
    }
    return std::nullopt;
  }
  // Amounts that are not whole are refused later, with their own words.
  static std::size_t whole(const kube::Quantity& amount) {
    const std::optional<std::int64_t> n = amount.to_int64();
    return n && *n > 0 ? static_cast<std::size_t>(*n) : 1;
  }

  std::string driver_;
  std::string pool_;
  const std::vector<device::Device>& devices_;
  const CpuSet& usable_;
  const bool has_memory_;
  std::map<std::string, std::size_t> taken_;
};

// "; free: cpudevnuma000 2 (1,3), …": where a refused claim could go.
std::string what_would_fit(const Machine& machine, const CpuSet& free) {
  ShortList out;
  for (const device::Device& d : machine.devices) {
    const CpuSet here = d.cpus & free;
    if (here.empty()) continue;
    out.add(fmt::format("{} {} ({})", d.name, here.size(), here.to_string()));
  }
  return "; free now: " + out.or_else("nothing");
}

}  // namespace

Result<Plan> make_plan(const Node& node, const Machine& machine, const PlanInput& input) {
  CpuSet managed = machine.managed;
  if (input.free) managed &= *input.free;
  ledger::Ledger ledger(managed, node.config.node.reserved_cpus, machine.topology.offline,
                        picker_for(node, machine));
  FirstFit first_fit(node, machine, managed);
  for (const auto& [uid, claim] : input.held) {
    if (Status s = ledger.adopt(uid, claim); !s.ok()) return std::move(s).error();
    first_fit.take_held(claim);
  }
  const std::vector<std::string> no_env;
  (void)ledger.create({ContainerId("other"), {PodUid("other"), "other"}, "other", &no_env, ""});

  const ClaimContext context = claim_context(node, machine);
  // What has devices holds them already; the others get what is left.
  std::vector<std::size_t> order(input.claims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return input.claims[i].allocation.has_value(); });
  Plan out;
  out.claims.resize(input.claims.size());
  for (const std::size_t i : order) {
    kube::Claim claim = input.claims[i];
    PlannedClaim planned{claim.ns, claim.name, claim.uid, !claim.allocation, {}, CpuSet()};
    planned.cpus = [&]() -> Result<CpuSet> {
      if (!claim.allocation) {
        Result<kube::Allocation> made = first_fit.allocate(claim);
        if (!made.ok()) return std::move(made).error();
        claim.allocation = *std::move(made);
      }
      Result<std::vector<ledger::Request>> requests = requests_of(claim, claim.uid, context);
      if (!requests.ok()) return std::move(requests).error();
      for (const ledger::Request& r : *requests) planned.devices.push_back(r.device);
      if (requests->empty()) return CpuSet();
      Result<ledger::Claim> held = ledger.prepare(claim.uid, claim.ns, claim.name, *requests);
      if (!held.ok()) {
        Error error = std::move(held).error();
        if (error.code == Errc::kNoCapacity) error.text += what_would_fit(machine, ledger.free());
        return error;
      }
      ledger.commit(claim.uid);
      for (const ledger::Request& r : *requests) first_fit.take(r.device, r.cpus);
      return held->cpus;
    }();
    out.claims[i] = std::move(planned);
  }
  out.shared = ledger.pool();
  return out;
}

}  // namespace dracpu::agent
