// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Who holds how much memory: the claims that are prepared, and what they leave of each span.
//
// A claim counts from the moment prepare() accepted it. Amounts are kept per kind and node, not per device,
// so they survive a device that is no longer published. What is held may exceed what is there, when pools
// shrink under a claim; then nothing new is prepared on it. A claim serves one pod, and in it one container
// name: its owner, through restarts, until it is released. The owner of its CPUs is a matter of the other
// ledger.
//
// The class is a value with steps. A step either changes the accounts, or changes nothing and returns an
// error whose text a person can act on. It knows no files, sockets or clocks.
//
// Errors  kUnavailable  the claim is not allocated (yet)
//         kInvalidInput the claim can never be served as it is
//         kNoCapacity   not enough is left, or free in the kernel
//         kConflict     it is prepared already, as something else
// Cost    Logarithmic in the claims; claims_of() and standings() are linear.
// Threads None: the owner holds a lock around each step.

#ifndef DRACPU_MEMORY_ACCOUNTS_H_
#define DRACPU_MEMORY_ACCOUNTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/quantity.h"
#include "base/result.h"
#include "config/config.h"
#include "memory/devices.h"
#include "memory/types.h"
#include "topology/memory.h"

namespace dracpu::memory {

// An entry of the claim's status.reservedFor.
struct Consumer {
  std::string resource;  // "pods"
  PodUid uid;

  friend bool operator==(const Consumer&, const Consumer&) = default;
};

// A result of the claim's allocation that names our driver.
struct AllocationResult {
  std::string request;
  std::string pool;
  std::string device;
  std::optional<std::string> share_id{};
  bool admin_access = false;
  std::map<std::string, Quantity> consumed{};  // capacity → amount

  friend bool operator==(const AllocationResult&, const AllocationResult&) = default;
};

// What is read of a claim. `results` are those of our driver: "dra.memory", or in combined mode that of the
// CPUs.
struct ClaimFacts {
  std::string ns;
  std::string name;
  bool is_allocated = true;
  std::vector<Consumer> reserved_for;
  std::vector<AllocationResult> results;

  friend bool operator==(const ClaimFacts&, const ClaimFacts&) = default;
};

// Whether memory comes with the CPUs of a result.
bool asks_for_memory(const std::map<std::string, Quantity>& consumed);
bool asks_for_memory(const ClaimFacts& facts);

// One amount that a result got.
struct Grant {
  std::string request;
  std::string pool;
  std::string device;  // empty: adopted from a file that does not say
  std::optional<std::string> share_id{};
  Kind kind;
  NumaNodeId node;
  Bytes bytes;

  friend bool operator==(const Grant&, const Grant&) = default;
};

struct Claim {
  std::string ns;
  std::string name;
  PodUid pod;  // that it is reserved for; empty: adopted, then the owner's counts
  std::vector<Grant> grants;
  std::optional<Owner> owner{};
  bool committed = false;  // its files are on disk

  friend bool operator==(const Claim&, const Claim&) = default;
};

// The mode that it was prepared in, told by its devices; nothing: adopted.
std::optional<config::MemoryMode> mode_of(const Claim& claim);
// It says of a claim that is prepared as something else.
Error prepared_differently(const std::string& claim);
// The one pod whose containers may use it; empty: not known yet.
const PodUid& pod_of(const Claim& claim);
Amounts amounts_of(const Claim& claim);
// A claim that is known by its amounts alone.
Claim adopted_claim(const Amounts& amounts);

using SpanKey = std::pair<Kind, NumaNodeId>;

// Hugepages that the kernel has free. A span without an entry has none.
using FreePages = std::map<SpanKey, std::uint64_t>;
FreePages free_pages_of(const topology::MachineMemory& machine);

// How a span stands. One that is held but not offered (any more) has capacity zero.
struct Standing {
  Kind kind;
  NumaNodeId node;
  std::string device;  // empty: not offered
  Bytes capacity;
  Bytes held;

  bool is_healthy() const { return held <= capacity; }
  Bytes left() const { return capacity - held; }
};

class Accounts {
 public:
  explicit Accounts(config::MemoryMode mode, std::vector<Offer> offers = {});

  // The machine was read anew. Claims keep what they have.
  void set_offers(std::vector<Offer> offers);

  // Claims --------------------------------------------------------------------------------------------------
  // Holds what the claim's results name. The same claim again gives the same answer. A claim without a result
  // of ours, or in combined mode without memory, gives one without grants, of which nothing is kept.
  // `free_pages`: as they are now; null: not looked at. While claims of the other mode are held, nothing new
  // is prepared (RULINGS 7).
  Result<Claim> prepare(const ClaimUid& uid, const ClaimFacts& facts, const FreePages* free_pages);
  void commit(const ClaimUid& uid);
  // Gives back what an uncommitted prepare took. No effect on a committed claim.
  void abort(const ClaimUid& uid);
  // Ends a claim. False if it was not known.
  bool release(const ClaimUid& uid);
  // A claim from the state file or a CDI file. It is kept whether or not its span is offered. kConflict if it
  // is known already, kCorrupt if the amounts cannot be counted.
  Status adopt(const ClaimUid& uid, Claim claim);

  // Owners --------------------------------------------------------------------------------------------------
  // kConflict if the claim has another owner. The claim is known.
  Status check_owner(const ClaimUid& uid, const Owner& owner) const;
  // check_owner() said yes to all. The claims that had no owner before: worth saving.
  std::vector<ClaimUid> bind(const std::vector<ClaimUid>& claims, const Owner& owner);
  // Takes back what bind() answered, when a later step of the same call fails.
  void unbind(const std::vector<ClaimUid>& bound);
  std::vector<ClaimUid> claims_of(const Owner& owner) const;

  // Facts ---------------------------------------------------------------------------------------------------
  const std::map<ClaimUid, Claim>& claims() const { return claims_; }
  // The configuration changed under them.
  std::vector<ClaimUid> claims_of_other_mode() const;
  // kConflict while there are any: nothing new is to be prepared.
  Status check_mode() const;
  Bytes held(Kind kind, NumaNodeId node) const;
  // In published order, then what is held and not offered.
  std::vector<Standing> standings() const;
  // Empty if every invariant holds, otherwise what is broken. For tests and assertions.
  std::string check() const;

 private:
  using Sums = std::map<SpanKey, Bytes>;

  Result<std::vector<Grant>> read_results(const std::string& claim, const ClaimFacts& facts) const;
  Status read_result(const std::string& claim, const AllocationResult& result, std::vector<Grant>& out) const;
  Status check_room(const std::string& claim, const Sums& wanted) const;
  void count(const std::vector<Grant>& grants);
  void discount(const std::vector<Grant>& grants);

  config::MemoryMode mode_;
  std::vector<Offer> offers_;
  std::map<std::pair<std::string, std::string>, std::size_t> offer_of_;  // device and key → index
  std::map<SpanKey, std::size_t> offer_at_;
  std::map<ClaimUid, Claim> claims_;
  Sums held_;  // no zeros
};

}  // namespace dracpu::memory

#endif  // DRACPU_MEMORY_ACCOUNTS_H_
