// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The memory half of the books.

#include <algorithm>

#include "agent/books.h"
#include "memory/environment.h"

namespace dracpu::agent {
namespace {

std::string name_of(const ClaimUid& uid, const memory::Claim& claim) {
  return claim.name.empty() ? uid.get() : fmt::format("{}/{} ({})", claim.ns, claim.name, uid.get());
}

// What a CDI file says of its claim, if it says everything and nothing else.
std::optional<memory::Amounts> amounts_in(const cdi::FileEntry& file) {
  if (!file.env.ok()) return std::nullopt;
  const Result<std::map<ClaimUid, memory::Statement>> stated =
      memory::read_environment(file.uid.get(), *file.env);
  if (!stated.ok() || stated->size() != 1 || stated->begin()->first != file.uid) return std::nullopt;
  return memory::complete(stated->begin()->second);
}

}  // namespace

std::vector<ClaimUid> MemoryBook::claims_without_container() const {
  std::set<ClaimUid> running;
  for (const auto& [id, claims] : containers) running.insert(claims.begin(), claims.end());
  std::vector<ClaimUid> out;
  for (const auto& [uid, claim] : accounts.claims()) {
    if (claim.committed && !running.contains(uid)) out.push_back(uid);
  }
  return out;
}

bool MemoryBook::comes_with_cpus(const ClaimUid& uid) const {
  const auto it = accounts.claims().find(uid);
  return it != accounts.claims().end() &&
         memory::mode_of(it->second).value_or(mode) == config::MemoryMode::kCombined;
}

std::vector<ledger::Grant> grants_of(const Holding& held) {
  std::vector<ledger::Grant> out;
  if (held.cpus) out = held.cpus->grants;
  if (!held.memory) return out;
  for (const memory::Grant& m : held.memory->grants) {
    ledger::Grant alone{m.request, m.pool, m.device, m.share_id, 0};
    const auto is_same = [&](ledger::Grant g) {
      g.cpus = 0;
      return g == alone;
    };
    if (std::none_of(out.begin(), out.end(), is_same)) out.push_back(std::move(alone));
  }
  return out;
}

void Books::set_memory(const MemoryView& view) {
  const Locked lock(mutex_);
  memory_.accounts.set_offers(view.published.offers);
  memory_.nodes_with_memory = view.inventory.nodes_with_memory;
}

Status Books::load_memory(std::map<ClaimUid, memory::Claim> own, Loaded& out) {
  std::vector<cdi::FileEntry> files;
  if (node_.config.memory.enabled) {
    if (Result<std::size_t> swept = memory_cdi_.sweep(); !swept.ok()) return std::move(swept).error();
    Result<std::vector<cdi::FileEntry>> listed = memory_cdi_.list();
    if (!listed.ok()) return std::move(listed).error();
    files = *std::move(listed);
  } else if (!own.empty()) {
    out.warnings.push_back(fmt::format(
        "{} claims hold memory, which the configuration has off; they are kept in the state file until "
        "memory.enabled is true again",
        own.size()));
  }
  const Locked lock(mutex_);
  std::set<ClaimUid> with_file;
  for (const cdi::FileEntry& f : files) with_file.insert(f.uid);
  for (const auto& [uid, claim] : own) {
    if (claim.name.empty() && !with_file.contains(uid) && out.stale && node_.config.memory.enabled)
      memory_.unprovable.insert(uid);
  }
  for (auto& [uid, claim] : own) {
    if (Status adopted = memory_.accounts.adopt(uid, std::move(claim)); !adopted.ok())
      out.warnings.push_back(adopted.error().text);
  }
  adopt_memory_files(files, out);
  out.memory_claims = memory_.accounts.claims().size();
  return ok_status();
}

// Amounts do not exclude each other as CPUs do, so each claim is judged by itself: the state file counts, and
// what only a file knows was prepared by another driver (RULINGS 8 and 9).
void Books::adopt_memory_files(const std::vector<cdi::FileEntry>& files, Loaded& out) {
  for (const cdi::FileEntry& file : files) {
    const std::optional<memory::Amounts> amounts = amounts_in(file);
    const auto known = memory_.accounts.claims().find(file.uid);
    if (known != memory_.accounts.claims().end()) {
      if (amounts && *amounts == memory::amounts_of(known->second)) continue;
      out.warnings.push_back(fmt::format(
          "CDI file \"{}\" differs from what claim {} holds of memory; the state file counts, the file is "
          "written again",
          file.path.string(), name_of(file.uid, known->second)));
      continue;
    }
    if (!amounts) {
      out.warnings.push_back(fmt::format(
          "CDI file \"{}\": {}; it is left alone", file.path.string(),
          file.env.ok() ? fmt::format("the variables of claim {} are not complete", file.uid.get())
                        : file.env.error().text));
      continue;
    }
    if (Status adopted = memory_.accounts.adopt(file.uid, memory::adopted_claim(*amounts)); !adopted.ok()) {
      out.warnings.push_back(adopted.error().text);
      continue;
    }
    ++out.memory_from_cdi;
    out.warnings.push_back(fmt::format(
        "claim {} is known from its CDI file alone; its memory is held until it is prepared again or "
        "unprepared",
        file.uid.get()));
  }
}

Result<memory::Claim> Books::hold_memory(const ClaimUid& uid, const memory::ClaimFacts& facts,
                                         const memory::FreePages* free_pages, Batch& batch) {
  const auto known = memory_.accounts.claims().find(uid);
  std::optional<memory::Claim> old;
  if (known != memory_.accounts.claims().end()) old = known->second;
  Result<memory::Claim> out = memory_.accounts.prepare(uid, facts, free_pages);
  if (!out.ok() || out->grants.empty()) return out;
  if (!out->committed) batch.fresh_memory.insert(uid);
  batch.changed = batch.changed || !old || !(*old == *out);
  return out;
}

// Combined mode: memory first, then CPUs; what the one has taken is given back if the other cannot be had.
Result<ledger::Claim> Books::hold(const PrepareOrder& order, const memory::FreePages* free_pages,
                                  Batch& batch) {
  const auto memory = memory_.accounts.claims().find(order.uid);
  const bool has_memory = memory != memory_.accounts.claims().end();
  // A claim from before the mode was changed has its memory from the other driver name.
  const bool is_elsewhere = has_memory && memory::mode_of(memory->second) == config::MemoryMode::kSeparate &&
                            order.memory && !memory::asks_for_memory(*order.memory);
  if (!order.memory || is_elsewhere) return hold_cpus(order, batch);
  const auto cpus = ledger_.claims().find(order.uid);
  const bool has_cpus = cpus != ledger_.claims().end();
  const bool wants_cpus = !order.requests.empty();
  // A half that was adopted from its file alone may lack the other.
  const bool is_complete = (has_cpus && !cpus->second.grants.empty()) ||
                           (has_memory && memory::mode_of(memory->second).has_value());
  const bool changed = batch.changed;
  const Result<memory::Claim> held = hold_memory(order.uid, *order.memory, free_pages, batch);
  if (!held.ok()) return held.error();
  const bool is_another = (has_cpus && !wants_cpus) ||
                          (is_complete && (has_cpus != wants_cpus || has_memory == held->grants.empty()));
  Result<ledger::Claim> out = ledger::Claim();  // as of memory alone
  if (is_another) {
    out = memory::prepared_differently(order.ns + "/" + order.name);
  } else if (wants_cpus) {
    out = hold_cpus(order, batch);
  }
  if (!out.ok() && !has_memory) {
    memory_.accounts.abort(order.uid);
    batch.fresh_memory.erase(order.uid);
    batch.changed = changed;
  }
  return out;
}

std::vector<Result<memory::Claim>> Books::prepare_memory(const std::vector<MemoryOrder>& orders,
                                                         const memory::FreePages* free_pages) {
  std::vector<Result<memory::Claim>> out;
  out.reserve(orders.size());
  Batch batch;
  batch.changed = save_owed_;
  {
    const Locked lock(mutex_);
    for (const MemoryOrder& order : orders)
      out.push_back(hold_memory(order.uid, order.facts, free_pages, batch));
  }
  if (batch.changed) {
    if (Status s = save(); !s.ok()) {
      give_back(batch);
      for (std::size_t i = 0; i < orders.size(); ++i) {
        if (!out[i].ok() || !batch.fresh_memory.contains(orders[i].uid)) continue;
        out[i] = make_error(Errc::kUnavailable, "the state file cannot be written, nothing was prepared: {}",
                            s.error().text);
      }
    }
  }
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (!out[i].ok() || out[i]->grants.empty()) continue;
    const ClaimUid& uid = orders[i].uid;
    Status written = memory_cdi_.write(uid, memory::format_environment(uid, memory::amounts_of(*out[i])));
    if (written.ok()) {
      const Locked lock(mutex_);
      memory_.accounts.commit(uid);
      continue;
    }
    // A file that may be there counts: its claim stays held, and the next prepare or unprepare settles it.
    if (batch.fresh_memory.contains(uid) && !memory_cdi_.may_have(uid)) {
      const Locked lock(mutex_);
      memory_.accounts.abort(uid);
      save_owed_ = true;
    }
    out[i] = std::move(written).error().while_doing("writing the claim's CDI file");
  }
  return out;
}

