// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Who holds which CPU: claims, their owners, shared containers, the pool. The one truth of a running driver.
//
// A CPU of the machine is in exactly one of: reserved, one claim, the shared pool (DESIGN, I2).
//   pool = managed - reserved - CPUs of all claims; a claim counts from the moment prepare() picked its CPUs.
// A claim's owner is the pair (pod, container name) of the first container created with it, until the claim
// is released, through restarts of the container (spec driver-behaviours 13.3).
//
// The class is a value with steps. A step either changes the ledger and says what is to be done, or changes
// nothing and returns an error whose text a person can act on. It knows no files, sockets or clocks.
//
// Errors  kNoCapacity   not enough CPUs are free, or the shared pool would become empty
//         kConflict     a claim or container contradicts what the ledger knows, or claims hold reserved CPUs
//         kInvalidInput malformed claim variable, unknown device
// Cost    Steps of one container or claim: linear in the claims; answers that touch the shared containers:
//         linear in those. The end of a claim: linear in the containers.
// Threads None: the owner holds a lock around each step.

#ifndef DRACPU_LEDGER_LEDGER_H_
#define DRACPU_LEDGER_LEDGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/cpuset.h"
#include "base/ids.h"
#include "base/result.h"

namespace dracpu::ledger {

// Picks exactly n CPUs out of `free`, or kNoCapacity. Deterministic.
using Picker = std::function<Result<CpuSet>(const CpuSet& free, std::size_t n)>;

using dracpu::Owner;

// One allocation result of a claim: which device, and how many CPUs of it.
struct Request {
  std::string request;  // as in the result, "main" or "main/sub"
  std::string pool;
  std::string device;
  std::optional<std::string> share_id;
  std::size_t cpus = 0;
  CpuSet device_cpus;  // where the CPUs may come from
  // An external allocator's choice: the lowest CPUs of it that are free in the device, no others.
  std::optional<CpuSet> chosen{};
  CpuSet near{};  // CPUs to prefer, where enough are free

  friend bool operator==(const Request&, const Request&) = default;
};

// What prepare answers for one result.
struct Grant {
  std::string request;
  std::string pool;
  std::string device;
  std::optional<std::string> share_id;
  std::size_t cpus = 0;
  friend bool operator==(const Grant&, const Grant&) = default;
};

struct Claim {
  std::string ns;
  std::string name;
  CpuSet cpus;
  std::vector<Grant>
      grants;  // empty for a claim adopted from an older driver's files, until it is prepared again
  std::optional<Owner> owner;
  bool committed = false;        // its files are on disk
  std::int64_t prepared_at = 0;  // seconds since 1970; 0: not known
  friend bool operator==(const Claim&, const Claim&) = default;
};

enum class Kind { kShared, kExclusive };

// What the ledger needs of a container, in any hook.
struct ContainerFacts {
  ContainerId id;
  Owner who;
  std::string pod;  // "namespace/name", for messages
  const std::vector<std::string>* env = nullptr;
  std::string cpus;  // the cpuset the runtime has for it now; may be empty
};

struct Update {
  ContainerId id;
  CpuSet cpus;  // never empty
};

// A container that has claims.
struct Pinned {
  ContainerId id;
  Owner who;
  std::string pod;  // "namespace/name"
  std::vector<ClaimUid> claims;
};

struct Placement {
  Kind kind = Kind::kShared;
  CpuSet cpus;                  // empty: leave the runtime's default (only where nothing is managed)
  std::vector<Update> updates;  // of shared containers
  std::vector<ClaimUid> claims;
  bool new_owner = false;  // the claims' owner changed: worth saving
};

// Something found at Synchronize that a person should know about.
struct Finding {
  std::size_t index = 0;  // of the container, in the list that was given
  ContainerId id;
  std::string pod;
  std::string container;
  Error what;
};

struct Synchronized {
  std::vector<Update> updates;  // shared ones first: they shrink
  std::vector<Finding> findings;
  std::size_t exclusive = 0;
  std::size_t shared = 0;
  std::vector<std::size_t> elsewhere;  // places in the list of exclusive ones that did not run on their CPUs
  bool new_owner = false;
};

class Ledger {
 public:
  // `managed` are online CPUs.
  Ledger(CpuSet managed, CpuSet reserved, CpuSet offline, Picker picker);

  // CPUs come and go with hotplug. Claims keep theirs; a container is told those of them that are online, and
  // counts as stale until it is.
  void set_machine(CpuSet managed, CpuSet offline, Picker picker);

