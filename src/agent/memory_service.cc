// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/memory_service.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "cdi/claim_files.h"
#include "memory/types.h"
#include "observe/log.h"

namespace dracpu::agent {
namespace {

using observe::log_info;
using observe::log_warning;

double seconds(Deadline::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

std::string full_name(const kubelet::ClaimRef& ref) { return ref.ns + "/" + ref.name; }

}  // namespace

std::string amounts_text(const memory::Claim& claim) {
  std::string out;
  for (const auto& [kind, by_node] : memory::amounts_of(claim)) {
    for (const auto& [node, bytes] : by_node) {
      out += fmt::format("{}{} on node {}: {}", out.empty() ? "" : ", ", memory::resource_name(kind),
                         node.get(), memory::text_of(bytes));
    }
  }
  return out;
}

void update_memory_gauges(Books& books, observe::Metrics& metrics) {
  if (!metrics.memory) return;
  observe::SpanGauge::Values held;
  observe::SpanGauge::Values left;
  std::size_t claims = 0;
  books.with_memory([&](const MemoryBook& m) {
    claims = m.accounts.claims().size();
    for (const memory::Standing& s : m.accounts.standings()) {
      const std::pair<int, std::string> span{s.node.get(), memory::resource_name(s.kind)};
      held[span] = static_cast<double>(s.held.count);
      left[span] = static_cast<double>(s.left().count);
    }
  });
  metrics.memory->allocated_bytes.set(std::move(held));
  metrics.memory->available_bytes.set(std::move(left));
  metrics.memory->resource_claims_active.set(claims);
}

Status FreePagesReader::read() {
  if (pages_ || !node_.config.memory.verify_free_hugepages) return ok_status();
  Result<topology::MachineMemory> now = topology::read_memory(node_.files);
  if (!now.ok()) return std::move(now).error().while_doing("reading the free hugepages");
  pages_ = memory::free_pages_of(*now);
  return ok_status();
}

Result<memory::ClaimFacts> memory_facts(const kube::Claim& claim, const ClaimUid& uid,
                                        std::string_view driver, const std::string& pool) {
  if (claim.uid != uid) {
    return make_error(Errc::kConflict,
                      "claim {}/{} was replaced: the kubelet names uid {}, the API server has {}", claim.ns,
                      claim.name, uid.get(), claim.uid.get());
  }
  memory::ClaimFacts out{claim.ns, claim.name, claim.allocation.has_value(), {}, {}};
  for (const kube::Consumer& c : claim.reserved_for) out.reserved_for.push_back({c.resource, PodUid(c.uid)});
  if (!claim.allocation) return out;
  for (const kube::AllocationResult& r : claim.allocation->results) {
    if (r.driver != driver) continue;
    if (r.pool != pool) {
      return make_error(Errc::kInvalidInput,
                        "claim {}/{}: device \"{}\" is of pool \"{}\", this node's pool is \"{}\"", claim.ns,
                        claim.name, r.device, r.pool, pool);
    }
    out.results.push_back({r.request, r.pool, r.device, r.share_id, r.admin_access, r.consumed_capacity});
  }
  return out;
}

// One NodePrepareResources call: its distinct claims, what was read of them, who waits.
struct MemoryService::Call {
  std::string op = observe::new_op_id();
  Deadline::Clock::time_point begun = Deadline::Clock::now();
  std::vector<kubelet::ClaimRef> claims;
  std::vector<std::optional<Result<kube::Claim>>> read;
  std::atomic<std::size_t> missing{0};
  kubelet::PrepareResults results;
  std::function<void(kubelet::PrepareResults)> done;
};

MemoryService::MemoryService(const Node& node, Books& books, Worker& worker, ClaimReader reader,
                             observe::Metrics& metrics, Hooks hooks)
    : node_(node),
      books_(books),
      worker_(worker),
      reader_(std::move(reader)),
      metrics_(metrics),
      hooks_(std::move(hooks)),
      metadata_(node, std::string(memory::kDriverName)) {
  update_memory_gauges(books_, metrics_);
  worker_.post([this] {
    std::set<ClaimUid> held;
    books_.with_memory([&](const MemoryBook& m) {
      for (const auto& [uid, claim] : m.accounts.claims()) held.insert(uid);
    });
    metadata_.sweep(held);
  });
}

void MemoryService::prepare(std::vector<kubelet::ClaimRef> claims, Deadline deadline,
                            std::function<void(kubelet::PrepareResults)> done) {
  auto call = std::make_shared<Call>();
  call->done = std::move(done);
  std::set<ClaimUid> seen;
  for (kubelet::ClaimRef& ref : claims) {
    if (seen.insert(ref.uid).second) call->claims.push_back(std::move(ref));
  }
  log_info(4, "Prepare of memory begins", {{"opID", call->op}, {"claims", call->claims.size()}});
  if (call->claims.empty()) {
    call->done({});
    return;
  }
  call->read.resize(call->claims.size());
  call->missing = call->claims.size();
  const Deadline limit(std::min(deadline.at(), Deadline::after(kClaimReadLimit).at()));
  for (std::size_t i = 0; i < call->claims.size(); ++i) {
    reader_(call->claims[i].ns, call->claims[i].name, limit,
            [this, call, i](Result<kube::Claim> claim) { claim_read(call, i, std::move(claim)); });
  }
}

void MemoryService::claim_read(const std::shared_ptr<Call>& call, std::size_t index,
                               Result<kube::Claim> claim) {
  call->read[index] = std::move(claim);
  if (call->missing.fetch_sub(1) != 1) return;
  {
    const Locked lock(mutex_);
    ready_.push_back(call);
    if (ready_.size() > 1) return;  // a drain is posted already and will take this one too
  }
  worker_.post([this] { drain(); });
}

std::vector<kubelet::PreparedDevice> MemoryService::answer(const ClaimUid& uid, const memory::Claim& claim,
                                                           std::map<std::string, std::string> metadata) {
  std::vector<kubelet::PreparedDevice> out;
  out.reserve(claim.grants.size());
  for (const memory::Grant& g : claim.grants) {
    const std::string request(kube::base_request(g.request));
    kubelet::PreparedDevice device{
        {request}, g.pool, g.device, {cdi::device_id(cdi::kMemoryFiles, uid)}, g.share_id};
    // The file of a request is mounted once, by its first device.
    if (auto file = metadata.extract(request)) device.cdi_device_ids.push_back(std::move(file.mapped()));
    out.push_back(std::move(device));
  }
  return out;
}

std::map<std::string, std::string> MemoryService::write_metadata(const ClaimUid& uid,
                                                                 const memory::Claim& claim,
                                                                 const std::string& pod_claim) const {
  std::vector<device::Device> devices;
  for (const device::Slice& slice : hooks_.view()->published.slices)
    devices.insert(devices.end(), slice.devices.begin(), slice.devices.end());
  return metadata_.write(devices, {uid, claim.ns, claim.name, pod_claim}, metadata_grants(claim.grants));
}

Result<std::vector<kubelet::PreparedDevice>> MemoryService::answer_again(const ClaimUid& uid,
                                                                         const memory::Claim& claim) {
  if (Status s = books_.rewrite_memory_cdi(uid); !s.ok())
    return std::move(s).error().while_doing("writing the claim's CDI file");
  return answer(uid, claim, metadata_.existing(uid, metadata_grants(claim.grants)));
}

std::optional<memory::Claim> MemoryService::prepared(const ClaimUid& uid) const {
  return books_.with_memory([&](const MemoryBook& m) {
    const auto it = m.accounts.claims().find(uid);
    // An adopted claim does not know its devices.
    const bool complete = it != m.accounts.claims().end() && it->second.committed &&
                          std::none_of(it->second.grants.begin(), it->second.grants.end(),
                                       [](const memory::Grant& g) { return g.device.empty(); });
    return complete ? std::optional<memory::Claim>(it->second) : std::nullopt;
  });
}

void MemoryService::drain() {
  std::vector<std::shared_ptr<Call>> calls;
  {
    const Locked lock(mutex_);
    calls.swap(ready_);
  }
  const Status allowed = hooks_.may_prepare();
  std::vector<MemoryOrder> orders;
  std::vector<Place> places;
  for (const std::shared_ptr<Call>& call : calls) {
    for (std::size_t i = 0; i < call->claims.size(); ++i) {
      const kubelet::ClaimRef& ref = call->claims[i];
      if (!allowed.ok()) {
        call->results.emplace(ref.uid, allowed.error());
        continue;
      }
      const Result<kube::Claim>& read = *call->read[i];
      if (!read.ok()) {
        // The API server is away: a claim that is prepared already is answered from the books.
        const std::optional<memory::Claim> known = prepared(ref.uid);
        if (read.error().code == Errc::kUnavailable && known) {
          call->results.emplace(ref.uid, answer_again(ref.uid, *known));
        } else {
          call->results.emplace(
              ref.uid, Error(read.error()).while_doing(fmt::format("reading claim {}", full_name(ref))));
        }
        continue;
      }
      Result<memory::ClaimFacts> facts = memory_facts(*read, ref.uid, memory::kDriverName, node_.name);
      if (!facts.ok()) {
        call->results.emplace(ref.uid, std::move(facts).error());
        continue;
      }
      if (comes_with_memory(node_.config) && !facts->results.empty() && !prepared(ref.uid)) {
        call->results.emplace(
            ref.uid,
            make_error(Errc::kUnsupported,
                       "claim {}: memory.mode is \"combined\", devices of {} are served no more; ask "
                       "{} for memory with the CPUs",
                       full_name(ref), memory::kDriverName, node_.config.publish.driver_name));
        continue;
      }
      orders.push_back({ref.uid, *std::move(facts)});
      places.push_back({call.get(), &ref, read->pod_claim_name});
    }
  }
  if (!orders.empty()) prepare_orders(orders, places);
  for (const std::shared_ptr<Call>& call : calls) finish(*call);
}

void MemoryService::prepare_orders(const std::vector<MemoryOrder>& orders, const std::vector<Place>& places) {
  FreePagesReader free(node_);
  if (const Status read = free.read(); !read.ok()) {
    for (std::size_t i = 0; i < orders.size(); ++i)
      places[i].call->results.emplace(orders[i].uid, read.error());
    return;
  }
  std::vector<Result<memory::Claim>> prepared = books_.prepare_memory(orders, free.pages());
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (!prepared[i].ok()) {
      places[i].call->results.emplace(orders[i].uid, std::move(prepared[i]).error());
      continue;
    }
    const memory::Claim& claim = *prepared[i];
    if (!claim.grants.empty()) {
      log_info(2, "Memory claim prepared",
               {{"opID", places[i].call->op},
                {"claim", full_name(*places[i].ref)},
                {"claimUID", orders[i].uid.get()},
                {"amounts", amounts_text(claim)}});
    }
    places[i].call->results.emplace(
        orders[i].uid,
        answer(orders[i].uid, claim, write_metadata(orders[i].uid, claim, places[i].pod_claim)));
  }
  update_memory_gauges(books_, metrics_);
}

void MemoryService::finish(Call& call) {
  const auto took = Deadline::Clock::now() - call.begun;
  for (std::size_t i = 0; i < call.claims.size(); ++i) {
    const kubelet::ClaimRef& ref = call.claims[i];
    const Result<std::vector<kubelet::PreparedDevice>>& result = call.results.at(ref.uid);
    metrics_.memory->prepare_claims_total.inc(result.ok() ? observe::Outcome::kSuccess
                                                          : observe::Outcome::kError);
    metrics_.memory->prepare_claim_duration_seconds.observe(seconds(took));
    if (result.ok()) continue;
    const Error& why = result.error();
    metrics_.claims_refused_total.inc(name_of(why.code));
    if (hooks_.tell_pod && call.read[i] && call.read[i]->ok()) {
      for (const kube::Consumer& c : (**call.read[i]).reserved_for) {
        if (c.resource == "pods")
          hooks_.tell_pod({ref.ns, c.name, c.uid}, "ClaimRefused",
                          fmt::format("claim {}: {}", ref.name, why.text));
      }
    }
    if (hooks_.refused) hooks_.refused("claim " + full_name(ref), why.text);
    log_info(0, "Memory claim refused",
             {{"opID", call.op},
              {"claim", full_name(ref)},
              {"claimUID", ref.uid.get()},
              {"reason", name_of(why.code)},
              {"err", why.text}});
  }
  log_info(4, "Prepare of memory ends",
           {{"opID", call.op},
            {"claims", call.claims.size()},
            {"ms", std::chrono::duration_cast<std::chrono::milliseconds>(took).count()}});
  call.done(std::move(call.results));
}

void MemoryService::unprepare(std::vector<kubelet::ClaimRef> claims, Deadline /*deadline*/,
                              std::function<void(kubelet::UnprepareResults)> done) {
  worker_.post([this, claims = std::move(claims), done = std::move(done)] {
    const std::string op = observe::new_op_id();
    std::vector<ClaimUid> uids;
    std::vector<const kubelet::ClaimRef*> refs;
    for (const kubelet::ClaimRef& ref : claims) {
      if (std::find(uids.begin(), uids.end(), ref.uid) != uids.end()) continue;
      uids.push_back(ref.uid);
      refs.push_back(&ref);
    }
    std::vector<Status> ended = books_.unprepare_memory(uids);
    for (std::size_t i = 0; i < uids.size(); ++i) {
      if (ended[i].ok()) ended[i] = metadata_.remove(uids[i], refs[i]->ns, refs[i]->name);
    }
    kubelet::UnprepareResults results;
    for (std::size_t i = 0; i < uids.size(); ++i) {
      metrics_.memory->unprepare_claims_total.inc(ended[i].ok() ? observe::Outcome::kSuccess
                                                                : observe::Outcome::kError);
      if (ended[i].ok()) {
        log_info(2, "Memory claim released", {{"opID", op}, {"claimUID", uids[i].get()}});
      } else {
        log_info(0, "Memory claim cannot be released",
                 {{"opID", op}, {"claimUID", uids[i].get()}, {"err", ended[i].error().text}});
      }
      results.emplace(uids[i], std::move(ended[i]));
    }
    update_memory_gauges(books_, metrics_);
    done(std::move(results));
  });
}

void MemoryService::on_registration(bool registered, const std::string& error) {
  hooks_.registration(registered, error);
}

void MemoryService::collect_lost_claims() {
  struct Candidate {
    ClaimUid uid;
    std::string ns;
    std::string name;
  };
  std::vector<Candidate> candidates;
  std::vector<ClaimUid> unprovable;
  books_.with_memory([&](const MemoryBook& m) {
    for (const ClaimUid& uid : m.claims_without_container()) {
      if (m.comes_with_cpus(uid)) continue;  // the CPUs' driver looks after it
      const memory::Claim& claim = m.accounts.claims().at(uid);
      // Claims adopted from another driver's CDI file have no name until they are prepared again.
      if (!claim.name.empty()) {
        candidates.push_back({uid, claim.ns, claim.name});
      } else if (m.unprovable.contains(uid)) {
        unprovable.push_back(uid);
      }
    }
  });
  if (hooks_.may_prepare().ok()) {
    for (const ClaimUid& uid : unprovable) release_lost(uid, kEndedElsewhere);
  }
  for (const Candidate& c : candidates) {
    reader_(c.ns, c.name, Deadline::after(kClaimLookupLimit), [this, c](Result<kube::Claim> claim) {
      std::optional<std::string> why = why_lost(claim, c.uid);
      if (!why) return;
      worker_.post([this, uid = c.uid, why = *std::move(why)] { release_lost(uid, why); });
    });
  }
}

void MemoryService::release_lost(const ClaimUid& uid, const std::string& why) {
  memory::Claim claim;
  const bool still_lost = books_.with_memory([&](const MemoryBook& m) {
    const std::vector<ClaimUid> lost = m.claims_without_container();
    if (std::find(lost.begin(), lost.end(), uid) == lost.end()) return false;
    claim = m.accounts.claims().at(uid);
    return true;
  });
  if (!still_lost) return;
  std::vector<Status> ended = books_.unprepare_memory({uid});
  if (ended[0].ok()) ended[0] = metadata_.remove(uid, claim.ns, claim.name);
  log_warning("Lost memory claim released",
              {{"claimUID", uid.get()}, {"why", why}, {"err", ended[0].ok() ? "" : ended[0].error().text}});
  metrics_.lost_claims_total.inc();
  update_memory_gauges(books_, metrics_);
}

}  // namespace dracpu::agent
