// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Combined mode in the books: CPUs and memory of one result are both held, on disk and given back, or none of
// them; and what becomes of claims when the mode is changed.

#include <gtest/gtest.h>

#include "agent/books.h"
#include "agent/config_conflict.h"
#include "agent/test_files.h"
#include "agent/test_node.h"

namespace dracpu::agent {
namespace {

using config::MemoryMode;
using memory::Kind;

constexpr std::uint64_t kMi = std::uint64_t{1} << 20U;
constexpr const char* kDevice = "cpudevnuma000";

class BooksCombined : public ::testing::Test, protected TestNode {
 protected:
  BooksCombined() { set_mode(MemoryMode::kCombined); }

  void set_mode(MemoryMode mode) {
    node.config.memory.enabled = true;
    node.config.memory.mode = mode;
    auto view = std::make_shared<MemoryView>();
    const bool is_combined = mode == MemoryMode::kCombined;
    view->published.offers = {{is_combined ? kDevice : "memory-numa000",
                               is_combined ? "dra.memory/memory" : "size",
                               Kind(),
                               NumaNodeId(0),
                               {4096},
                               {1024 * kMi}}};
    view->inventory.nodes_with_memory = {NumaNodeId(0)};
    machine.memory = std::move(view);
  }
  // `memory` empty: none is asked for.
  PrepareOrder slot(const std::string& uid, std::size_t cpus, const std::string& memory) const {
    PrepareOrder out = order(uid, cpus);
    if (cpus == 0) out.requests.clear();
    memory::AllocationResult result{"r", "node1", kDevice, std::nullopt, false, {}};
    result.consumed.emplace("dra.cpu/cpu", Quantity(static_cast<std::int64_t>(cpus)));
    if (!memory.empty()) result.consumed.emplace("dra.memory/memory", Quantity::parse(memory).value());
    out.memory = memory::ClaimFacts{.ns = out.ns,
                                    .name = out.name,
                                    .reserved_for = {{"pods", PodUid("pod-" + uid)}},
                                    .results = {result}};
    return out;
  }
  static MemoryOrder alone(const std::string& uid, const std::string& size) {
    return {ClaimUid(uid),
            {.ns = "ns",
             .name = "c-" + uid,
             .reserved_for = {{"pods", PodUid("pod-" + uid)}},
             .results = {{"m",
                          "node1",
                          "memory-numa000",
                          std::nullopt,
                          false,
                          {{"size", Quantity::parse(size).value()}}}}}};
  }
  bool has_file(const std::string& kind, const std::string& uid) const {
    return std::filesystem::exists(dir / "cdi" / ("dra.k8s.io-" + kind + "_claim-" + uid + ".json"));
  }
  static std::size_t cpus_held(Books& books) {
    return books.with_ledger([](const ledger::Ledger& l) { return 8 - l.free().size(); });
  }
  static std::uint64_t mi_held(Books& books) {
    return books.with_memory(
        [](const MemoryBook& m) { return m.accounts.held(Kind(), NumaNodeId(0)).count / kMi; });
  }
  static std::string prepared(Books& books, const PrepareOrder& order) {
    const auto got = books.prepare({order});
    return got[0].ok() ? "" : got[0].error().text;
  }
  void expect_nothing(Books& books, const std::string& uid) const {
    EXPECT_EQ(cpus_held(books), 0U);
    EXPECT_EQ(mi_held(books), 0U);
    EXPECT_FALSE(has_file("cpu", uid));
    EXPECT_FALSE(has_file("memory", uid));
    EXPECT_EQ(books.with_both([](const ledger::Ledger& l, const MemoryBook& m) {
      return l.check() + m.accounts.check();
    }),
              "");
  }

