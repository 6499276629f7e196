// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/books.h"

#include <map>
#include <set>

#include "agent/state_codec.h"
#include "base/strings.h"
#include "config/load.h"

namespace dracpu::agent {
namespace {

std::string read_boot_id() {
  Result<std::string> id = read_file("/proc/sys/kernel/random/boot_id");
  return id.ok() ? std::string(trim(*id)) : std::string();
}

}  // namespace

Books::Books(const Node& node, const Machine& machine, FileOps& ops)
    : node_(node),
      boot_id_(read_boot_id()),
      state_(config::state_file(node.config), ops),
      cdi_(node.config.runtime.cdi_dir, ops),
      ledger_(machine.managed, node.config.node.reserved_cpus, machine.topology.offline,
              picker_for(node_, machine)) {}

void Books::set_machine(const Machine& machine) {
  with_ledger([&](ledger::Ledger& l) {
    l.set_machine(machine.managed, machine.topology.offline, picker_for(node_, machine));
  });
}

Result<Books::Loaded> Books::load() {
  Loaded out;
  State state;
  Result<std::string> payload = state_.load();
  if (payload.ok()) {
    Result<State> decoded = decode_state(*payload);
    if (decoded.ok()) {
      state = *std::move(decoded);
    } else {
      payload =
          std::move(decoded).error().while_doing(fmt::format("state file \"{}\"", state_.path().string()));
    }
  }
  if (!payload.ok() && payload.error().code == Errc::kUnavailable) return std::move(payload).error();
  if (!payload.ok() && payload.error().code != Errc::kNotFound) {
    Result<std::filesystem::path> aside = state_.set_aside();
    out.warnings.push_back(fmt::format("{}; kept as {}, rebuilding from CDI files and running containers",
                                       payload.error().text,
                                       aside.ok() ? aside->string() : aside.error().text));
  }
  if (!state.node.empty() && state.node != node_.name) {
    Result<std::filesystem::path> aside = state_.set_aside();
    out.warnings.push_back(fmt::format("state file \"{}\" is of node \"{}\", this is \"{}\"; kept as {}",
                                       state_.path().string(), state.node, node_.name,
                                       aside.ok() ? aside->string() : aside.error().text));
    state.claims.clear();
  }
  out.new_boot = !state.boot_id.empty() && state.boot_id != boot_id_;
  if (Result<std::size_t> swept = cdi_.sweep(); !swept.ok()) return std::move(swept).error();
  Result<std::vector<cdi::Entry>> entries = cdi_.list();
  if (!entries.ok()) return std::move(entries).error();
  const Locked lock(mutex_);
  for (auto& [uid, claim] : state.claims) {
    Status adopted = ledger_.adopt(uid, std::move(claim));
    if (adopted.ok()) {
      ++out.from_state;
    } else {
      out.warnings.push_back("state file: " + adopted.error().text);
    }
  }
  for (const cdi::Entry& entry : *entries) {
    if (!entry.cpus.ok()) {
      out.warnings.push_back(
          fmt::format("CDI file \"{}\": {}", entry.path.string(), entry.cpus.error().text));
      continue;
    }
    const auto known = ledger_.claims().find(entry.uid);
    if (known != ledger_.claims().end()) {
      if (known->second.cpus != *entry.cpus) {
        out.warnings.push_back(
            fmt::format("CDI file \"{}\" says CPUs {}, the state file has {}; the state file counts",
                        entry.path.string(), entry.cpus->to_string(), known->second.cpus.to_string()));
      }
      continue;
    }
    ledger::Claim claim;
    claim.cpus = *entry.cpus;
    claim.committed = true;
    Status adopted = ledger_.adopt(entry.uid, std::move(claim));
    if (adopted.ok()) {
      ++out.from_cdi;
    } else {
      out.warnings.push_back(fmt::format("CDI file \"{}\": {}", entry.path.string(), adopted.error().text));
    }
  }
  return out;
}

Status Books::write_state() {
  State state{boot_id_, node_.name, node_.config.publish.driver_name, {}};
  {
    const Locked lock(mutex_);
    state.claims = ledger_.claims();
  }
  return state_.save(encode_state(state));
}

Status Books::save() {
  Status s = write_state();
  save_owed_ = !s.ok();
  return s;
}

std::vector<Result<ledger::Claim>> Books::prepare(const std::vector<PrepareOrder>& orders) {
  std::vector<Result<ledger::Claim>> out;
  out.reserve(orders.size());
  std::set<ClaimUid> fresh;
  bool changed = save_owed_;
  {
    const Locked lock(mutex_);
    for (const PrepareOrder& order : orders) {
      const auto before = ledger_.claims().find(order.uid);
      const bool known = before != ledger_.claims().end();
      const ledger::Claim old = known ? before->second : ledger::Claim{};
      out.push_back(ledger_.prepare(order.uid, order.ns, order.name, order.requests));
      if (!out.back().ok()) continue;
      if (!out.back()->committed) fresh.insert(order.uid);
      changed = changed || !known || !(old == *out.back());
    }
  }
  if (changed) {
    if (Status s = save(); !s.ok()) {
      const Locked lock(mutex_);
      for (std::size_t i = 0; i < orders.size(); ++i) {
        if (!out[i].ok() || !fresh.contains(orders[i].uid)) continue;
        ledger_.abort(orders[i].uid);
        out[i] = make_error(Errc::kUnavailable, "the state file cannot be written, nothing was prepared: {}",
                            s.error().text);
      }
    }
  }
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (!out[i].ok()) continue;
    Status written = cdi_.write_claim(orders[i].uid, out[i]->cpus);
    const Locked lock(mutex_);
    if (written.ok()) {
      ledger_.commit(orders[i].uid);
      continue;
    }
    if (fresh.contains(orders[i].uid)) {
      ledger_.abort(orders[i].uid);
      save_owed_ = true;
    }
    out[i] = std::move(written).error().while_doing("writing the claim's CDI file");
  }
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
    out.push_back(cdi_.remove_claim(uid));
    if (!out.back().ok()) continue;
    const Locked lock(mutex_);
    changed = ledger_.release(uid) || changed;
  }
  // A failed save is owed, not an error: the claim is released, and a replay after a crash is harmless
  // (RULINGS 11).
  if (changed) (void)save();
  return out;
}

std::vector<Error> Books::rewrite_missing_cdi() {
  std::vector<Error> out;
  std::map<ClaimUid, CpuSet> on_disk;
  Result<std::vector<cdi::Entry>> entries = cdi_.list();
  if (entries.ok()) {
    for (cdi::Entry& entry : *entries) {
      if (entry.cpus.ok()) on_disk[entry.uid] = *std::move(entry.cpus);
    }
  } else {
    out.push_back(std::move(entries).error());
  }
  std::map<ClaimUid, CpuSet> wanted;
  {
    const Locked lock(mutex_);
    for (const auto& [uid, claim] : ledger_.claims()) wanted[uid] = claim.cpus;
  }
  for (const auto& [uid, cpus] : wanted) {
    const auto it = on_disk.find(uid);
    if (it != on_disk.end() && it->second == cpus) continue;
    if (Status s = cdi_.write_claim(uid, cpus); !s.ok()) out.push_back(std::move(s).error());
  }
  return out;
}

}  // namespace dracpu::agent
