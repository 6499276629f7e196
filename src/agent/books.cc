// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/books.h"

#include <algorithm>
#include <ctime>

#include "agent/claim_metadata.h"
#include "agent/reconcile.h"
#include "config/load.h"
#include "ledger/claim_env.h"

namespace dracpu::agent {
Books::Books(const Node& node, const Machine& machine, FileOps& ops)
    : node_(node),
      boot_id_(boot_id()),
      state_(config::state_file(node.config), ops),
      cdi_(node.config.runtime.cdi_dir, ops),
      memory_cdi_(node.config.runtime.cdi_dir, cdi::kMemoryFiles, ops),
      ledger_(machine.managed, node.config.node.reserved_cpus, machine.topology.offline,
              picker_for(node_, machine)),
      memory_{.accounts = memory::Accounts(node.config.memory.mode), .mode = node.config.memory.mode} {
  if (machine.memory) set_memory(*machine.memory);
}

void Books::set_machine(const Machine& machine) {
  with_ledger([&](ledger::Ledger& l) {
    l.set_machine(machine.managed, machine.topology.offline, picker_for(node_, machine));
  });
}

// Nothing if there is no state that counts.
Result<std::optional<State>> Books::read_state(Loaded& out) {
  const auto set_aside = [&](const std::string& why) {
    const Result<std::filesystem::path> aside = state_.set_aside();
    out.warnings.push_back(fmt::format("{}; {}, rebuilding from CDI files and running containers", why,
                                       aside.ok() ? "kept as " + aside->string() : aside.error().text));
    return std::optional<State>();
  };
  Result<State> state = load_state(state_);
  if (!state.ok()) {
    if (state.error().code == Errc::kUnavailable) return std::move(state).error();
    if (state.error().code == Errc::kNotFound) {
      // Set aside by a start that died before it could say so, or before it had written a new one.
      if (const auto aside = state_.kept_aside(); !aside.empty()) {
        out.warnings.push_back(
            fmt::format("there is no state file \"{}\", but an unreadable one was kept as {}",
                        state_.path().string(), aside.back().string()));
      }
      return std::optional<State>();
    }
    return set_aside(state.error().text);
  }
  if (state->node != node_.name)
    return set_aside(fmt::format("state file \"{}\" is of node \"{}\", this is \"{}\"",
                                 state_.path().string(), state->node, node_.name));
  // A claim of it may be prepared again without a change, and so without a write.
  if (!state_.sync().ok()) save_owed_ = true;
  return std::optional<State>(*std::move(state));
}

Result<Books::Loaded> Books::load() {
  Loaded out;
  Result<std::optional<State>> state = read_state(out);
  if (!state.ok()) return std::move(state).error();
  std::optional<ClaimMap> own;
  std::map<ClaimUid, memory::Claim> own_memory;
  if (*state) {
    out.new_boot = (*state)->boot_id != boot_id_;
    out.renamed = (*state)->driver != node_.config.publish.driver_name;
    own = std::move((*state)->claims);
    own_memory = std::move((*state)->memory);
    unknown_ = std::move((*state)->unknown);
  }
  if (Result<std::size_t> swept = cdi_.sweep(); !swept.ok()) return std::move(swept).error();
  Result<std::vector<cdi::Entry>> entries = cdi_.list();
  if (!entries.ok()) return std::move(entries).error();

  Reconciled found = reconcile(own, *entries);
  out.from_state = found.from_state;
  out.from_cdi = found.from_cdi;
  conflicts_ = out.conflicts = found.conflicts;
  out.stale = found.stale;
  for (std::string& w : found.warnings) out.warnings.push_back(std::move(w));
  std::set<ClaimUid> with_file;
  for (const cdi::Entry& e : *entries) with_file.insert(e.uid);
  std::set<ClaimUid> unprovable;
  const cdi::MetadataFiles metadata = metadata_files(node_, node_.config.publish.driver_name);
  for (auto& [uid, claim] : found.claims) {
    if (!claim.name.empty()) continue;
    if (std::optional<cdi::ClaimPlace> place = metadata.place_of(uid)) {
      claim.ns = std::move(place->ns);
      claim.name = std::move(place->name);
    } else if (!with_file.contains(uid) && found.stale) {
      unprovable.insert(uid);
      out.warnings.push_back(fmt::format(
          "claim {} has neither a name nor a CDI file any more; CPUs {} are held if a container runs with it",
          uid.get(), claim.cpus.to_string()));
    } else {
      out.warnings.push_back(
          fmt::format("claim {} is known from its CDI file alone, without its name; CPUs {} are held until "
                      "it is prepared again or unprepared",
                      uid.get(), claim.cpus.to_string()));
    }
  }
  if (Status s = load_memory(std::move(own_memory), out); !s.ok()) return std::move(s).error();
  const Locked lock(mutex_);
  for (auto& [uid, claim] : found.claims) {
    if (Status adopted = ledger_.adopt(uid, std::move(claim)); !adopted.ok())
      out.warnings.push_back(adopted.error().text);
  }
  disputed_ = std::move(found.disputed);
  unconfirmed_ = std::move(found.unconfirmed);
  unprovable_ = std::move(unprovable);
  return out;
}

std::vector<std::string> Books::settle(const std::vector<ledger::ContainerFacts>& containers) {
  std::vector<std::string> out;
  const Locked lock(mutex_);
  if (disputed_.empty()) return out;
  for (const ledger::ContainerFacts& c : containers) {
    const Result<ledger::ClaimCpus> named = ledger::read_claim_env(*c.env);
    if (!named.ok()) continue;
    for (const auto& [uid, cpus] : *named) {
      const auto disputed = disputed_.find(uid);
      const auto held = ledger_.claims().find(uid);
      if (disputed == disputed_.end() || held == ledger_.claims().end() || disputed->second != cpus) continue;
      ledger::Claim claim = held->second;
      std::string was = claim.cpus.to_string();
      claim.cpus = cpus;
      claim.grants.clear();
      claim.owner = c.who;
      if (Status moved = ledger_.adopt(uid, std::move(claim)); !moved.ok()) {
        out.push_back(moved.error().text);
      } else {
        out.push_back(fmt::format(
            "claim {} has CPUs {}, as its CDI file and container \"{}\" of pod {} say, and not {} as in the "
            "state file",
            uid.get(), cpus.to_string(), c.who.container, c.pod, was));
      }
    }
  }
  disputed_.clear();
  return out;
}

bool Books::is_unconfirmed(const ClaimUid& uid) {
  const Locked lock(mutex_);
  return unconfirmed_.contains(uid);
}

void Books::confirm(const ClaimUid& uid) {
  const Locked lock(mutex_);
  unconfirmed_.erase(uid);
}

bool Books::is_unprovable(const ClaimUid& uid) {
  const Locked lock(mutex_);
  if (ledger_.claims().contains(uid) || !memory_.comes_with_cpus(uid)) return unprovable_.contains(uid);
  return memory_.unprovable.contains(uid);
}

bool Books::has_unconfirmed() {
  const Locked lock(mutex_);
  return !unconfirmed_.empty();
}

Status Books::write_state() {
  State state{boot_id_, node_.name, node_.config.publish.driver_name, {}, {}, unknown_};
  {
    const Locked lock(mutex_);
    state.claims = ledger_.claims();
    state.memory = memory_.accounts.claims();
  }
  return state_.save(encode_state(state));
}

Status Books::save() {
  const auto begun = std::chrono::steady_clock::now();
  Status s = write_state();
  save_owed_ = !s.ok();
  if (observer_) observer_(std::chrono::steady_clock::now() - begun, s.ok());
  return s;
}

// Undoes what prepare() did for these claims.
void Books::give_back(const Batch& batch) {
  const Locked lock(mutex_);
  for (const ClaimUid& uid : batch.fresh) ledger_.abort(uid);
  for (const auto& [uid, claim] : batch.before) (void)ledger_.adopt(uid, claim);  // it is free again
  for (const ClaimUid& uid : batch.fresh_memory) memory_.accounts.abort(uid);
}

std::vector<Result<ledger::Claim>> Books::prepare(const std::vector<PrepareOrder>& orders,
                                                  const memory::FreePages* free_pages) {
  std::vector<const PrepareOrder*> distinct;
  std::map<ClaimUid, std::size_t> place;
  for (const PrepareOrder& order : orders) {
    if (place.emplace(order.uid, distinct.size()).second) distinct.push_back(&order);
  }
  const std::vector<Result<ledger::Claim>> done = prepare_distinct(distinct, free_pages);
  std::vector<Result<ledger::Claim>> out;
  out.reserve(orders.size());
  for (const PrepareOrder& order : orders) {
    const std::size_t at = place.at(order.uid);
    if (order.requests == distinct[at]->requests && order.memory == distinct[at]->memory) {
      out.push_back(done[at]);
    } else {
      out.push_back(make_error(Errc::kUnavailable,
                               "claim {} was asked for twice at once, with different allocations; try again",
                               order.uid.get()));
    }
  }
  return out;
}

Result<ledger::Claim> Books::hold_cpus(const PrepareOrder& order, Batch& batch) {
  const auto known = ledger_.claims().find(order.uid);
  std::optional<ledger::Claim> old;
  if (known != ledger_.claims().end()) old = known->second;
  if (!old && node_.config.memory.enabled) {
    if (Status s = memory_.accounts.check_mode(); !s.ok()) return std::move(s).error();
  }
  Result<ledger::Claim> out = ledger_.prepare(order.uid, order.ns, order.name, order.requests);
  if (!out.ok()) return out;
  unconfirmed_.erase(order.uid);
  if (!out->committed) {
    out->prepared_at = ledger_.stamp(order.uid, std::time(nullptr));
    batch.fresh.insert(order.uid);
    if (old) batch.before.emplace(order.uid, *old);
  }
  batch.changed = batch.changed || !old || !(*old == *out);
  return out;
}

std::vector<Result<ledger::Claim>> Books::prepare_distinct(const std::vector<const PrepareOrder*>& orders,
                                                           const memory::FreePages* free_pages) {
  std::vector<Result<ledger::Claim>> out;
  out.reserve(orders.size());
  Batch batch;
  batch.changed = save_owed_;
  {
    const Locked lock(mutex_);
    for (const PrepareOrder* order : orders) out.push_back(hold(*order, free_pages, batch));
  }
  const auto is_fresh = [&](const ClaimUid& uid) {
    return batch.fresh.contains(uid) || batch.fresh_memory.contains(uid);
  };
  if (batch.changed) {
    if (Status s = save(); !s.ok()) {
      give_back(batch);
      for (std::size_t i = 0; i < orders.size(); ++i) {
        if (!out[i].ok() || !is_fresh(orders[i]->uid)) continue;
        out[i] = make_error(Errc::kUnavailable, "the state file cannot be written, nothing was prepared: {}",
                            s.error().text);
      }
    }
  }
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (!out[i].ok()) continue;
    const ClaimUid& uid = orders[i]->uid;
    Status written = rewrite_cdi(uid);
    if (written.ok()) {
      const Locked lock(mutex_);
      ledger_.commit(uid);
      if (orders[i]->memory) memory_.accounts.commit(uid);
      continue;
    }
    // Picked anew, it has given up what its old file names, and others may have that by now.
    const auto old = batch.before.find(uid);
    if (old != batch.before.end() && old->second.cpus != out[i]->cpus) (void)cdi_.remove_claim(uid);
    // A file that may be there counts: its claim stays held, and the next prepare or unprepare settles it.
    if (is_fresh(uid) && old == batch.before.end() && !cdi_.may_have(uid) &&
        (!batch.fresh_memory.contains(uid) || !memory_cdi_.may_have(uid) || memory_cdi_.remove(uid).ok())) {
      const Locked lock(mutex_);
      ledger_.abort(uid);
      if (batch.fresh_memory.contains(uid)) memory_.accounts.abort(uid);
      save_owed_ = true;
    }
    out[i] = std::move(written).error().while_doing("writing the claim's CDI file");
  }
  return out;
}

