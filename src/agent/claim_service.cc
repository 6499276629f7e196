// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/claim_service.h"

#include <algorithm>
#include <set>
#include <utility>

#include "agent/memory_service.h"
#include "cdi/claim_files.h"
#include "cdi/directory.h"
#include "observe/log.h"

namespace dracpu::agent {
namespace {

double seconds(Deadline::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

using observe::log_info;
using observe::log_warning;

constexpr std::chrono::seconds kRootLimit{2};

std::string full_name(const kubelet::ClaimRef& ref) { return ref.ns + "/" + ref.name; }

}  // namespace

// One NodePrepareResources call: its distinct claims, what was read of them, who waits.
struct ClaimService::Call {
  std::string op = observe::new_op_id();
  Deadline::Clock::time_point begun = Deadline::Clock::now();
  std::vector<kubelet::ClaimRef> claims;
  std::vector<std::optional<Result<kube::Claim>>> read;
  std::vector<std::optional<RootMatch>> matches;  // of each claim
  std::vector<std::vector<std::string>> roots;    // of the device that it was matched with
  std::set<ClaimUid> with_memory;                 // claims that ask for memory, too
  std::atomic<std::size_t> missing{0};
  kubelet::PrepareResults results;
  std::function<void(kubelet::PrepareResults)> done;
};

std::optional<std::string> why_lost(const Result<kube::Claim>& read, const ClaimUid& uid) {
  if (!read.ok() && read.error().code == Errc::kNotFound) return "the claim is gone";
  if (!read.ok()) return std::nullopt;
  if (read->uid != uid) return "the claim was replaced by another of the same name";
  if (!read->allocation) return "the claim is no longer allocated";
  return std::nullopt;
}

ClaimService::ClaimService(const Node& node, std::shared_ptr<const Machine> machine, Books& books,
                           Worker& worker, ClaimReader reader, RootReader roots, observe::Metrics& metrics,
                           Hooks hooks)
    : node_(node),
      books_(books),
      worker_(worker),
      reader_(std::move(reader)),
      roots_(std::move(roots)),
      metrics_(metrics),
      hooks_(std::move(hooks)),
      machine_(std::move(machine)),
      context_(claim_context(node, *machine_)),
      metadata_(node, node.config.publish.driver_name) {
  update_gauges();
  worker_.post([this] {
    std::set<ClaimUid> held;
    books_.with_both([&](const ledger::Ledger& l, const MemoryBook& m) {
      for (const auto& [uid, claim] : l.claims()) held.insert(uid);
      for (const auto& [uid, claim] : m.accounts.claims()) {
        if (m.comes_with_cpus(uid)) held.insert(uid);
      }
    });
    metadata_.sweep(held);
  });
}

void ClaimService::set_machine(std::shared_ptr<const Machine> machine) {
  machine_ = std::move(machine);
  context_ = claim_context(node_, *machine_);
  update_gauges();
}

void ClaimService::prepare(std::vector<kubelet::ClaimRef> claims, Deadline deadline,
                           std::function<void(kubelet::PrepareResults)> done) {
  auto call = std::make_shared<Call>();
  call->done = std::move(done);
  std::set<ClaimUid> seen;
  for (kubelet::ClaimRef& ref : claims) {
    if (seen.insert(ref.uid).second) call->claims.push_back(std::move(ref));
  }
  log_info(4, "Prepare begins", {{"opID", call->op}, {"claims", call->claims.size()}});
  if (call->claims.empty()) {
    call->done({});
    return;
  }
  call->read.resize(call->claims.size());
  call->matches.resize(call->claims.size());
  call->roots.resize(call->claims.size());
  call->missing = call->claims.size();
  const Deadline limit(std::min(deadline.at(), Deadline::after(kClaimReadLimit).at()));
  for (std::size_t i = 0; i < call->claims.size(); ++i) {
    reader_(call->claims[i].ns, call->claims[i].name, limit,
            [this, call, i](Result<kube::Claim> claim) { claim_read(call, i, std::move(claim)); });
  }
}

void ClaimService::claim_read(const std::shared_ptr<Call>& call, std::size_t index,
                              Result<kube::Claim> claim) {
  call->read[index] = std::move(claim);
  if (const Result<kube::Claim>& read = *call->read[index]; read.ok() && node_.config.publish.pcie_roots) {
    call->matches[index] = root_match(*read, node_.config.publish.driver_name);
  }
  if (!call->matches[index]) return claim_ready(call);
  // Where the other device sits is a wish, not a condition: without an answer the claim is served all the
  // same.
  roots_(
      call->matches[index]->other, Deadline::after(kRootLimit),
      [this, call, index](Result<std::vector<std::string>> roots) {
        if (roots.ok()) {
          call->roots[index] = *std::move(roots);
        } else {
          log_info(
              2, "PCIe root of the claim's other device not known",
              {{"opID", call->op}, {"claim", full_name(call->claims[index])}, {"err", roots.error().text}});
        }
        claim_ready(call);
      });
}

void ClaimService::claim_ready(const std::shared_ptr<Call>& call) {
  if (call->missing.fetch_sub(1) != 1) return;
  {
    const Locked lock(mutex_);
    ready_.push_back(call);
    if (ready_.size() > 1) return;  // a drain is posted already and will take this one too
  }
  worker_.post([this] { drain(); });
}

std::vector<kubelet::PreparedDevice> ClaimService::answer(const ClaimUid& uid, const Holding& held,
                                                          std::map<std::string, std::string> metadata) {
  std::vector<std::string> ids;
  if (held.cpus) ids.push_back(cdi::device_id(uid));
  if (held.memory) ids.push_back(cdi::device_id(cdi::kMemoryFiles, uid));
  std::vector<kubelet::PreparedDevice> out;
  for (const ledger::Grant& g : grants_of(held)) {
    const std::string request(kube::base_request(g.request));
    kubelet::PreparedDevice device{{request}, g.pool, g.device, ids, g.share_id};
    // The file of a request is mounted once, by its first device.
    if (auto file = metadata.extract(request)) device.cdi_device_ids.push_back(std::move(file.mapped()));
    out.push_back(std::move(device));
  }
  return out;
}

Result<std::vector<kubelet::PreparedDevice>> ClaimService::answer_again(const ClaimUid& uid,
                                                                        const Holding& held) {
  if (Status s = books_.rewrite_cdi(uid); !s.ok())
    return std::move(s).error().while_doing("writing the claim's CDI file");
  return answer(uid, held, metadata_.existing(uid, metadata_grants(node_, held)));
}

std::optional<Holding> ClaimService::prepared(const ClaimUid& uid) const {
  Holding held = books_.holding_of(uid);
  // An adopted claim does not know its devices.
  const bool is_complete =
      (held.cpus || held.memory) && (!held.cpus || (held.cpus->committed && !held.cpus->grants.empty())) &&
      (!held.memory || (held.memory->committed && memory::mode_of(*held.memory).has_value()));
  if (!is_complete) return std::nullopt;
  return held;
}

void ClaimService::drain() {
  std::vector<std::shared_ptr<Call>> calls;
  {
    const Locked lock(mutex_);
    calls.swap(ready_);
  }
  const Status allowed = hooks_.may_prepare();
  FreePagesReader free(node_);
  std::vector<PrepareOrder> orders;
  std::vector<Place> places;
  for (const std::shared_ptr<Call>& call : calls) {
    for (std::size_t i = 0; i < call->claims.size(); ++i) {
      const kubelet::ClaimRef& ref = call->claims[i];
      if (!allowed.ok()) {
        call->results.emplace(ref.uid, allowed.error());
        continue;
      }
      if (std::optional<PrepareOrder> order = order_of(*call, i, free)) {
        orders.push_back(*std::move(order));
        places.push_back({call.get(), &ref, (*call->read[i])->pod_claim_name});
      }
    }
  }
  if (!orders.empty()) prepare_orders(orders, places, free.pages());
  for (const std::shared_ptr<Call>& call : calls) finish(*call);
}

std::optional<PrepareOrder> ClaimService::order_of(Call& call, std::size_t index, FreePagesReader& free) {
  const kubelet::ClaimRef& ref = call.claims[index];
  const auto answered = [&](Result<std::vector<kubelet::PreparedDevice>> result) {
    call.results.emplace(ref.uid, std::move(result));
    return std::nullopt;
  };
  const Result<kube::Claim>& read = *call.read[index];
  if (!read.ok()) {
    // The API server is away: a claim that is prepared already is answered from the books.
    const std::optional<Holding> known = prepared(ref.uid);
    if (read.error().code == Errc::kUnavailable && known) return answered(answer_again(ref.uid, *known));
    return answered(Error(read.error()).while_doing(fmt::format("reading claim {}", full_name(ref))));
  }
  const std::string& driver = node_.config.publish.driver_name;
  Result<std::vector<ledger::Request>> requests = requests_of(*read, ref.uid, context_);
  if (!requests.ok()) {
    // Prepared under another configuration or machine, say under devices that are published no more: it
    // keeps what it has (RULINGS 7).
    const std::optional<Holding> known = prepared(ref.uid);
    if (known && read->uid == ref.uid && is_what_was_granted(*read, driver, grants_of(*known))) {
      log_info(2, "Claim keeps what it was granted before",
               {{"opID", call.op}, {"claim", full_name(ref)}, {"err", requests.error().text}});
      return answered(answer_again(ref.uid, *known));
    }
    return answered(std::move(requests).error());
  }
  if (call.matches[index]) {
    const std::vector<std::string>& matched = call.matches[index]->requests;
    for (ledger::Request& r : *requests) {
      if (std::find(matched.begin(), matched.end(), r.request) != matched.end())
        r.near = near_cpus(call.roots[index]);
    }
  }
  PrepareOrder out{ref.uid, ref.ns, ref.name, *std::move(requests)};
  if (context_.has_memory) {
    Result<memory::ClaimFacts> facts = memory_facts(*read, ref.uid, driver, node_.name);
    if (!facts.ok()) return answered(std::move(facts).error());
    if (memory::asks_for_memory(*facts)) {
      call.with_memory.insert(ref.uid);
      if (Status s = free.read(); !s.ok()) return answered(std::move(s).error());
    }
    out.memory = *std::move(facts);
  }
  if (out.requests.empty() && !call.with_memory.contains(ref.uid))
    return answered(std::vector<kubelet::PreparedDevice>{});
  return out;
}

CpuSet ClaimService::near_cpus(const std::vector<std::string>& roots) const {
  CpuSet out;
  for (const topology::PcieRoot& root : machine_->topology.pcie_roots) {
    if (std::find(roots.begin(), roots.end(), root.name) != roots.end()) out |= root.cpus;
  }
  return out;
}

void ClaimService::prepare_orders(const std::vector<PrepareOrder>& orders, const std::vector<Place>& places,
                                  const memory::FreePages* free) {
  std::vector<Result<ledger::Claim>> prepared = books_.prepare(orders, free);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    const PrepareOrder& order = orders[i];
    const Place& place = places[i];
    if (!prepared[i].ok()) {
      place.call->results.emplace(order.uid, std::move(prepared[i]).error());
      continue;
    }
    const Holding held = books_.holding_of(order.uid);
    const std::vector<ledger::Grant> grants = grants_of(held);
    if (!order.requests.empty()) {
      const ledger::Claim& claim = *prepared[i];
      if (!claim.committed) metrics_.claim_allocated_cpus.observe(static_cast<double>(claim.cpus.size()));
      log_info(2, "Claim prepared",
               {{"opID", place.call->op},
                {"claim", full_name(*place.ref)},
                {"claimUID", order.uid.get()},
                {"device", claim.grants.front().device},
                {"cpus", claim.cpus.to_string()}});
    }
    if (held.memory) {
      log_info(2, "Memory claim prepared",
               {{"opID", place.call->op},
                {"claim", full_name(*place.ref)},
                {"claimUID", order.uid.get()},
                {"amounts", amounts_text(*held.memory)}});
    }
    place.call->results.emplace(
        order.uid,
        answer(order.uid, held,
               metadata_.write(machine_->devices, {order.uid, order.ns, order.name, place.pod_claim},
                               metadata_grants(node_, held))));
  }
  update_gauges();
}

// To the pods that wait for the claim.
void ClaimService::tell_pods(const std::optional<Result<kube::Claim>>& read, const Error& why) const {
  if (!hooks_.tell_pod || !read || !read->ok()) return;
  for (const kube::Consumer& c : (*read)->reserved_for) {
    if (c.resource == "pods")
      hooks_.tell_pod({(*read)->ns, c.name, c.uid}, "ClaimRefused",
                      fmt::format("claim {}: {}", (*read)->name, why.text));
  }
}

void ClaimService::finish(Call& call) {
  for (std::size_t i = 0; i < call.claims.size(); ++i) {
    const kubelet::ClaimRef& ref = call.claims[i];
    const Result<std::vector<kubelet::PreparedDevice>>& result = call.results.at(ref.uid);
    metrics_.prepare_claims_total.inc(result.ok() ? observe::Outcome::kSuccess : observe::Outcome::kError);
    if (!result.ok()) {
      metrics_.claims_refused_total.inc(name_of(result.error().code));
      tell_pods(call.read[i], result.error());
      if (hooks_.refused) hooks_.refused("claim " + full_name(ref), result.error().text);
      log_info(0, "Claim refused",
               {{"opID", call.op},
                {"claim", full_name(ref)},
                {"claimUID", ref.uid.get()},
                {"reason", name_of(result.error().code)},
                {"err", result.error().text}});
    }
  }
  const auto took = Deadline::Clock::now() - call.begun;
  for (const kubelet::ClaimRef& ref : call.claims) {
    metrics_.prepare_claim_duration_seconds.observe(seconds(took));
    if (!call.with_memory.contains(ref.uid)) continue;
    metrics_.memory->prepare_claims_total.inc(call.results.at(ref.uid).ok() ? observe::Outcome::kSuccess
                                                                            : observe::Outcome::kError);
    metrics_.memory->prepare_claim_duration_seconds.observe(seconds(took));
  }
  log_info(4, "Prepare ends",
           {{"opID", call.op},
            {"claims", call.claims.size()},
            {"ms", std::chrono::duration_cast<std::chrono::milliseconds>(took).count()}});
  call.done(std::move(call.results));
}

void ClaimService::unprepare(std::vector<kubelet::ClaimRef> claims, Deadline /*deadline*/,
                             std::function<void(kubelet::UnprepareResults)> done) {
  worker_.post([this, claims = std::move(claims), done = std::move(done), begun = Deadline::Clock::now()] {
    const std::string op = observe::new_op_id();
    std::vector<ClaimUid> uids;
    std::vector<const kubelet::ClaimRef*> refs;
    for (const kubelet::ClaimRef& ref : claims) {
      if (std::find(uids.begin(), uids.end(), ref.uid) != uids.end()) continue;
      uids.push_back(ref.uid);
      refs.push_back(&ref);
    }
    std::set<ClaimUid> with_memory;
    for (const ClaimUid& uid : uids) {
      if (metrics_.memory && books_.holding_of(uid).memory) with_memory.insert(uid);
    }
    std::vector<Status> ended = books_.unprepare(uids);
    for (std::size_t i = 0; i < uids.size(); ++i) {
      if (ended[i].ok()) ended[i] = metadata_.remove(uids[i], refs[i]->ns, refs[i]->name);
    }
    kubelet::UnprepareResults results;
    for (std::size_t i = 0; i < uids.size(); ++i) {
      metrics_.unprepare_claims_total.inc(ended[i].ok() ? observe::Outcome::kSuccess
                                                        : observe::Outcome::kError);
      if (with_memory.contains(uids[i])) {
        metrics_.memory->unprepare_claims_total.inc(ended[i].ok() ? observe::Outcome::kSuccess
                                                                  : observe::Outcome::kError);
      }
      metrics_.unprepare_claim_duration_seconds.observe(seconds(Deadline::Clock::now() - begun));
      if (ended[i].ok()) {
        log_info(2, "Claim released", {{"opID", op}, {"claimUID", uids[i].get()}});
      } else {
        log_info(0, "Claim cannot be released",
                 {{"opID", op}, {"claimUID", uids[i].get()}, {"err", ended[i].error().text}});
      }
      results.emplace(uids[i], std::move(ended[i]));
    }
    if (books_.save_owed())
      log_warning("State file is behind; it is written again with the next change", {{"opID", op}});
    update_gauges();
    hooks_.pool_grew();
    done(std::move(results));
  });
}

void ClaimService::on_registration(bool registered, const std::string& error) {
  hooks_.registration(registered, error);
}

std::vector<ClaimService::Lost> ClaimService::lost_claims() const {
  std::vector<Lost> out;
  books_.with_both([&](const ledger::Ledger& l, const MemoryBook& m) {
    for (const ClaimUid& uid : l.claims_without_container()) {
      const ledger::Claim& claim = l.claims().at(uid);
      out.push_back({uid, claim.ns, claim.name});
    }
    // Of memory alone. Where memory is off its containers are not known.
    if (!node_.config.memory.enabled) return;
    for (const ClaimUid& uid : m.claims_without_container()) {
      if (!m.comes_with_cpus(uid) || l.claims().contains(uid)) continue;
      const memory::Claim& claim = m.accounts.claims().at(uid);
      out.push_back({uid, claim.ns, claim.name});
    }
  });
  return out;
}

void ClaimService::collect_lost_claims() {
  const std::vector<Lost> lost = lost_claims();
  const bool is_synchronized = hooks_.may_prepare().ok();
  for (const Lost& c : lost) {
    // Claims adopted from an older driver's CDI file have no name until they are prepared again.
    if (c.name.empty() && is_synchronized && books_.is_unprovable(c.uid))
      release_lost(c.uid, kEndedElsewhere);
  }
  for (const Lost& c : lost) {
    if (c.name.empty()) continue;
    reader_(c.ns, c.name, Deadline::after(kClaimLookupLimit), [this, c](Result<kube::Claim> claim) {
      if (!claim.ok() && claim.error().code != Errc::kNotFound) return;  // unreachable: kept
      std::optional<std::string> why = why_lost(claim, c.uid);
      if (!why && books_.is_unconfirmed(c.uid) && claim->reserved_for.empty())
        why = "the claim is no longer in use, and the state file that names it is older than another driver";
      if (!why) return books_.confirm(c.uid);
      worker_.post([this, uid = c.uid, why = *std::move(why)] { release_lost(uid, why); });
    });
  }
}

void ClaimService::release_lost(const ClaimUid& uid, const std::string& why) {
  const std::vector<Lost> lost = lost_claims();
  const auto still =
      std::find_if(lost.begin(), lost.end(), [&](const Lost& candidate) { return candidate.uid == uid; });
  if (still == lost.end()) return;
  std::vector<Status> ended = books_.unprepare({uid});
  if (ended[0].ok()) ended[0] = metadata_.remove(uid, still->ns, still->name);
  log_warning("Lost claim released",
              {{"claimUID", uid.get()}, {"why", why}, {"err", ended[0].ok() ? "" : ended[0].error().text}});
  metrics_.lost_claims_total.inc();
  update_gauges();
  hooks_.pool_grew();
}

void ClaimService::update_gauges() {
  update_memory_gauges(books_, metrics_);
  books_.with_ledger([&](const ledger::Ledger& l) {
    std::size_t allocated = 0;
    std::size_t offline = 0;
    for (const auto& [uid, claim] : l.claims()) {
      allocated += claim.cpus.size();
      offline += (claim.cpus & l.offline()).size();
    }
    metrics_.allocated_cpus.set(allocated);
    metrics_.available_cpus.set(l.free().size());
    metrics_.reserved_cpus.set(node_.config.node.reserved_cpus.size());
    metrics_.offline_claimed_cpus.set(offline);
    metrics_.resource_claims_active.set(l.claims().size());
  });
}

}  // namespace dracpu::agent