std::vector<Status> Books::unprepare_memory(const std::vector<ClaimUid>& uids) {
  std::vector<Status> out;
  out.reserve(uids.size());
  bool changed = save_owed_;
  for (const ClaimUid& uid : uids) {
    if (!cdi::check_uid(uid).ok()) {  // never prepared: no file can have that name
      out.push_back(ok_status());
      continue;
    }
    out.push_back(memory_cdi_.remove(uid));
    if (!out.back().ok()) continue;
    const Locked lock(mutex_);
    changed = memory_.accounts.release(uid) || changed;
  }
  // A failed save is owed, not an error, as for CPUs (RULINGS 11).
  if (changed) (void)save();
  return out;
}

Status Books::rewrite_memory_cdi(const ClaimUid& uid) {
  const memory::Amounts amounts = with_memory([&](const MemoryBook& m) {
    const auto it = m.accounts.claims().find(uid);
    return it == m.accounts.claims().end() ? memory::Amounts() : memory::amounts_of(it->second);
  });
  return memory_cdi_.write(uid, memory::format_environment(uid, amounts));
}

std::vector<Error> Books::rewrite_missing_memory_cdi() {
  std::vector<Error> out;
  std::map<ClaimUid, std::vector<std::string>> on_disk;  // in files of their own
  std::set<ClaimUid> elsewhere;                          // in the file of all claims
  Result<std::vector<cdi::FileEntry>> files = memory_cdi_.list();
  if (files.ok()) {
    for (cdi::FileEntry& f : *files) {
      if (!f.env.ok()) continue;
      if (f.layout == cdi::Layout::kAllClaims) {
        elsewhere.insert(f.uid);
      } else {
        on_disk.emplace(f.uid, *std::move(f.env));
      }
    }
  } else {
    out.push_back(std::move(files).error());
  }
  std::map<ClaimUid, memory::Amounts> wanted;
  with_memory([&](const MemoryBook& m) {
    for (const auto& [uid, claim] : m.accounts.claims()) wanted[uid] = memory::amounts_of(claim);
  });
  for (const auto& [uid, amounts] : wanted) {
    std::vector<std::string> env = memory::format_environment(uid, amounts);
    const auto it = on_disk.find(uid);
    if (it != on_disk.end() && it->second == env && !elsewhere.contains(uid)) continue;
    if (Status s = memory_cdi_.write(uid, env); !s.ok()) out.push_back(std::move(s).error());
  }
  return out;
}

}  // namespace dracpu::agent
