// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What is on disk after each step, also when a write fails and when the process ends between two of them.

#include "agent/books.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "agent/claim_metadata.h"
#include "agent/test_node.h"
#include "config/load.h"

namespace dracpu::agent {
namespace {

// Fails every call whose path contains a word, while it is set.
class FaultyOps final : public FileOps {
 public:
  std::string fail_on;
  std::string fail_once;  // the first write to such a path
  int state_writes = 0;
  std::vector<std::filesystem::path> synced;
  std::filesystem::path fail_sync;

  Status write_and_sync(const std::filesystem::path& p, std::string_view d, mode_t m) override {
    if (p.string().find("state.json") != std::string::npos) ++state_writes;
    if (!fail_once.empty() && p.string().find(fail_once) != std::string::npos) {
      fail_once.clear();
      return failure();
    }
    return bad(p) ? failure() : real_file_ops().write_and_sync(p, d, m);
  }
  Status rename(const std::filesystem::path& a, const std::filesystem::path& b) override {
    return bad(b) ? failure() : real_file_ops().rename(a, b);
  }
  Status remove(const std::filesystem::path& p) override {
    return bad(p) ? failure() : real_file_ops().remove(p);
  }
  Status sync_dir(const std::filesystem::path& d) override {
    synced.push_back(d);
    if (d == fail_sync) return failure();
    return real_file_ops().sync_dir(d);
  }

 private:
  bool bad(const std::filesystem::path& p) const {
    return !fail_on.empty() && p.string().find(fail_on) != std::string::npos;
  }
  static Status failure() { return make_error(Errc::kUnavailable, "no space left on device"); }
};

class BooksTest : public ::testing::Test, protected TestNode {
 protected:
  std::filesystem::path cdi_file(const std::string& uid) const {
    return dir / "cdi" / ("dra.k8s.io-cpu_claim-" + uid + ".json");
  }
  void put_cdi(const std::string& uid, const std::string& cpus) const {
    std::filesystem::create_directories(dir / "cdi");
    std::ofstream(cdi_file(uid))
        << R"({"cdiVersion":"0.8.0","kind":"dra.k8s.io/cpu","devices":[{"name":"claim-)" << uid
        << R"(","containerEdits":{"env":["DRA_CPUSET_)" << uid << "=" << cpus
        << R"("]}}],"containerEdits":{}})";
  }
  std::string text_of(const std::string& uid) const {
    const Result<std::string> text = read_file(cdi_file(uid));
    return text.ok() ? *text : text.error().text;
  }
  static std::string cpus_of(Books& books, const std::string& uid) {
    return books.with_ledger([&](const ledger::Ledger& l) {
      const auto it = l.claims().find(ClaimUid(uid));
      return it == l.claims().end() ? std::string("none") : it->second.cpus.to_string();
    });
  }

  FaultyOps ops_;
};

TEST_F(BooksTest, PreparedClaimsSurviveTheProcess) {
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    const auto got = books.prepare({order("a", 2), order("b", 1), order("c", 1)});
    for (const auto& r : got) ASSERT_TRUE(r.ok()) << r.error().text;
    EXPECT_EQ(ops_.state_writes, 1) << "claims of one call share a write";
  }
  std::filesystem::remove_all(dir / "cdi");  // a reboot empties it
  Books again(node, machine, ops_);
  const Result<Books::Loaded> loaded = again.load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->from_state, 3U);
  EXPECT_EQ(cpus_of(again, "a"), "0-1");
  EXPECT_TRUE(again.rewrite_missing_cdi().empty());
  EXPECT_TRUE(std::filesystem::exists(cdi_file("a")));
  EXPECT_EQ(again.prepare({order("d", 1)})[0]->cpus.to_string(), "4");
}

TEST_F(BooksTest, StateThatCannotBeWrittenRefusesAndHoldsNothing) {
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  ops_.fail_on = "state.json";
  const auto got = books.prepare({order("a", 2)});
  ASSERT_FALSE(got[0].ok());
  EXPECT_EQ(got[0].error().code, Errc::kUnavailable);
  EXPECT_NE(got[0].error().text.find("no space left"), std::string::npos);
  EXPECT_EQ(cpus_of(books, "a"), "none");
  EXPECT_FALSE(std::filesystem::exists(cdi_file("a")));
  ops_.fail_on.clear();
  EXPECT_TRUE(books.prepare({order("a", 2)})[0].ok());
}