  // Claims --------------------------------------------------------------------------------------------------
  // Picks and holds CPUs for a claim. A claim that is known already keeps its CPUs: the same requests give
  // the same claim again; other requests for it are kConflict while a container owns it, else it is picked
  // anew. An adopted claim takes the requests over if the number of CPUs fits.
  Result<Claim> prepare(const ClaimUid& uid, std::string_view ns, std::string_view name,
                        const std::vector<Request>& requests);
  // Notes when a new claim was prepared, unless that is known. What it is then.
  std::int64_t stamp(const ClaimUid& uid, std::int64_t now);
  void commit(const ClaimUid& uid);
  // Gives back what an uncommitted prepare took. No effect on a committed claim.
  void abort(const ClaimUid& uid);
  // Ends a claim. False if it was not known.
  bool release(const ClaimUid& uid);
  // A claim found in files of this or an older driver. kConflict names the claim that has one of its CPUs.
  Status adopt(const ClaimUid& uid, Claim claim);

  // Containers ----------------------------------------------------------------------------------------------
  Result<Placement> create(const ContainerFacts& container);
  // The cpuset that the container is to keep; nothing for one that is not known.
  std::optional<CpuSet> placement_of(const ContainerId& id) const;
  // Nothing for a container that is not known.
  std::optional<Kind> kind_of(const ContainerId& id) const;
  // What the runtime was last told of it; nothing: not sure, or not known.
  std::optional<CpuSet> told_of(const ContainerId& id) const;
  // The container ended. True if it was known.
  bool remove(const ContainerId& id);
  // The runtime's complete list replaces what was known about containers; claims stay.
  Synchronized synchronize(const std::vector<ContainerFacts>& containers);

  // Pool growth ---------------------------------------------------------------------------------------------
  // Containers that were last told something else than what they are to have now, at most `limit` of them,
  // those with claims first.
  std::vector<Update> stale(std::size_t limit) const;
  // How many there are in all. An empty pool has nothing to tell a shared container, which then is not stale.
  std::size_t stale_count() const;
  // The updates were handed to the runtime.
  void note_told(const std::vector<Update>& updates);
  // What these containers were told last may have been lost: they count as stale.
  void forget_told(const std::vector<ContainerId>& ids);

  // Facts ---------------------------------------------------------------------------------------------------
  CpuSet pool() const;
  CpuSet free() const { return pool(); }
  const CpuSet& managed() const { return managed_; }
  const CpuSet& reserved() const { return reserved_; }
  const CpuSet& offline() const { return offline_; }
  const std::map<ClaimUid, Claim>& claims() const { return claims_; }
  std::size_t shared_containers() const { return shared_; }
  // Claims with CPUs that are reserved now: the configuration changed under them. While there are any,
  // nothing new is prepared (RULINGS 7).
  std::vector<ClaimUid> claims_on_reserved() const;
  // The containers that run with claims now, in no order. Linear in the containers.
  std::vector<Pinned> pinned() const;
  // Claims of which no container is known now.
  std::vector<ClaimUid> claims_without_container() const;
  // Empty if every invariant holds, otherwise what is broken. For tests and assertions.
  std::string check() const;

 private:
  struct Container {
    Owner who;
    Kind kind = Kind::kShared;
    std::vector<ClaimUid> claims;
    std::optional<CpuSet> told;  // what the runtime was last told; nothing: not sure
    bool outlives = false;       // a claim of it was released: it is about to be stopped, and left as it is
    std::string pod{};           // "namespace/name" of one with claims
  };

  Result<std::vector<ClaimUid>> match_claims(const ContainerFacts& container,
                                             const std::map<ClaimUid, CpuSet>& wanted) const;
  Result<CpuSet> pick_for(const Request& request, const CpuSet& candidates) const;
  // What a container of these claims can run on: their CPUs that are online.
  CpuSet union_of(const std::vector<ClaimUid>& claims) const;
  // What a container with claims is to have now; empty if there is nothing to tell.
  CpuSet due(const Container& container) const;
  void put(const ContainerId& id, Container container);

  CpuSet managed_;
  CpuSet reserved_;
  CpuSet offline_;
  CpuSet held_;  // CPUs of all claims
  Picker picker_;
  std::map<ClaimUid, Claim> claims_;
  std::unordered_map<ContainerId, Container> containers_;
  std::size_t shared_ = 0;
};

}  // namespace dracpu::ledger

#endif  // DRACPU_LEDGER_LEDGER_H_
