// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "agent/claim_request.h"
#include "agent/memory_service.h"
#include "agent/plan_fit.h"

namespace dracpu::agent {
namespace {

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

// The books of a node, as the driver keeps them.
class PlanBooks {
 public:
  PlanBooks(const Node& node, const Machine& machine, const PlanInput& input, CpuSet managed)
      : node_(node),
        machine_(machine),
        input_(input),
        context_(claim_context(node, machine)),
        ledger_(std::move(managed), node.config.node.reserved_cpus, machine.topology.offline,
                picker_for(node, machine)) {
    if (!machine.memory) return;
    accounts_.emplace(node.config.memory.mode, machine.memory->published.offers);
    if (node.config.memory.verify_free_hugepages)
      free_pages_ = memory::free_pages_of(machine.memory->machine);
  }

  Status adopt() {
    for (const auto& [uid, claim] : input_.held) {
      if (Status s = ledger_.adopt(uid, claim); !s.ok()) return s;
    }
    for (const auto& [uid, claim] : input_.held_memory) {
      if (!accounts_) break;
      if (Status s = accounts_->adopt(uid, claim); !s.ok()) return s;
    }
    const std::vector<std::string> no_env;
    (void)ledger_.create({ContainerId("other"), {PodUid("other"), "other"}, "other", &no_env, ""});
    return ok_status();
  }

  // All of the claim or nothing of it; what it took goes to `first_fit`, too.
  Result<Planned> prepare(const kube::Claim& claim, std::vector<std::string>& devices, FirstFit& first_fit) {
    Result<std::vector<ledger::Request>> requests = requests_of(claim, claim.uid, context_);
    if (!requests.ok()) return std::move(requests).error();
    for (const ledger::Request& r : *requests) devices.push_back(r.device);
    Result<memory::Claim> memory = prepare_memory(claim);
    if (!memory.ok()) return std::move(memory).error();
    for (const memory::Grant& g : memory->grants) {
      const bool has_it = std::find(devices.begin(), devices.end(), g.device) != devices.end();
      if (!comes_with_memory(node_.config) || !has_it) devices.push_back(g.device);
    }
    Planned out{{}, memory::amounts_of(*memory)};
    if (!requests->empty()) {
      Result<ledger::Claim> held = ledger_.prepare(claim.uid, claim.ns, claim.name, *requests);
      if (!held.ok()) {
        if (accounts_) accounts_->abort(claim.uid);
        Error error = std::move(held).error();
        if (error.code == Errc::kNoCapacity) error.text += what_would_fit(machine_, ledger_.free());
        return error;
      }
      ledger_.commit(claim.uid);
      if (!input_.held.contains(claim.uid)) first_fit.take(*requests);
      out.cpus = held->cpus;
    }
    if (!memory->grants.empty()) {
      accounts_->commit(claim.uid);
      if (!input_.held_memory.contains(claim.uid)) first_fit.take(*memory);
    }
    return out;
  }

  CpuSet shared() const { return ledger_.pool(); }
  std::optional<std::vector<memory::Standing>> memory() const {
    if (!accounts_) return std::nullopt;
    return accounts_->standings();
  }

 private:
  Result<memory::Claim> prepare_memory(const kube::Claim& claim) {
    if (!accounts_) return memory::Claim();
    const bool is_combined = comes_with_memory(node_.config);
    if (is_combined && !input_.held_memory.contains(claim.uid) && has_memory_devices(claim)) {
      return make_error(
          Errc::kUnsupported,
          "it has devices of {}, which in combined mode are served no more; ask {} for memory with "
          "the CPUs",
          memory::kDriverName, node_.config.publish.driver_name);
    }
    const std::string_view driver =
        is_combined ? std::string_view(node_.config.publish.driver_name) : memory::kDriverName;
    Result<memory::ClaimFacts> facts = memory_facts(claim, claim.uid, driver, node_.name);
    if (!facts.ok()) return std::move(facts).error();
    const bool may_run = !facts->reserved_for.empty();
    if (!may_run) facts->reserved_for.push_back({"pods", PodUid("its")});
    Result<memory::Claim> out =
        accounts_->prepare(claim.uid, *facts, free_pages_ && !may_run ? &*free_pages_ : nullptr);
    if (out.ok() && free_pages_ && !may_run) take_free_pages(*out);
    return out;
  }

  static bool has_memory_devices(const kube::Claim& claim) {
    return claim.allocation &&
           std::any_of(claim.allocation->results.begin(), claim.allocation->results.end(),
                       [](const kube::AllocationResult& r) { return r.driver == memory::kDriverName; });
  }
  // The claims of the plan run together, so what one gets is not free for the next.
  void take_free_pages(const memory::Claim& claim) {
    for (const memory::Grant& g : claim.grants) {
      const auto found = free_pages_->find({g.kind, g.node});
      if (!g.kind.is_hugepages() || found == free_pages_->end()) continue;
      found->second -= std::min(found->second, g.bytes.count / g.kind.page().count);
    }
  }

  const Node& node_;
  const Machine& machine_;
  const PlanInput& input_;
  ClaimContext context_;
  ledger::Ledger ledger_;
  std::optional<memory::Accounts> accounts_;
  std::optional<memory::FreePages> free_pages_;
};

}  // namespace

Result<Plan> make_plan(const Node& node, const Machine& machine, const PlanInput& input) {
  CpuSet managed = machine.managed;
  if (input.free) managed &= *input.free;
  PlanBooks books(node, machine, input, managed);
  if (Status s = books.adopt(); !s.ok()) return std::move(s).error();
  FirstFit first_fit(node, machine, managed);
  for (const auto& [uid, claim] : input.held) first_fit.take_held(claim);
  for (const auto& [uid, claim] : input.held_memory) first_fit.take(claim);

  // What has devices holds them already; the others get what is left.
  std::vector<std::size_t> order(input.claims.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return input.claims[i].allocation.has_value(); });
  Plan out;
  out.claims.resize(input.claims.size());
  for (const std::size_t i : order) {
    kube::Claim claim = input.claims[i];
    PlannedClaim planned{claim.ns, claim.name, claim.uid, !claim.allocation, {}, Planned()};
    planned.gets = [&]() -> Result<Planned> {
      if (const auto known = input.refused.find(claim.uid); known != input.refused.end())
        return known->second;
      if (!claim.allocation) {
        Result<kube::Allocation> made = first_fit.allocate(claim);
        if (!made.ok()) return std::move(made).error();
        claim.allocation = *std::move(made);
      }
      return books.prepare(claim, planned.devices, first_fit);
    }();
    out.claims[i] = std::move(planned);
  }
  out.shared = books.shared();
  out.memory = books.memory();
  return out;
}

}  // namespace dracpu::agent