TEST_F(BooksTest, CdiFileThatCannotBeWrittenGivesTheCpusBack) {
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  ops_.fail_on = "claim-a";
  const auto got = books.prepare({order("a", 2), order("b", 1)});
  ASSERT_FALSE(got[0].ok());
  ASSERT_TRUE(got[1].ok()) << "one bad claim does not stop the other";
  EXPECT_EQ(cpus_of(books, "a"), "none");
  EXPECT_TRUE(books.save_owed());
  ops_.fail_on.clear();
  EXPECT_TRUE(books.prepare({order("a", 2)})[0].ok());
  EXPECT_FALSE(books.save_owed());
}

TEST_F(BooksTest, AClaimAskedForTwiceAtOnceIsOneClaim) {
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  ops_.fail_once = "claim-a";  // were it two, the second would be answered and the first given back
  const auto got = books.prepare({order("a", 2), order("a", 2), order("a", 3)});
  for (const auto& r : got) EXPECT_FALSE(r.ok());
  EXPECT_EQ(cpus_of(books, "a"), "none");
  const auto again = books.prepare({order("a", 2), order("a", 2), order("a", 3)});
  ASSERT_TRUE(again[0].ok());
  ASSERT_TRUE(again[1].ok());
  EXPECT_EQ(again[2].error().code, Errc::kUnavailable);
  EXPECT_EQ(again[0]->cpus, again[1]->cpus);
  EXPECT_EQ(cpus_of(books, "a"), again[0]->cpus.to_string());
}

TEST_F(BooksTest, AFileOfCpusThatWereGivenUpDoesNotStay) {
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  ASSERT_TRUE(books.prepare({order("a", 2)})[0].ok());
  ops_.fail_once = "claim-a";
  const auto got = books.prepare({order("a", 7), order("b", 1)});  // the first has another allocation now
  EXPECT_FALSE(got[0].ok());
  ASSERT_TRUE(got[1].ok());
  EXPECT_FALSE(std::filesystem::exists(cdi_file("a"))) << "it names CPUs that b may have";
  ASSERT_TRUE(books.prepare({order("a", 7)})[0].ok());
  EXPECT_TRUE(std::filesystem::exists(cdi_file("a")));
}

TEST_F(BooksTest, AClaimWhoseFileMayBeThereStaysHeldThroughAFailedSave) {
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  ops_.fail_sync = dir / "cdi";
  EXPECT_FALSE(books.prepare({order("a", 2)})[0].ok()) << "its file is there, but not for certain";
  ops_.fail_sync.clear();
  ops_.fail_on = "state.json";
  EXPECT_FALSE(books.prepare({order("a", 2), order("b", 1)})[0].ok());
  ops_.fail_on.clear();
  EXPECT_EQ(cpus_of(books, "a"), "0-1");
  EXPECT_EQ(books.prepare({order("b", 1)})[0]->cpus.to_string(), "2");
}

TEST_F(BooksTest, CdiFileThatCannotBeRemovedKeepsTheClaim) {
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  ASSERT_TRUE(books.prepare({order("a", 2)})[0].ok());
  ops_.fail_on = "claim-a";
  EXPECT_FALSE(books.unprepare({ClaimUid("a")})[0].ok());
  EXPECT_EQ(cpus_of(books, "a"), "0-1");
  ops_.fail_on.clear();
  EXPECT_TRUE(books.unprepare({ClaimUid("a")})[0].ok());
  EXPECT_TRUE(books.unprepare({ClaimUid("a")})[0].ok()) << "twice is harmless";
  EXPECT_TRUE(books.unprepare({ClaimUid("../../etc/passwd")})[0].ok()) << "never prepared, so nothing to do";
  EXPECT_EQ(cpus_of(books, "a"), "none");
}

TEST_F(BooksTest, FailedSaveAtUnprepareIsOwedNotAnError) {
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  ASSERT_TRUE(books.prepare({order("a", 2)})[0].ok());
  ops_.fail_on = "state.json";
  EXPECT_TRUE(books.unprepare({ClaimUid("a")})[0].ok());
  EXPECT_TRUE(books.save_owed());
  ops_.fail_on.clear();
  EXPECT_TRUE(books.unprepare({ClaimUid("zz")})[0].ok());
  EXPECT_FALSE(books.save_owed());
}

TEST_F(BooksTest, ClaimUidThatCannotBeAFileNameIsRefused) {
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  for (const char* uid : {"../x", "a/b", "", "."}) {
    SCOPED_TRACE(uid);
    const auto got = books.prepare({order(uid, 1)});
    ASSERT_FALSE(got[0].ok());
    EXPECT_EQ(cpus_of(books, uid), "none");
  }
}