  FaultyFiles ops_;
};

TEST_F(BooksCombined, ASlotIsHeldAndOnDiskThroughARestartAndEndsAtOnce) {
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_EQ(prepared(books, slot("a", 3, "512Mi")), "");
    ASSERT_EQ(prepared(books, slot("m", 0, "256Mi")), "") << "memory alone leaves the CPUs";
    ASSERT_EQ(prepared(books, slot("c", 2, "")), "");
  }
  std::filesystem::remove_all(dir / "cdi");  // a reboot empties it
  Books books(node, machine, ops_);
  const Result<Books::Loaded> loaded = books.load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->from_state, 2U);
  EXPECT_EQ(loaded->memory_claims, 2U);
  EXPECT_TRUE(books.rewrite_missing_cdi().empty());
  EXPECT_TRUE(books.rewrite_missing_memory_cdi().empty());
  EXPECT_EQ(cpus_held(books), 5U);
  EXPECT_EQ(mi_held(books), 768U);
  for (const auto& [uid, cpu, memory] :
       {std::tuple("a", true, true), {"m", false, true}, {"c", true, false}}) {
    EXPECT_EQ(has_file("cpu", uid), cpu) << uid;
    EXPECT_EQ(has_file("memory", uid), memory) << uid;
    const Holding held = books.holding_of(ClaimUid(uid));
    EXPECT_EQ(held.cpus.has_value(), cpu) << uid;
    EXPECT_EQ(held.memory.has_value(), memory) << uid;
    ASSERT_EQ(grants_of(held).size(), 1U) << "one result";
    EXPECT_EQ(grants_of(held)[0].device, kDevice);
  }
  EXPECT_EQ(prepared(books, slot("a", 3, "512Mi")), "") << "again";
  EXPECT_EQ(cpus_held(books), 5U);
  const auto more = books.prepare({slot("b", 1, "257Mi")});
  ASSERT_FALSE(more[0].ok());
  EXPECT_EQ(more[0].error().code, Errc::kNoCapacity);
  EXPECT_EQ(more[0].error().text,
            "claim ns/c-b: device \"cpudevnuma000\", dra.memory/memory: 257Mi requested, 256Mi of 1Gi left");
  EXPECT_EQ(cpus_held(books), 5U);
  ops_.fail_on = "memory_claim-a";
  EXPECT_FALSE(books.unprepare({ClaimUid("a")})[0].ok());
  EXPECT_EQ(cpus_held(books), 5U) << "a file stays, and so does all of the claim";
  ops_.fail_on.clear();
  for (const char* uid : {"a", "m", "c"}) EXPECT_TRUE(books.unprepare({ClaimUid(uid)})[0].ok());
  for (const char* uid : {"a", "m", "c"}) expect_nothing(books, uid);
}

TEST_F(BooksCombined, NeitherHalfIsHeldIfTheOtherCannotBe) {
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  struct Case {
    const char* about;
    std::size_t cpus;
    const char* memory;
    const char* fails_on;
    const char* says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"too few CPUs", 9, "512Mi", "", "needs 9 CPUs"},
           {"too little memory", 2, "2Gi", "", "2Gi requested, 1Gi of 1Gi left"},
           {"half a page", 2, "1000", "", "not a multiple of the page size 4Ki"},
           {"no state", 2, "512Mi", "state.json", "no space left"},
           {"no memory file", 2, "512Mi", "memory_claim-a", "no space left"},
           {"no CPU file", 2, "512Mi", "cpu_claim-a", "no space left"},
           {"no file of memory alone", 0, "512Mi", "memory_claim-a", "no space left"},
       }) {
    SCOPED_TRACE(c.about);
    ops_.fail_on = c.fails_on;
    EXPECT_NE(prepared(books, slot("a", c.cpus, c.memory)).find(c.says), std::string::npos);
    ops_.fail_on.clear();
    expect_nothing(books, "a");
  }
  EXPECT_EQ(prepared(books, slot("a", 8, "1Gi")), "") << "all of it is there still";
}

TEST_F(BooksCombined, AnotherAllocationOfTheSameClaimIsRefused) {
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  ASSERT_EQ(prepared(books, slot("both", 2, "256Mi")), "");
  ASSERT_EQ(prepared(books, slot("memory", 0, "256Mi")), "");
  ASSERT_EQ(prepared(books, slot("cpus", 2, "")), "");
  for (const PrepareOrder& order :
       {slot("both", 2, "128Mi"), slot("both", 2, ""), slot("both", 0, "256Mi"), slot("memory", 1, "256Mi"),
        slot("cpus", 2, "256Mi"), slot("cpus", 0, "256Mi")}) {
    EXPECT_EQ(prepared(books, order),
              fmt::format("claim ns/{} is already prepared with a different allocation", order.name));
  }
  EXPECT_EQ(cpus_held(books), 4U);
  EXPECT_EQ(mi_held(books), 512U);
  EXPECT_EQ(prepared(books, slot("cpus", 3, "")), "") << "CPUs alone follow, while no container has them";
}

