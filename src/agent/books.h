// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The ledger of the CPUs and the accounts of the memory with their one lock, and the files that make them
// durable: state file first, then CDI files.
//
// Everything that writes files runs on the worker thread; the hooks of the runtime only take the lock, for
// microseconds (DESIGN 4). A claim that prepare() answers is in the state file and has its CDI file.
// Threads with_ledger(), settle() and the confirm family from any thread; the others from the
// worker, load() before there is one.

#ifndef DRACPU_AGENT_BOOKS_H_
#define DRACPU_AGENT_BOOKS_H_

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/node.h"
#include "agent/state_codec.h"
#include "base/file.h"
#include "base/mutex.h"
#include "base/result.h"
#include "cdi/directory.h"
#include "ledger/ledger.h"
#include "memory/accounts.h"
#include "store/state_file.h"

namespace dracpu::agent {

struct PrepareOrder {
  ClaimUid uid;
  std::string ns;
  std::string name;
  std::vector<ledger::Request> requests;  // none: it takes memory alone
  // In combined mode: all that it was allocated of this driver, of which the memory counts.
  std::optional<memory::ClaimFacts> memory{};
};

struct MemoryOrder {
  ClaimUid uid;
  memory::ClaimFacts facts;
};

// A claim as the books have it; nothing: it holds none.
struct Holding {
  std::optional<ledger::Claim> cpus;
  std::optional<memory::Claim> memory;  // that came with the CPUs' device
};
// One per result; those of memory alone have no CPUs.
std::vector<ledger::Grant> grants_of(const Holding& held);

// The memory half of the books. Where memory is off it only keeps what the state file has of it.
struct MemoryBook {
  memory::Accounts accounts;
  std::set<NumaNodeId> nodes_with_memory{};
  std::map<ContainerId, std::vector<ClaimUid>> containers{};  // that run with claims
  std::set<ClaimUid> unprovable{};                            // as Books::is_unprovable()

  std::vector<ClaimUid> claims_without_container() const;
  // Its memory is of the CPUs' devices, and ends with them; without a device, as the configuration says.
  bool comes_with_cpus(const ClaimUid& uid) const;

  config::MemoryMode mode = config::MemoryMode::kSeparate;
};

class Books {
 public:
  explicit Books(const Node& node, const Machine& machine, FileOps& ops = real_file_ops());

  // The claims of the state file and of the CDI files, reconciled. Unreadable state is kept aside and rebuilt
  // from CDI. What was odd comes back for the log. An error only if the folders cannot be used.
  struct Loaded {
    std::size_t from_state = 0;
    std::size_t from_cdi = 0;
    std::size_t conflicts = 0;
    std::size_t memory_claims = 0;
    std::size_t memory_from_cdi = 0;  // of those
    bool stale = false;               // another driver worked since the state was written
    bool new_boot = false;
    bool renamed = false;  // the state is of another driver name
    std::vector<std::string> warnings;
  };
  Result<Loaded> load();

  // The first list of running containers: one that runs with what a disputed CDI file says decides for the
  // file. What was moved comes back for the log; the files are then to be written again. In a hook: no I/O.
  std::vector<std::string> settle(const std::vector<ledger::ContainerFacts>& containers);
  // Claims that a stale state alone knows, until they are confirmed, prepared or released.
  bool is_unconfirmed(const ClaimUid& uid);
  void confirm(const ClaimUid& uid);
  bool has_unconfirmed();
  // A claim of another driver, so without a name to look it up, whose CDI file is gone, and another driver
  // worked since: it has unprepared it. Once the runtime has told that no container has it, nothing holds it.
  bool is_unprovable(const ClaimUid& uid);