Holding Books::holding_of(const ClaimUid& uid) {
  const Locked lock(mutex_);
  Holding out;
  if (const auto it = ledger_.claims().find(uid); it != ledger_.claims().end()) out.cpus = it->second;
  if (memory_.comes_with_cpus(uid)) out.memory = memory_.accounts.claims().at(uid);
  return out;
}

std::vector<Status> Books::unprepare(const std::vector<ClaimUid>& uids) {
  std::vector<Status> out;
  out.reserve(uids.size());
  bool changed = save_owed_;
  for (const ClaimUid& uid : uids) {
    if (!cdi::check_uid(uid).ok()) {  // never prepared: no file can have that name
      out.push_back(ok_status());
      continue;
    }
    const bool has_memory = with_memory([&](const MemoryBook& m) { return m.comes_with_cpus(uid); });
    out.push_back(has_memory ? memory_cdi_.remove(uid) : ok_status());
    if (out.back().ok()) out.back() = cdi_.remove_claim(uid);
    if (!out.back().ok()) continue;
    const Locked lock(mutex_);
    unconfirmed_.erase(uid);
    disputed_.erase(uid);
    changed = ledger_.release(uid) || changed;
    if (has_memory) changed = memory_.accounts.release(uid) || changed;
  }
  // A failed save is owed, not an error: the claim is released, and a replay after a crash is harmless
  // (RULINGS 11).
  if (changed) (void)save();
  return out;
}