// What only the files know, of a state that was lost, is taken over with its devices.
TEST_F(BooksCombined, IsAdoptedFromItsFilesAlone) {
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_EQ(prepared(books, slot("a", 3, "512Mi")), "");
  }
  std::filesystem::remove_all(dir / "kubelet");
  Books books(node, machine, ops_);
  const Result<Books::Loaded> loaded = books.load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->from_cdi, 1U);
  EXPECT_EQ(loaded->memory_from_cdi, 1U);
  EXPECT_TRUE(grants_of(books.holding_of(ClaimUid("a"))).empty() ||
              grants_of(books.holding_of(ClaimUid("a")))[0].device.empty());
  ASSERT_EQ(prepared(books, slot("a", 3, "512Mi")), "");
  ASSERT_EQ(grants_of(books.holding_of(ClaimUid("a"))).size(), 1U);
  EXPECT_TRUE(books.unprepare({ClaimUid("a")})[0].ok());
  expect_nothing(books, "a");
}

// The kubelet ends such a claim where it ends CPUs, so its memory must not stay behind.
TEST_F(BooksCombined, EndsWhereMemoryIsOffMeanwhile) {
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_EQ(prepared(books, slot("a", 3, "512Mi")), "");
  }
  node.config.memory = {};
  machine.memory = nullptr;
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  EXPECT_EQ(prepared(books, order("b", 1)), "") << "nothing holds up CPUs";
  for (const char* uid : {"a", "b"}) EXPECT_TRUE(books.unprepare({ClaimUid(uid)})[0].ok());
  expect_nothing(books, "a");
}

TEST_F(BooksCombined, ClaimsFromBeforeAChangeOfTheModeStayUntilTheyEnd) {
  set_mode(MemoryMode::kSeparate);
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_EQ(prepared(books, order("old", 2)), "");
    ASSERT_TRUE(books.prepare_memory({alone("old", "256Mi")}, nullptr)[0].ok());
  }
  set_mode(MemoryMode::kCombined);
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    const std::string refusal =
        "memory.mode is \"combined\" and 1 claims hold memory of mode \"separate\", first ns/c-old (old); "
        "nothing new is prepared until they end or memory.mode is set back";
    for (const PrepareOrder& fresh : {slot("new", 1, "1Mi"), slot("new", 0, "1Mi"), slot("new", 1, "")})
      EXPECT_EQ(prepared(books, fresh), refusal);
    const auto conflicts = books.with_both(
        [](const ledger::Ledger& l, const MemoryBook& m) { return config_conflicts(l, m, true); });
    ASSERT_EQ(conflicts.size(), 1U);
    EXPECT_EQ(conflicts[0].claims, "ns/c-old (old) has memory on node 0: 256Mi");
    EXPECT_EQ(prepared(books, slot("old", 2, "")), "") << "what was prepared is answered again";
    EXPECT_TRUE(books.prepare_memory({alone("old", "256Mi")}, nullptr)[0].ok());
    EXPECT_TRUE(books.unprepare({ClaimUid("old")})[0].ok());
    EXPECT_EQ(mi_held(books), 256U) << "the memory has an end of its own";
    EXPECT_TRUE(books.unprepare_memory({ClaimUid("old")})[0].ok());
    EXPECT_TRUE(books.with_both(
        [](const ledger::Ledger& l, const MemoryBook& m) { return config_conflicts(l, m, true).empty(); }));
    ASSERT_EQ(prepared(books, slot("new", 1, "1Mi")), "");
  }
  set_mode(MemoryMode::kSeparate);
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  EXPECT_NE(prepared(books, order("later", 1)).find("hold memory of mode \"combined\""), std::string::npos);
  EXPECT_FALSE(books.prepare_memory({alone("later", "1Mi")}, nullptr)[0].ok());
  EXPECT_EQ(prepared(books, order("new", 1)), "");
  EXPECT_TRUE(books.unprepare({ClaimUid("new")})[0].ok());
  expect_nothing(books, "new");
  EXPECT_EQ(prepared(books, order("later", 1)), "");
}

}  // namespace
}  // namespace dracpu::agent
