// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The memory half of the books: what is on disk after each step, and after a restart.

#include <gtest/gtest.h>

#include <fstream>

#include "agent/books.h"
#include "agent/test_files.h"
#include "agent/test_node.h"
#include "config/load.h"
#include "memory/environment.h"

namespace dracpu::agent {
namespace {

using memory::Bytes;
using memory::Kind;

constexpr Bytes kMi{std::uint64_t{1} << 20U};
constexpr Bytes kPage{std::uint64_t{2} << 20U};

class BooksMemory : public ::testing::Test, protected TestNode {
 protected:
  BooksMemory() {
    node.config.memory.enabled = true;
    auto view = std::make_shared<MemoryView>();
    view->published.offers = {
        {"memory-numa000", "size", Kind(), NumaNodeId(0), {4096}, {std::uint64_t{1024} << 20U}},
        {"hugepages-2mi-numa000", "size", Kind::hugepages(kPage), NumaNodeId(0), kPage, {64 * kMi.count}}};
    view->inventory.nodes_with_memory = {NumaNodeId(0)};
    machine.memory = std::move(view);
  }

  static MemoryOrder order_of(const std::string& uid, const std::string& device, const std::string& size) {
    return {ClaimUid(uid),
            {.ns = "ns",
             .name = "c-" + uid,
             .reserved_for = {{"pods", PodUid("pod-" + uid)}},
             .results = {
                 {"r", "node1", device, std::nullopt, false, {{"size", Quantity::parse(size).value()}}}}}};
  }
  std::filesystem::path cdi_file(const std::string& uid) const {
    return dir / "cdi" / ("dra.k8s.io-memory_claim-" + uid + ".json");
  }
  static std::uint64_t held(Books& books) {
    return books.with_memory([](const MemoryBook& m) {
      return m.accounts.held(Kind(), NumaNodeId(0)).count +
             m.accounts.held(Kind::hugepages(kPage), NumaNodeId(0)).count;
    });
  }

  FaultyFiles ops_;
};

TEST_F(BooksMemory, PreparedClaimsSurviveTheProcessBesideTheCpus) {
  std::string file;
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_TRUE(books.prepare({order("a", 2)})[0].ok());
    const auto got = books.prepare_memory(
        {order_of("a", "memory-numa000", "512Mi"), order_of("b", "hugepages-2mi-numa000", "32Mi")}, nullptr);
    for (const auto& r : got) ASSERT_TRUE(r.ok()) << r.error().text;
    file = read_file(cdi_file("a")).value();
    EXPECT_NE(file.find("DRAMEMORY_a_memory=numanode:0,size:512Mi"), std::string::npos) << file;
  }
  std::filesystem::remove_all(dir / "cdi");  // a reboot empties it
  Books again(node, machine, ops_);
  const Result<Books::Loaded> loaded = again.load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->from_state, 1U);
  EXPECT_EQ(loaded->memory_claims, 2U);
  EXPECT_EQ(loaded->memory_from_cdi, 0U);
  EXPECT_TRUE(again.rewrite_missing_memory_cdi().empty());
  EXPECT_EQ(read_file(cdi_file("a")).value(), file);
  EXPECT_EQ(held(again), 544 * kMi.count);
  const auto same = again.prepare_memory({order_of("a", "memory-numa000", "512Mi")}, nullptr);
  ASSERT_TRUE(same[0].ok());
  EXPECT_TRUE(same[0]->committed);
  const auto more = again.prepare_memory({order_of("c", "memory-numa000", "513Mi")}, nullptr);
  ASSERT_FALSE(more[0].ok());
  EXPECT_EQ(more[0].error().code, Errc::kNoCapacity);
  EXPECT_EQ(more[0].error().text,
            "claim ns/c-c: device \"memory-numa000\": 513Mi requested, 512Mi of 1Gi left");
  // The end of one half leaves the other.
  EXPECT_TRUE(again.unprepare_memory({ClaimUid("a"), ClaimUid("unknown")})[0].ok());
  EXPECT_FALSE(std::filesystem::exists(cdi_file("a")));
  EXPECT_EQ(again.with_ledger([](const ledger::Ledger& l) { return l.claims().size(); }), 1U);
}

TEST_F(BooksMemory, WhatCannotBeWrittenIsNotHeld) {
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  for (const char* file : {"state.json", "memory_claim-a"}) {
    SCOPED_TRACE(file);
    ops_.fail_on = file;
    const auto got = books.prepare_memory({order_of("a", "memory-numa000", "512Mi")}, nullptr);
    ASSERT_FALSE(got[0].ok());
    EXPECT_EQ(got[0].error().code, Errc::kUnavailable);
    EXPECT_NE(got[0].error().text.find("no space left"), std::string::npos);
    EXPECT_EQ(held(books), 0U);
    EXPECT_FALSE(std::filesystem::exists(cdi_file("a")));
  }
  ops_.fail_on.clear();
  ASSERT_TRUE(books.prepare_memory({order_of("a", "memory-numa000", "512Mi")}, nullptr)[0].ok());
  ops_.fail_on = "memory_claim-a";
  EXPECT_FALSE(books.unprepare_memory({ClaimUid("a")})[0].ok()) << "its file stays, and so does the claim";
  EXPECT_EQ(held(books), 512 * kMi.count);
}

