// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "ledger/ledger_model.h"

#include <algorithm>
#include <bit>

namespace dracpu::ledger::model {
namespace {

Mask mask_of(const CpuSet& cpus) { return cpus.empty() ? Mask{0} : static_cast<Mask>(cpus.words()[0]); }
std::size_t count(Mask m) { return static_cast<std::size_t>(std::popcount(m)); }

CpuSet set_of(Mask m) {
  CpuSet out;
  for (std::uint32_t i = 0; i < 4; ++i) {
    if ((m >> i & 1) != 0) out.insert(CpuId(i));
  }
  return out;
}

// The names and texts that the steps need, made once.
struct Names {
  Names() {
    for (int c = 0; c < kClaims; ++c) {
      uid.emplace_back(std::string(1, static_cast<char>('a' + c)));
      for (unsigned m = 0; m <= kAll; ++m) {
        env[static_cast<std::size_t>(c)][m] = {"DRA_CPUSET_" + uid.back().get() + "=" +
                                               set_of(static_cast<Mask>(m)).to_string()};
      }
    }
    for (unsigned m = 0; m <= kAll; ++m) text[m] = set_of(static_cast<Mask>(m)).to_string();
    for (int i = 0; i < 2 * kBoxes; ++i) id.emplace_back("c" + std::to_string(i));
    for (int i = 0; i < kBoxes; ++i) who.push_back({PodUid(std::to_string(i)), "app"});
  }
  std::vector<ClaimUid> uid;
  std::vector<ContainerId> id;  // two of each position, used in turn
  std::vector<Owner> who;
  std::array<std::array<std::vector<std::string>, kAll + 1>, kClaims> env;
  std::array<std::string, kAll + 1> text;
  std::vector<std::string> no_env;
};
const Names& names() {
  static const Names n;
  return n;
}
const ClaimUid& uid(int c) { return names().uid[static_cast<std::size_t>(c)]; }

int position_of(const std::optional<Owner>& owner) { return owner ? owner->pod.get()[0] - '0' : kNone; }

Box& at(State& s, int b) { return s.boxes[static_cast<std::size_t>(b)]; }
const Box& at(const State& s, int b) { return s.boxes[static_cast<std::size_t>(b)]; }

void put(std::string& to, int high, int low) { to += static_cast<char>(high * 16 + low); }
const Claim* find(const State& s, int c) {
  const auto it = s.ledger.claims().find(uid(c));
  return it == s.ledger.claims().end() ? nullptr : &it->second;
}
const ContainerId& id(int b, int turn) {
  return names().id[std::size_t{2} * static_cast<std::size_t>(b) + static_cast<std::size_t>(turn)];
}
Mask held(const State& s, int c) {
  const Claim* claim = find(s, c);
  return claim == nullptr ? Mask{0} : mask_of(claim->cpus);
}
int owner(const State& s, int c) {
  const Claim* claim = find(s, c);
  return claim == nullptr ? kNone : position_of(claim->owner);
}
std::array<Saved, kClaims> snapshot(const State& s) {
  std::array<Saved, kClaims> out;
  for (int c = 0; c < kClaims; ++c) {
    const Claim* claim = find(s, c);
    if (claim == nullptr) continue;
    out[static_cast<std::size_t>(c)] = {mask_of(claim->cpus), position_of(claim->owner),
                                        !claim->grants.empty()};
  }
  return out;
}
// The ledger knows a container that does not run.
bool knows_ended(const State& s) {
  for (int b = 0; b < kBoxes; ++b) {
    const Box& box = at(s, b);
    if (s.ledger.kind_of(id(b, 1 - box.turn))) return true;
    if (box.claim == kNone && s.ledger.kind_of(id(b, box.turn))) return true;
  }
  return false;
}

ContainerFacts facts(int b, int turn, int claim, Mask env, const std::string& cpus) {
  const auto n = static_cast<std::size_t>(b);
  return {id(b, turn), names().who[n], "ns/p",
          claim == kShared ? &names().no_env : &names().env[static_cast<std::size_t>(claim)][env], cpus};
}
std::vector<Request> requests(int c, bool other) {
  const std::size_t n = other ? kOtherSize : kSize[static_cast<std::size_t>(c)];
  return {{"r", "n", "d", std::nullopt, n, set_of(kAll)}};
}
Claim claim_of(int c, const Saved& d) {
  Claim out;
  out.ns = "ns";
  out.name = uid(c).get();
  out.cpus = set_of(d.cpus);
  if (d.grants) out.grants = {{"r", "n", "d", std::nullopt, count(d.cpus)}};
  if (d.owner != kNone) out.owner = names().who[static_cast<std::size_t>(d.owner)];
  out.committed = true;
  return out;
}

}  // namespace

std::string to_text(const Action& a) {
  constexpr std::array<const char*, 15> kText = {
      "prepare", "save", "commit",     "save-fails",  "file-fails", "unprepare", "create", "end",
      "remove",  "grow", "disconnect", "synchronize", "crash",      "start",     "foreign"};
  return fmt::format("{}({},{},{})", kText[static_cast<std::size_t>(a.what)], a.x, a.y, a.z);
}

bool is_about_box(const Action& a) {
  return a.what == Do::kCreate || a.what == Do::kEnd || a.what == Do::kRemove;
}

std::vector<Action> actions_in(const Bounds& in) {
  std::vector<Action> out{{Do::kSave}, {Do::kDisconnect}, {Do::kCrash}, {Do::kStart}};
  const auto flags = [](bool both) { return both ? std::vector<int>{0, 1} : std::vector<int>{0}; };
  if (in.other_driver) out.push_back({Do::kForeign, in.claims - 1});
  if (in.changes) out.push_back({Do::kPrepare, 0, 1});
  for (int c = 0; c < in.claims; ++c) {
    for (const Do d : {Do::kPrepare, Do::kCommit, Do::kSaveFails}) out.push_back({d, c});
    for (const int y : flags(in.saves)) out.push_back({Do::kUnprepare, c, y});
    if (!in.saves) continue;
    for (const int y : {0, 1}) out.push_back({Do::kFileFails, c, y});
  }
  for (int b = 0; b < in.boxes; ++b) {
    out.push_back({Do::kEnd, b});
    if (in.late_ends) out.push_back({Do::kRemove, b});
    for (int c = kShared; c < in.claims; ++c) {
      for (const int z : flags(in.lost)) out.push_back({Do::kCreate, b, c, z});
    }
    for (const int turn : {0, 1}) {
      out.push_back({Do::kGrow, b, 0, turn});
      if (!in.lost) continue;
      for (const int y : {1, 2}) out.push_back({Do::kGrow, b, y, turn});
    }
  }
  for (const int x : {0, 1}) {
    for (const int y : flags(in.lost)) out.push_back({Do::kSynchronize, x, y});
  }
  return out;
}

State Model::start() {
  return {Ledger(set_of(kAll), {}, {},
                 [](const CpuSet& free, std::size_t n) -> Result<CpuSet> {
                   if (free.size() < n) return make_error(Errc::kNoCapacity, "{} of {}", n, free.size());
                   return free.lowest(n);
                 }),
          {},
          {},
          {},
          Link::kApart};
}

std::string Model::encode(const State& s) {
  std::string out(1, static_cast<char>(s.link));
  out += s.link == Link::kApart && knows_ended(s) ? '\1' : '\0';
  std::array<std::string, kBoxes> boxes = encode_boxes(s);
  std::sort(boxes.begin(), boxes.end());
  for (int c = 0; c < kClaims; ++c) {
    const auto n = static_cast<std::size_t>(c);
    const Wanted& w = s.claims[n];
    const Saved& d = s.disk[n];
    const Claim* claim = find(s, c);
    put(out, static_cast<int>(w.phase),
        (claim != nullptr && claim->committed ? 1 : 0) +
            (claim != nullptr && !claim->grants.empty() ? 2 : 0) + (d.grants ? 4 : 0));
    put(out, w.answered, w.before);
    put(out, held(s, c), d.cpus);
  }
  for (const std::string& box : boxes) out += box;
  return out;
}

std::array<std::string, kBoxes> Model::encode_boxes(const State& s) {
  std::array<std::string, kBoxes> boxes;
  for (int b = 0; b < kBoxes; ++b) {
    const Box& box = at(s, b);
    std::string& to = boxes[static_cast<std::size_t>(b)];
    put(to, box.claim + 2, box.dead + 2);
    put(to, box.env, box.cpus);
    int owns = box.outside ? 0x40 : 0;
    for (int c = 0; c < kClaims; ++c) {
      if (s.disk[static_cast<std::size_t>(c)].owner == b) owns |= 1 << c;
      const Claim* claim = find(s, c);
      if (claim != nullptr && position_of(claim->owner) == b) owns |= 8 << c;
    }
    to += static_cast<char>(owns);
    if (s.link != Link::kConnected) continue;
    for (const int turn : {box.turn, 1 - box.turn}) {
      const auto kind = s.ledger.kind_of(id(b, turn));
      if (!kind) {
        to += '\0';
        continue;
      }
      const auto told = s.ledger.told_of(id(b, turn));
      put(to, 1 + static_cast<int>(*kind), told ? mask_of(*told) : 0);
      // Nothing where its claim was released.
      if (kind == Kind::kExclusive) to += static_cast<char>(mask_of(*s.ledger.placement_of(id(b, turn))));
    }
  }
  return boxes;
}

std::optional<State> Model::step(const State& from, const std::string& code, const Action& a) {
  broken_.clear();
  if (!can(from, a)) return std::nullopt;
  State s = from;
  strict_ = false;
  if (!act(s, a)) {
    if (broken_.empty() && encode(s) != code) broken_ = "what was refused changed something";
    return std::nullopt;
  }
  for (int b = 0; b < kBoxes; ++b) {
    Box& box = at(s, b);
    if (box.dead != kNone && !s.ledger.kind_of(id(b, 1 - box.turn))) box.dead = kNone;
  }
  if (broken_.empty()) check(from, s, a);
  return s;
}

bool Model::can(const State& s, const Action& a) {
  const auto n = static_cast<std::size_t>(a.x);
  const bool connected = s.link == Link::kConnected;
  const auto preparing = [](const Wanted& w) { return w.phase == Phase::kPreparing; };
  const bool busy = std::any_of(s.claims.begin(), s.claims.end(), preparing);
  switch (a.what) {
    case Do::kPrepare:
      return connected && !busy;
    case Do::kSave:
      return s.link != Link::kDown && snapshot(s) != s.disk;
    case Do::kCommit:
      return preparing(s.claims[n]) && s.disk[n].cpus == held(s, a.x) && s.disk[n].grants;
    case Do::kSaveFails:
      return preparing(s.claims[n]) && s.disk[n].cpus != held(s, a.x);
    case Do::kFileFails:
      return preparing(s.claims[n]) && s.disk[n].cpus == held(s, a.x) &&
             (a.y == 1 || s.claims[n].before == 0);
    case Do::kUnprepare:
      return s.link != Link::kDown && !busy &&
             (s.disk[n].cpus != 0 || held(s, a.x) != 0 || s.claims[n].phase == Phase::kAnswered) &&
             std::none_of(s.boxes.begin(), s.boxes.end(), [&](const Box& b) { return b.claim == a.x; });
    case Do::kCreate:
      return s.boxes[n].claim == kNone && (a.z == 0 || connected) &&
             (a.y == kShared || s.claims[static_cast<std::size_t>(a.y)].phase == Phase::kAnswered);
    case Do::kEnd:
      return s.boxes[n].claim != kNone && s.boxes[n].dead == kNone;
    case Do::kRemove:
      return connected && s.boxes[n].dead != kNone;
    case Do::kGrow:
      return connected && s.ledger.kind_of(id(a.x, a.z)) &&
             s.ledger.told_of(id(a.x, a.z)) != s.ledger.placement_of(id(a.x, a.z));
    case Do::kDisconnect:
      return connected;
    case Do::kSynchronize:
      return s.link == Link::kApart;
    case Do::kCrash:
      return s.link != Link::kDown;
    case Do::kStart:
      return s.link == Link::kDown;
    case Do::kForeign:
      return s.link == Link::kDown && s.disk[n].cpus == 0 && s.claims[n].phase == Phase::kUnknown;
  }
  return false;
}

bool Model::act(State& s, const Action& a) {
  const auto n = static_cast<std::size_t>(a.x);
  switch (a.what) {
    case Do::kPrepare:
      return prepare(s, a.x, a.y == 1);
    case Do::kSave:
      s.disk = snapshot(s);
      return true;
    case Do::kCommit:
      s.ledger.commit(uid(a.x));
      s.claims[n] = {Phase::kAnswered, held(s, a.x), 0};
      return true;
    case Do::kSaveFails: {
      s.ledger.abort(uid(a.x));
      const Mask before = s.claims[n].before;
      if (before != 0 && !s.ledger.adopt(uid(a.x), claim_of(a.x, {before, kNone, true})).ok())
        broken_ = "what the claim had before is not free again";
      s.claims[n] = {};
      return true;
    }
    case Do::kFileFails:
      if (a.y == 0) s.ledger.abort(uid(a.x));
      s.claims[n] = {};
      return true;
    case Do::kUnprepare:
      s.ledger.release(uid(a.x));
      if (a.y == 0) s.disk = snapshot(s);
      s.claims[n] = {};
      return true;
    case Do::kCreate:
      return create(s, a.x, a.y, a.z == 1);
    case Do::kEnd: {
      Box& box = at(s, a.x);
      const bool late = in_.late_ends && s.link == Link::kConnected;
      if (!late && s.link == Link::kConnected) s.ledger.remove(id(a.x, box.turn));
      box = {kNone, 0, 0, false, late ? box.claim : kNone, 1 - box.turn};
      return true;
    }
    case Do::kRemove:
      if (!s.ledger.remove(id(a.x, 1 - at(s, a.x).turn))) broken_ = "an ended container was not known";
      return true;
    case Do::kGrow: {
      std::vector<Update> updates = s.ledger.stale(100);
      std::erase_if(updates, [&](const Update& u) { return u.id != id(a.x, a.z); });
      if (updates.empty()) return false;
      if (a.y < 2) apply(s, updates);
      if (a.y == 0) s.ledger.note_told(updates);
      if (a.y > 0) s.ledger.forget_told({updates[0].id});
      return true;
    }
    case Do::kDisconnect:
      s.link = Link::kApart;
      for (Box& box : s.boxes) box.dead = kNone;
      return true;
    case Do::kSynchronize:
      synchronize(s, a.x == 1, a.y == 1);
      return true;
    case Do::kCrash:
      s.ledger = start().ledger;
      s.link = Link::kDown;
      for (Box& box : s.boxes) box.dead = kNone;
      for (Wanted& w : s.claims) {
        if (w.phase == Phase::kPreparing) w = {};
      }
      return true;
    case Do::kStart:
      start_again(s);
      return true;
    case Do::kForeign:
      s.disk[n] = {Mask{0b0011}, kNone, false};
      return true;
  }
  return false;
}

bool Model::prepare(State& s, int c, bool other) {
  Wanted& wanted = s.claims[static_cast<std::size_t>(c)];
  const Claim* known = find(s, c);
  const std::optional<Claim> old = known == nullptr ? std::nullopt : std::optional(*known);
  const std::vector<Request> r = requests(c, other);
  const Result<Claim> got = s.ledger.prepare(uid(c), "ns", uid(c).get(), r);
  if (!got.ok()) return false;
  const Mask cpus = mask_of(got->cpus);
  if (got->cpus.size() != r[0].cpus) broken_ = "prepare gave another number of CPUs";
  if (s.ledger.pool().empty() && s.ledger.shared_containers() > 0 && cpus != (old ? mask_of(old->cpus) : 0))
    broken_ = "prepare emptied the pool under running containers";
  if (old && old->owner && !(old->cpus == got->cpus)) broken_ = "an owned claim was picked anew";
  // The same again is answered at once.
  if (old == *got && got->committed) {
    wanted = {Phase::kAnswered, cpus, 0};
    return true;
  }
  const bool anew = old && old->committed && !got->committed;
  wanted = {Phase::kPreparing, 0, anew ? mask_of(old->cpus) : Mask{0}};
  return true;
}

bool Model::create(State& s, int b, int claim, bool lost) {
  Box& box = at(s, b);
  const Mask env = claim == kShared ? Mask{0} : s.claims[static_cast<std::size_t>(claim)].answered;
  if (s.link != Link::kConnected) {
    box = {claim, env, kAll, true, box.dead, box.turn};
    return true;
  }
  const Result<Placement> placed = s.ledger.create(facts(b, box.turn, claim, env, ""));
  if (!placed.ok()) return false;
  const Mask cpus = mask_of(placed->cpus);
  if (cpus == 0) broken_ = "a container was created with an empty set";
  if ((placed->kind == Kind::kShared) != (claim == kShared)) broken_ = "a container of the wrong kind";
  if (claim != kShared && cpus != env) broken_ = "an owner did not get its claim's CPUs";
  if (!in_.saves && placed->new_owner) s.disk = snapshot(s);
  if (lost) {
    s.ledger.remove(id(b, box.turn));
    std::vector<ContainerId> ids;
    for (const Update& u : placed->updates) ids.push_back(u.id);
    s.ledger.forget_told(ids);
    return true;
  }
  box = {claim, env, cpus, false, box.dead, box.turn};
  apply(s, placed->updates);
  strict_ = claim != kShared;
  return true;
}

void Model::synchronize(State& s, bool backwards, bool lost) {
  std::vector<ContainerFacts> list;
  for (int b = 0; b < kBoxes; ++b) {
    const Box& box = at(s, b);
    if (box.claim != kNone) list.push_back(facts(b, box.turn, box.claim, box.env, names().text[box.cpus]));
  }
  if (backwards) std::reverse(list.begin(), list.end());
  const Synchronized done = s.ledger.synchronize(list);
  if (!in_.saves && done.new_owner) s.disk = snapshot(s);
  if (lost) return;
  s.link = Link::kConnected;
  if (knows_ended(s)) broken_ = "a container that is not in the runtime's list is still known";
  if (done.shared + done.exclusive != list.size() || done.shared != s.ledger.shared_containers())
    broken_ = "the containers of the list were counted wrongly";
  for (int b = 0; b < kBoxes; ++b) {
    Box& box = at(s, b);
    box.dead = kNone;
    if (box.claim == kNone) continue;
    // With an empty pool who lost its claim stays where it is as well.
    box.outside = s.ledger.kind_of(id(b, box.turn)) == Kind::kShared && s.ledger.pool().empty();
  }
  apply(s, done.updates);
  strict_ = true;
}

void Model::start_again(State& s) {
  s.link = Link::kApart;
  for (const bool own : {true, false}) {
    for (int c = 0; c < kClaims; ++c) {
      Saved& d = s.disk[static_cast<std::size_t>(c)];
      if (d.cpus == 0 || d.grants != own) continue;
      if (s.ledger.adopt(uid(c), claim_of(c, d)).ok()) continue;
      if (own) broken_ = "a saved claim was not adopted";
      d = {};
    }
  }
}

void Model::apply(State& s, const std::vector<Update>& updates) {
  for (const Update& u : updates) {
    if (u.cpus.empty()) broken_ = "container " + u.id.get() + " was told an empty set";
    for (int b = 0; b < kBoxes; ++b) {
      Box& box = at(s, b);
      if (box.claim == kNone || u.id != id(b, box.turn)) continue;
      box.cpus = mask_of(u.cpus);
      box.outside = false;
    }
  }
}

void Model::check(const State& from, const State& s, const Action& a) {
  broken_ = s.ledger.check();
  for (int c = 0; c < kClaims && broken_.empty(); ++c) {
    const Wanted& w = s.claims[static_cast<std::size_t>(c)];
    const std::string name = "claim " + uid(c).get();
    if (w.phase == Phase::kAnswered) {
      const Mask was = from.claims[static_cast<std::size_t>(c)].answered;
      if (was != 0 && was != w.answered && owner(from, c) != kNone)
        broken_ = name + " was answered differently";
      if (s.disk[static_cast<std::size_t>(c)].cpus != w.answered) broken_ = name + " is not on disk";
      if (s.link != Link::kDown && held(s, c) != w.answered) broken_ = name + " lost its CPUs";
    }
    const bool ended = (a.what == Do::kUnprepare && a.x == c) || a.what == Do::kCrash;
    if (!ended && owner(from, c) != kNone && owner(from, c) != owner(s, c))
      broken_ = name + " lost its owner";
  }
  if (broken_.empty() && s.link == Link::kConnected) check_running(s);
}

void Model::check_running(const State& s) {
  Mask owned = 0;
  for (int b = 0; b < kBoxes; ++b) {
    const Box& box = at(s, b);
    if (box.claim == kNone) continue;
    const auto kind = s.ledger.kind_of(id(b, box.turn));
    if (!kind) broken_ = "a running container is not known";
    if (kind != Kind::kExclusive) continue;
    if ((owned & box.cpus) != 0) broken_ = "two owners run on one CPU";
    owned |= box.cpus;
  }
  for (int b = 0; b < kBoxes; ++b) {
    const Box& box = at(s, b);
    if (box.claim == kNone || s.ledger.kind_of(id(b, box.turn)) == Kind::kExclusive) continue;
    if (box.outside && !(strict_ && !s.ledger.pool().empty())) continue;
    if ((owned & box.cpus) != 0) broken_ = "a shared container runs on an owner's CPU";
  }
}

}  // namespace dracpu::ledger::model
