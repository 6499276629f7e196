// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Random walks over the ledger's steps on a small machine: after every step each CPU is in one hand, and
// every running exclusive container is disjoint from every other container that was told its set. What this
// adds to the model test, which sees every state of a smaller world: any number of containers, every claim
// changes its size, and the pool's growth is told in parts.

#include <gtest/gtest.h>

#include <random>

#include "ledger/ledger.h"

namespace dracpu::ledger {
namespace {

// A runtime that does what it is told at once.
struct Box {
  Owner who;
  std::vector<std::string> env;
  std::string cpus;
};

class Walk {
 public:
  explicit Walk(unsigned seed)
      : random_(seed),
        ledger_(CpuSet{0, 1, 2, 3}, CpuSet{}, CpuSet{},
                [](const CpuSet& free, std::size_t n) -> Result<CpuSet> {
                  if (free.size() < n) return make_error(Errc::kNoCapacity, "{} of {}", n, free.size());
                  return free.lowest(n);
                }) {}

  std::string step() {
    switch (pick(8)) {
      case 0:
        return prepare(true);
      case 1:
        return prepare(false);
      case 2:
        return release();
      case 3:
        return create_owner();
      case 4:
        return create_shared();
      case 5:
        return stop();
      case 6:
        return synchronize();
      default:
        return grow();
    }
  }

  std::string broken() const {
    if (std::string what = ledger_.check(); !what.empty()) return what;
    CpuSet exclusive;
    for (const auto& [id, box] : boxes_) {
      if (box.env.empty()) continue;
      const CpuSet cpus = CpuSet::parse(box.cpus).value();
      if (cpus.intersects(exclusive)) return "two owners run on one CPU";
      exclusive |= cpus;
    }
    for (const auto& [id, box] : boxes_) {
      if (box.cpus.empty()) return "container " + id + " was told an empty set";
      if (box.env.empty() && CpuSet::parse(box.cpus)->intersects(exclusive))
        return "a shared container runs on an owned CPU";
    }
    return {};
  }

 private:
  unsigned pick(unsigned n) { return std::uniform_int_distribution<unsigned>(0, n - 1)(random_); }
  std::string uid() { return std::string(1, static_cast<char>('a' + pick(3))); }
  void apply(const std::vector<Update>& updates) {
    for (const Update& u : updates) {
      if (const auto it = boxes_.find(u.id.get()); it != boxes_.end()) it->second.cpus = u.cpus.to_string();
    }
  }
  bool runs(const std::string& claim) const {
    for (const auto& [id, box] : boxes_) {
      if (!box.env.empty() && box.env[0].starts_with("DRA_CPUSET_" + claim + "=")) return true;
    }
    return false;
  }

  std::string prepare(bool commit) {
    const std::string c = uid();
    const std::size_t n = 1 + pick(2);
    const Request r{"r", "n", "d", std::nullopt, n, CpuSet{0, 1, 2, 3}};
    const bool known = ledger_.claims().contains(ClaimUid(c));
    if (ledger_.prepare(ClaimUid(c), "ns", c, {r}).ok()) {
      if (commit || known)
        ledger_.commit(ClaimUid(c));
      else
        ledger_.abort(ClaimUid(c));
    }
    return "prepare " + c;
  }
  std::string release() {
    const std::string c = uid();
    if (!runs(c)) ledger_.release(ClaimUid(c));  // the kubelet unprepares after the containers have ended
    return "release " + c;
  }
  std::string create_owner() {
    const std::string c = uid();
    const auto it = ledger_.claims().find(ClaimUid(c));
    if (it == ledger_.claims().end()) return "no claim " + c;
    Box box{{PodUid("p" + std::to_string(pick(2))), "app"},
            {"DRA_CPUSET_" + c + "=" + it->second.cpus.to_string()},
            ""};
    if (runs(c)) return "runs already";
    return create(std::move(box));
  }
  std::string create_shared() { return create(Box{{PodUid("s"), "c" + std::to_string(pick(3))}, {}, ""}); }
  std::string create(Box box) {
    const std::string id = std::to_string(next_++);
    const ContainerFacts facts{ContainerId(id), box.who, "ns/p", &box.env, ""};
    Result<Placement> p = ledger_.create(facts);
    if (!p.ok()) return "refused: " + p.error().text;
    apply(p->updates);
    box.cpus = p->cpus.to_string();
    boxes_.emplace(id, std::move(box));
    return "create " + id;
  }
  std::string stop() {
    if (boxes_.empty()) return "nothing to stop";
    const auto it = std::next(boxes_.begin(), pick(static_cast<unsigned>(boxes_.size())));
    ledger_.remove(ContainerId(it->first));
    boxes_.erase(it);
    return "stop";
  }
  std::string synchronize() {
    std::vector<ContainerFacts> facts;
    for (auto& [id, box] : boxes_) facts.push_back({ContainerId(id), box.who, "ns/p", &box.env, box.cpus});
    const Synchronized s = ledger_.synchronize(facts);
    apply(s.updates);
    return s.findings.empty() ? "synchronize" : "synchronize: " + s.findings[0].what.text;
  }
  std::string grow() {
    const std::vector<Update> updates = ledger_.stale(pick(3));
    apply(updates);
    ledger_.note_told(updates);
    return "grow";
  }

  std::mt19937 random_;
  Ledger ledger_;
  std::map<std::string, Box> boxes_;
  int next_ = 0;
};

TEST(LedgerWalk, NoCpuInTwoHands) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    Walk walk(seed);
    std::string trail;
    for (int i = 0; i < 120; ++i) {
      trail += walk.step() + "; ";
      const std::string broken = walk.broken();
      ASSERT_EQ(broken, "") << "seed " << seed << ": " << trail;
    }
  }
}

}  // namespace
}  // namespace dracpu::ledger