TEST_F(BooksMemory, FilesOfAnotherDriverAreAdoptedAndTakenApart) {
  std::filesystem::create_directories(dir / "cdi");
  const auto device = [](const std::string& uid, const std::string& amount) {
    return fmt::format(R"({{"name":"claim-{0}","containerEdits":{{"env":["DRAMEMORY_{0}_NUMANodes=0",)"
                       R"("DRAMEMORY_{0}_memory=numanode:0,size:{1}"]}}}})",
                       uid, amount);
  };
  std::ofstream(dir / "cdi" / "dra.memory.json")
      << R"({"cdiVersion":"0.8.0","kind":"dra.k8s.io/memory","devices":[)" << device("a", "512Mi") << ","
      << device("b", "many") << "]}";
  Books books(node, machine, ops_);
  const Result<Books::Loaded> loaded = books.load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->memory_from_cdi, 1U);
  EXPECT_EQ(loaded->warnings.size(), 2U) << "one without a name, one that cannot be read";
  EXPECT_TRUE(books.rewrite_missing_memory_cdi().empty());
  EXPECT_TRUE(std::filesystem::exists(cdi_file("a")));
  EXPECT_EQ(read_file(dir / "cdi" / "dra.memory.json").value().find("claim-a\""), std::string::npos);
  EXPECT_EQ(held(books), 512 * kMi.count);
  const auto taken_over = books.prepare_memory({order_of("a", "memory-numa000", "512Mi")}, nullptr);
  ASSERT_TRUE(taken_over[0].ok()) << taken_over[0].error().text;
  EXPECT_EQ(taken_over[0]->grants[0].device, "memory-numa000");
}

TEST_F(BooksMemory, WithoutMemoryItsClaimsStayInTheFileAndNowhereElse) {
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_TRUE(books.prepare_memory({order_of("a", "memory-numa000", "512Mi")}, nullptr)[0].ok());
  }
  node.config.memory.enabled = false;
  machine.memory = nullptr;
  std::filesystem::remove(cdi_file("a"));
  Books off(node, machine, ops_);
  const Result<Books::Loaded> loaded = off.load();
  ASSERT_TRUE(loaded.ok());
  ASSERT_EQ(loaded->warnings.size(), 1U);
  EXPECT_NE(loaded->warnings[0].find("memory.enabled"), std::string::npos);
  ASSERT_TRUE(off.prepare({order("c", 1)})[0].ok());
  store::StateFile file(config::state_file(node.config));
  const Result<State> state = load_state(file);
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(state->memory.size(), 1U);
  EXPECT_EQ(state->claims.size(), 1U);
}

TEST(StateCodec, MemoryClaimsComeBackWithWhatALaterReleaseAdded) {
  State state{"boot", "node1", "dra.cpu", {}, {}, {}};
  EXPECT_EQ(encode_state(state).find("memory"), std::string::npos) << "as before, where there are none";
  memory::Claim claim{"ns", "c", PodUid("p"), {}, Owner{PodUid("p"), "main"}, true};
  claim.grants.push_back({"r",
                          "node1",
                          "hugepages-2mi-numa001",
                          "share",
                          Kind::hugepages(kPage),
                          NumaNodeId(1),
                          {64 * kMi.count}});
  claim.grants.push_back({"s", "node1", "memory-numa000", std::nullopt, Kind(), NumaNodeId(0), {4096}});
  state.memory.emplace(ClaimUid("u"), claim);
  std::string text = encode_state(state);
  const Result<State> read = decode_state(text);
  ASSERT_TRUE(read.ok()) << read.error().text;
  EXPECT_EQ(read->memory, state.memory);
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"\"podUID\":\"p\",\"owner\"",
                                                                     "\"podUID\":\"p\",\"tier\":2,\"owner\""},
                                 {"\"bytes\":4096", "\"bytes\":4096,\"policy\":\"bind\""}}) {
    ASSERT_NE(text.find(from), std::string::npos) << text;
    text.replace(text.find(from), from.size(), to);
  }
  const Result<State> later = decode_state(text);
  ASSERT_TRUE(later.ok()) << later.error().text;
  const std::string again = encode_state(*later);
  EXPECT_NE(again.find("\"tier\":2"), std::string::npos) << again;
  EXPECT_NE(again.find("\"policy\":\"bind\""), std::string::npos) << again;
  for (const auto& [good, bad] :
       {std::pair<std::string, std::string>{"\"kind\":\"memory\"", "\"kind\":\"ram\""},
        {"\"node\":1", "\"node\":-1"},
        {"\"bytes\":4096", "\"bytes\":\"4096\""}}) {
    std::string broken = text;
    ASSERT_NE(broken.find(good), std::string::npos) << broken;
    broken.replace(broken.find(good), good.size(), bad);
    const Result<State> got = decode_state(broken);
    ASSERT_FALSE(got.ok()) << bad;
    EXPECT_NE(got.error().text.find("state.memoryClaims[0].results"), std::string::npos) << got.error().text;
  }
}

}  // namespace
}  // namespace dracpu::agent
