// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// All the model's states within some bounds, breadth first. With everything at once they are too many, so
// each test lets other things happen. Builds that are slow stop early.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <iostream>
#include <limits>
#include <unordered_set>

#include "ledger/ledger_model.h"

namespace dracpu::ledger::model {
namespace {

#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
#else
constexpr std::size_t kMost = 10000;
#endif

void explore(const Bounds& in) {
  struct Node {
    std::size_t from;
    Action by;
  };
  const std::vector<Action> actions = actions_in(in);
  const auto begun = std::chrono::steady_clock::now();
  std::vector<Node> nodes{{0, {}}};
  std::unordered_set<std::string> seen;
  std::deque<std::pair<State, const std::string*>> frontier;
  frontier.emplace_back(Model::start(), &*seen.insert(Model::encode(Model::start())).first);
  Model model(in);
  std::size_t transitions = 0;
  for (std::size_t at = 0; !frontier.empty() && at < kMost; ++at) {
    const auto [state, code] = std::move(frontier.front());
    frontier.pop_front();
    const auto boxes = Model::encode_boxes(state);
    // Of positions that are alike one is enough.
    const auto again = [&](const Action& a) {
      return is_about_box(a) && std::find(boxes.begin(), boxes.begin() + a.x,
                                          boxes[static_cast<std::size_t>(a.x)]) != boxes.begin() + a.x;
    };
    for (const Action& a : actions) {
      if (again(a)) continue;
      std::optional<State> next = model.step(state, *code, a);
      if (!model.broken().empty()) {
        std::string trail = to_text(a);
        for (std::size_t i = at; i != 0; i = nodes[i].from)
          trail = fmt::format("{} {}", to_text(nodes[i].by), trail);
        FAIL() << model.broken() << "\nafter: " << trail << "\n" << nodes.size() << " states were seen";
      }
      if (!next) continue;
      ++transitions;
      const auto [it, fresh] = seen.insert(Model::encode(*next));
      if (!fresh) continue;
      nodes.push_back({at, a});
      frontier.emplace_back(*std::move(next), &*it);
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  EXPECT_GT(nodes.size(), 1000U) << "the model does not get far";
  ::testing::Test::RecordProperty("states", std::to_string(nodes.size()));
  ::testing::Test::RecordProperty("transitions", std::to_string(transitions));
  std::cout << nodes.size() << " states, " << transitions << " transitions, "
            << fmt::format("{:.1f} s\n", took.count());
}

constexpr bool kYes = true;
constexpr bool kNo = false;

TEST(LedgerModel, ThreeContainers) {
  explore({.boxes = 3,
           .claims = 3,
           .late_ends = kNo,
           .lost = kNo,
           .saves = kNo,
           .other_driver = kNo,
           .changes = kNo});
}

TEST(LedgerModel, LostAnswers) {
  explore({.boxes = 2,
           .claims = 3,
           .late_ends = kNo,
           .lost = kYes,
           .saves = kNo,
           .other_driver = kYes,
           .changes = kYes});
}

TEST(LedgerModel, FailedAndLateSaves) {
  explore({.boxes = 2,
           .claims = 2,
           .late_ends = kNo,
           .lost = kNo,
           .saves = kYes,
           .other_driver = kYes,
           .changes = kYes});
}

TEST(LedgerModel, EndsReportedLate) {
  explore({.boxes = 1,
           .claims = 3,
           .late_ends = kYes,
           .lost = kYes,
           .saves = kNo,
           .other_driver = kNo,
           .changes = kNo});
}

TEST(LedgerModel, TwoContainersOfOneClaim) {
  explore({.boxes = 2,
           .claims = 1,
           .late_ends = kYes,
           .lost = kYes,
           .saves = kYes,
           .other_driver = kNo,
           .changes = kNo});
}

// Takes a minute: to be run by hand after a change of the ledger's steps.
TEST(LedgerModel, DISABLED_Wider) {
  explore({.boxes = 2,
           .claims = 3,
           .late_ends = kNo,
           .lost = kNo,
           .saves = kYes,
           .other_driver = kNo,
           .changes = kNo});
  explore({.boxes = 2,
           .claims = 2,
           .late_ends = kYes,
           .lost = kNo,
           .saves = kNo,
           .other_driver = kYes,
           .changes = kYes});
  explore({.boxes = 3,
           .claims = 3,
           .late_ends = kNo,
           .lost = kYes,
           .saves = kNo,
           .other_driver = kNo,
           .changes = kNo});
}

}  // namespace
}  // namespace dracpu::ledger::model