  // One result per order, in order; one write of the state file for all of them. A claim that occurs twice is
  // prepared once, and a second order for something else is to come again. Memory and CPUs of an order are
  // both held or none; a claim of memory alone is answered without grants. `free_pages` as for
  // prepare_memory().
  std::vector<Result<ledger::Claim>> prepare(const std::vector<PrepareOrder>& orders,
                                             const memory::FreePages* free_pages = nullptr);
  Holding holding_of(const ClaimUid& uid);
  // CDI files first; a claim whose file cannot be removed stays held. One write of the state file for all.
  std::vector<Status> unprepare(const std::vector<ClaimUid>& uids);
  // Writes the CDI files of all claims again that are missing, damaged or of other CPUs, but not of claims
  // that are disputed still. What failed comes back.
  std::vector<Error> rewrite_missing_cdi();
  // The CDI files of what holding_of() has, whatever is there.
  Status rewrite_cdi(const ClaimUid& uid);
  // The state file as the ledger is now.
  Status save();
  // The same steps for memory. A claim without memory of ours is answered without grants, and nothing is kept
  // or written of it. `free_pages`: as they are now; null: not looked at.
  std::vector<Result<memory::Claim>> prepare_memory(const std::vector<MemoryOrder>& orders,
                                                    const memory::FreePages* free_pages);
  std::vector<Status> unprepare_memory(const std::vector<ClaimUid>& uids);
  // Files that other drivers wrote for all claims are taken apart.
  std::vector<Error> rewrite_missing_memory_cdi();
  Status rewrite_memory_cdi(const ClaimUid& uid);
  // Amounts were read anew. Claims keep theirs.
  void set_memory(const MemoryView& view);

  // CPUs came or went. Claims keep theirs.
  void set_machine(const Machine& machine);
  // Without writing: whether the state's folder lets itself be written.
  Status can_save() const { return state_.can_save(); }
  // A save that failed earlier is still owed.
  bool save_owed() const { return save_owed_; }
  // Contradictions found by load().
  std::size_t conflicts() const { return conflicts_; }
  // Called after each write of the state file, on the thread that wrote.
  using SaveObserver = std::function<void(std::chrono::duration<double> took, bool ok)>;
  void observe_saves(SaveObserver observer) { observer_ = std::move(observer); }

  template <typename F>
  auto with_ledger(F&& f) {
    const Locked lock(mutex_);
    return f(ledger_);
  }
  template <typename F>
  auto with_memory(F&& f) {
    const Locked lock(mutex_);
    return f(memory_);
  }
  // Both at once, for what is answered together.
  template <typename F>
  auto with_both(F&& f) {
    const Locked lock(mutex_);
    return f(ledger_, memory_);
  }

 private:
  Result<std::optional<State>> read_state(Loaded& out);
  Status write_state();
  // What the orders of one write have changed.
  struct Batch {
    std::set<ClaimUid> fresh;
    std::set<ClaimUid> fresh_memory;
    std::map<ClaimUid, ledger::Claim> before;  // of those that were held already
    bool changed = false;
  };
  std::vector<Result<ledger::Claim>> prepare_distinct(const std::vector<const PrepareOrder*>& orders,
                                                      const memory::FreePages* free_pages);
  Result<ledger::Claim> hold(const PrepareOrder& order, const memory::FreePages* free_pages, Batch& batch)
      DRACPU_REQUIRES(mutex_);
  Result<ledger::Claim> hold_cpus(const PrepareOrder& order, Batch& batch) DRACPU_REQUIRES(mutex_);
  Result<memory::Claim> hold_memory(const ClaimUid& uid, const memory::ClaimFacts& facts,
                                    const memory::FreePages* free_pages, Batch& batch)
      DRACPU_REQUIRES(mutex_);
  Status load_memory(std::map<ClaimUid, memory::Claim> own, Loaded& out);
  void adopt_memory_files(const std::vector<cdi::FileEntry>& files, Loaded& out) DRACPU_REQUIRES(mutex_);
  void give_back(const Batch& batch);

  const Node& node_;
  std::string boot_id_;
  store::StateFile state_;
  UnknownFields unknown_;  // of the state that was loaded
  cdi::Directory cdi_;
  cdi::ClaimFiles memory_cdi_;
  bool save_owed_ = false;
  std::size_t conflicts_ = 0;
  SaveObserver observer_;
  Mutex mutex_;
  std::map<ClaimUid, CpuSet> disputed_ DRACPU_GUARDED_BY(mutex_);
  std::set<ClaimUid> unconfirmed_ DRACPU_GUARDED_BY(mutex_);
  std::set<ClaimUid> unprovable_ DRACPU_GUARDED_BY(mutex_);
  ledger::Ledger ledger_ DRACPU_GUARDED_BY(mutex_);
  MemoryBook memory_ DRACPU_GUARDED_BY(mutex_);
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_BOOKS_H_