TEST_F(BooksTest, ItsOwnStateCountsAndTheFileFollows) {
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_TRUE(books.prepare({order("a", 2), order("cut", 1)})[0].ok());
  }
  put_cdi("a", "4-5");
  std::ofstream(cdi_file("cut")) << R"({"cdiVersion":"0.8)";
  Books books(node, machine, ops_);
  const Result<Books::Loaded> loaded = books.load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_FALSE(loaded->stale);
  EXPECT_EQ(loaded->warnings.size(), 2U);
  EXPECT_EQ(books.conflicts(), 1U);
  EXPECT_EQ(cpus_of(books, "a"), "0-1");
  EXPECT_TRUE(books.rewrite_missing_cdi().empty());
  EXPECT_NE(text_of("cut").find("=2"), std::string::npos);
  EXPECT_NE(text_of("a").find("=4-5"), std::string::npos) << "disputed until the containers are known";
  EXPECT_TRUE(books.settle({}).empty());
  EXPECT_TRUE(books.rewrite_missing_cdi().empty());
  EXPECT_NE(text_of("a").find("=0-1"), std::string::npos) << "the file follows the state";
}

TEST_F(BooksTest, AContainerThatRunsWithWhatTheFileSaysDecides) {
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_TRUE(books.prepare({order("a", 2), order("b", 1)})[0].ok());
  }
  put_cdi("a", "4-5");
  put_cdi("b", "6");
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  const std::vector<std::string> env{"DRA_CPUSET_a=4-5"};
  const std::vector<std::string> forged{"DRA_CPUSET_b=7"};
  const std::vector<ledger::ContainerFacts> running{
      {ContainerId("1"), {PodUid("p"), "app"}, "ns/p", &env, "4-5"},
      {ContainerId("2"), {PodUid("q"), "app"}, "ns/q", &forged, "0-7"}};
  EXPECT_EQ(books.settle(running).size(), 1U);
  EXPECT_EQ(cpus_of(books, "a"), "4-5");
  EXPECT_EQ(cpus_of(books, "b"), "2") << "neither file nor container alone moves a claim";
  EXPECT_TRUE(
      books.with_ledger([&](ledger::Ledger& l) { return l.synchronize(running).findings.size() == 1; }));
  EXPECT_TRUE(books.settle(running).empty()) << "once";
}

TEST_F(BooksTest, AfterAnotherDriverTheFilesCount) {
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_TRUE(books.prepare({order("a", 2), order("kept", 1)})[0].ok());
  }
  put_cdi("a", "4-5");
  put_cdi("old", "6-7");
  put_cdi("named", "0");
  std::filesystem::remove(cdi_file("kept"));
  const cdi::MetadataFiles files = metadata_files(node, "dra.cpu");
  ASSERT_TRUE(files.write({ClaimUid("named"), "ns-x", "claim-x", "", "r"}, "{}").ok());
  Books books(node, machine, ops_);
  const Result<Books::Loaded> loaded = books.load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded->stale);
  EXPECT_EQ(cpus_of(books, "a"), "4-5");
  EXPECT_EQ(cpus_of(books, "old"), "6-7");
  EXPECT_EQ(cpus_of(books, "named"), "0");
  EXPECT_EQ(cpus_of(books, "kept"), "2");
  books.with_ledger([](ledger::Ledger& l) {
    EXPECT_EQ(l.claims().at(ClaimUid("named")).ns, "ns-x");
    EXPECT_EQ(l.claims().at(ClaimUid("named")).name, "claim-x");
    EXPECT_EQ(l.claims().at(ClaimUid("old")).name, "");
  });
  EXPECT_TRUE(books.is_unconfirmed(ClaimUid("kept"))) << "until it was asked for";
  EXPECT_FALSE(books.is_unconfirmed(ClaimUid("a")));
  EXPECT_TRUE(books.prepare({order("kept", 1)})[0].ok());
  EXPECT_FALSE(books.has_unconfirmed());
}

TEST_F(BooksTest, AClaimThatWasPickedAnewComesBackWhenItCannotBeSaved) {
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  ASSERT_TRUE(books.prepare({order("a", 2)})[0].ok());
  std::size_t failed_saves = 0;
  books.observe_saves([&](std::chrono::duration<double>, bool ok) { failed_saves += ok ? 0U : 1U; });
  ops_.fail_on = "state.json";
  EXPECT_FALSE(books.prepare({order("a", 3), order("b", 1)})[0].ok());
  EXPECT_EQ(cpus_of(books, "a"), "0-1");
  EXPECT_EQ(cpus_of(books, "b"), "none");
  EXPECT_EQ(failed_saves, 1U);
}

