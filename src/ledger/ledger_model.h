// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Every reachable state of a small machine: 4 CPUs, 3 claims, 3 containers, breadth first over every order of
// the ledger's steps, lost answers and crashes. Beside the ledger stands its world: the disk (the claims as
// last saved, all of them at once), the runtime (containers and the cpuset each runs on), and the kubelet (it
// creates containers of a claim only after prepare was answered, and unprepares only after they have ended).
//
// Checked after each transition:
//   - each CPU in exactly one hand (check()); what is refused changes nothing
//   - an answered claim keeps its CPUs in the ledger and on disk until unprepare, also over a crash
//   - a claim keeps its owner until it ends, unless a crash came before that was saved
//   - running owners do not overlap; no shared container runs on the CPUs of a running owner
//   - nobody is told an empty set
// One exception: a container that started while no driver was connected has all CPUs, and where claims hold
// every CPU there is nothing to move it to. It stays there until the pool grows and it is told.
//
// Bounds: one claim is prepared at a time (the agent does so too), a container position has at most one ended
// container that the ledger still knows, and an update is applied or lost as a whole. Containers at different
// positions differ in name only, so states that differ in their order alone are one.

#ifndef DRACPU_LEDGER_LEDGER_MODEL_H_
#define DRACPU_LEDGER_LEDGER_MODEL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ledger/ledger.h"

namespace dracpu::ledger::model {

using Mask = std::uint8_t;  // of CPUs
constexpr int kClaims = 3;
constexpr int kBoxes = 3;
constexpr Mask kAll = 0xF;
constexpr int kShared = -1;  // the claim of a container without one
constexpr int kNone = -2;    // no container
constexpr std::array<std::size_t, kClaims> kSize = {1, 2, 2};
constexpr std::size_t kOtherSize = 3;  // the first claim's, when its allocation changed

struct Saved {
  Mask cpus = 0;  // none: not there
  int owner = kNone;
  bool grants = false;
  friend bool operator==(const Saved&, const Saved&) = default;
};

enum class Phase : std::uint8_t { kUnknown, kPreparing, kAnswered };

// The kubelet's side of a claim.
struct Wanted {
  Phase phase = Phase::kUnknown;
  Mask answered = 0;
  Mask before = 0;  // what it had before it was picked anew
};

struct Box {
  int claim = kNone;
  Mask env = 0;          // the CPUs that its variable names
  Mask cpus = 0;         // what it runs on
  bool outside = false;  // the exception
  int dead = kNone;      // the claim of an ended container that the ledger still knows
  int turn = 0;          // which id the running one has; the ended one has the other
};

enum class Link : std::uint8_t { kDown, kApart, kConnected };  // no process; no runtime; all well

// What may happen in a run; the steps of the hooks, crashes and lost connections always may.
struct Bounds {
  int boxes = kBoxes;
  int claims = kClaims;
  bool late_ends = true;     // a container ends some time before its hook
  bool lost = true;          // answers and updates get lost
  bool saves = true;         // saves other than prepare's fail, or come late
  bool other_driver = true;  // leaves its file
  bool changes = true;       // of the first claim's allocation
};

struct State {
  Ledger ledger;
  std::array<Saved, kClaims> disk{};
  std::array<Wanted, kClaims> claims{};
  std::array<Box, kBoxes> boxes{};
  Link link = Link::kApart;
};

enum class Do : std::uint8_t {
  kPrepare,    // x claim, y 1: another number of CPUs
  kSave,       // the whole ledger to disk
  kCommit,     // x claim: saved, answered
  kSaveFails,  // x claim: nothing was prepared
  kFileFails,  // x claim: saved, but not answered; y 1: it stays held
  kUnprepare,  // x claim, y 1: not saved
  kCreate,     // x position, y claim, z 1: the answer is lost
  kEnd,        // x position: the container ends
  kRemove,     // x position: the hook about its ended container
  kGrow,       // x position, z which of its ids, y 0: told; 1: told, and the answer lost; 2: lost
  kDisconnect,
  kSynchronize,  // x 1: the list in the other order, y 1: the answer is lost
  kCrash,
  kStart,    // adopts what is on disk
  kForeign,  // x claim: while nobody runs another driver leaves a file with CPUs of its own choice
};

struct Action {
  Do what = Do::kSave;
  int x = 0;
  int y = 0;
  int z = 0;
};

std::string to_text(const Action& a);
bool is_about_box(const Action& a);
std::vector<Action> actions_in(const Bounds& in);

class Model {
 public:
  explicit Model(Bounds in) : in_(in) {}
  static State start();

  // Everything that decides what can happen next, the same for every order of the positions. While the ledger
  // is apart from the runtime, what it thinks of containers does not count, as synchronize() replaces it;
  // only whether there is something to forget.
  static std::string encode(const State& s);
  static std::array<std::string, kBoxes> encode_boxes(const State& s);

  // The state after the action, nothing where it cannot happen or was refused.
  std::optional<State> step(const State& from, const std::string& code, const Action& a);
  const std::string& broken() const { return broken_; }

 private:
  static bool can(const State& s, const Action& a);
  bool act(State& s, const Action& a);
  bool prepare(State& s, int c, bool other);
  bool create(State& s, int b, int claim, bool lost);
  void synchronize(State& s, bool backwards, bool lost);
  void start_again(State& s);
  void apply(State& s, const std::vector<Update>& updates);
  void check(const State& from, const State& s, const Action& a);
  void check_running(const State& s);

  Bounds in_;
  std::string broken_;
  bool strict_ = false;  // everybody was just told: no exceptions while the pool has a CPU
};

}  // namespace dracpu::ledger::model

#endif  // DRACPU_LEDGER_LEDGER_MODEL_H_