// Memory first, as it is held first.
Status Books::rewrite_cdi(const ClaimUid& uid) {
  const Holding held = holding_of(uid);
  if (held.memory) {
    if (Status s = rewrite_memory_cdi(uid); !s.ok()) return s;
  }
  return held.cpus ? cdi_.write_claim(uid, held.cpus->cpus) : ok_status();
}

std::vector<Error> Books::rewrite_missing_cdi() {
  std::vector<Error> out;
  std::map<ClaimUid, CpuSet> on_disk;
  std::set<ClaimUid> twice;  // in the file of all claims too: no runtime takes that, and writing mends it
  Result<std::vector<cdi::Entry>> entries = cdi_.list();
  if (entries.ok()) {
    for (cdi::Entry& entry : *entries) {
      if (!entry.cpus.ok()) continue;
      if (!on_disk.emplace(entry.uid, *entry.cpus).second) twice.insert(entry.uid);
    }
  } else {
    out.push_back(std::move(entries).error());
  }
  std::map<ClaimUid, CpuSet> wanted;
  {
    const Locked lock(mutex_);
    for (const auto& [uid, claim] : ledger_.claims()) {
      if (!disputed_.contains(uid)) wanted[uid] = claim.cpus;
    }
  }
  for (const auto& [uid, cpus] : wanted) {
    const auto it = on_disk.find(uid);
    if (it != on_disk.end() && it->second == cpus && !twice.contains(uid)) continue;
    if (Status s = cdi_.write_claim(uid, cpus); !s.ok()) out.push_back(std::move(s).error());
  }
  return out;
}

}  // namespace dracpu::agent