TEST_F(BooksTest, AClaimWhoseFileMayBeThereStaysHeld) {
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  put_cdi("a", "0-1");
  ops_.fail_on = "claim-a";
  EXPECT_FALSE(books.prepare({order("a", 2)})[0].ok());
  EXPECT_EQ(cpus_of(books, "a"), "0-1");
  ops_.fail_on.clear();
  EXPECT_TRUE(books.prepare({order("a", 2)})[0].ok());
  EXPECT_EQ(cpus_of(books, "a"), "0-1");
}

TEST_F(BooksTest, ReservedCpusUnderAClaimStopNewClaimsOnly) {
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_TRUE(books.prepare({order("a", 2)})[0].ok());
  }
  node.config.node.reserved_cpus = CpuSet{1};
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  EXPECT_EQ(cpus_of(books, "a"), "0-1");
  const auto got = books.prepare({order("a", 2), order("b", 1)});
  EXPECT_TRUE(got[0].ok()) << "what is prepared is answered as before";
  ASSERT_FALSE(got[1].ok());
  EXPECT_NE(got[1].error().text.find("ns/c-a (a)"), std::string::npos) << got[1].error().text;
  EXPECT_TRUE(books.unprepare({ClaimUid("a")})[0].ok());
  EXPECT_TRUE(books.prepare({order("b", 1)})[0].ok());
}

TEST_F(BooksTest, UnreadableStateIsKeptAsideAndRebuilt) {
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_TRUE(books.prepare({order("a", 2)})[0].ok());
  }
  const std::filesystem::path state = config::state_file(node.config);
  std::filesystem::resize_file(state, std::filesystem::file_size(state) - 3);
  Books books(node, machine, ops_);
  const Result<Books::Loaded> loaded = books.load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->from_state, 0U);
  EXPECT_EQ(loaded->from_cdi, 1U) << "the CDI file still says it";
  ASSERT_EQ(loaded->warnings.size(), 2U) << "the claim's name is not in it";
  EXPECT_NE(loaded->warnings[0].find("kept as"), std::string::npos);
  EXPECT_EQ(cpus_of(books, "a"), "0-1");
}

TEST_F(BooksTest, AStateSetAsideByAStartThatDiedIsToldByTheNext) {
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_TRUE(books.prepare({order("a", 2)})[0].ok());
  }
  const std::filesystem::path state = config::state_file(node.config);
  std::filesystem::rename(state, state.string() + ".unreadable-1700000000");
  Books books(node, machine, ops_);
  const Result<Books::Loaded> loaded = books.load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->from_cdi, 1U);
  EXPECT_TRUE(std::any_of(loaded->warnings.begin(), loaded->warnings.end(), [](const std::string& w) {
    return w.find(".unreadable-1700000000") != std::string::npos;
  }));
}

TEST_F(BooksTest, AClaimInBothLayoutsIsPutRightAtTheStart) {
  put_cdi("a", "0-1");
  std::filesystem::copy_file(cdi_file("a"), dir / "cdi" / "dra.cpu.json");  // a crash between the two writes
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  EXPECT_TRUE(books.rewrite_missing_cdi().empty());
  EXPECT_FALSE(std::filesystem::exists(dir / "cdi" / "dra.cpu.json"));
  EXPECT_NE(text_of("a").find("=0-1"), std::string::npos);
}

TEST_F(BooksTest, WhatTheLastProcessMayNotHaveSyncedIsSyncedAtTheStart) {
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_TRUE(books.prepare({order("a", 2)})[0].ok());
  }
  ops_.synced.clear();
  Books books(node, machine, ops_);
  ASSERT_TRUE(books.load().ok());
  EXPECT_EQ(ops_.synced, std::vector{config::state_file(node.config).parent_path()});
}

TEST_F(BooksTest, StateOfAnotherNodeIsNotOurs) {
  {
    Books books(node, machine, ops_);
    ASSERT_TRUE(books.load().ok());
    ASSERT_TRUE(books.prepare({order("a", 2)})[0].ok());
  }
  std::filesystem::remove_all(dir / "cdi");
  node.name = "node2";
  Books books(node, machine, ops_);
  const Result<Books::Loaded> loaded = books.load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->from_state, 0U);
  ASSERT_EQ(loaded->warnings.size(), 1U);
  EXPECT_NE(loaded->warnings[0].find("node1"), std::string::npos);
}

}  // namespace
}  // namespace dracpu::agent
