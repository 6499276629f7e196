// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "agent/state_codec.h"
#include "base/strings.h"
#include "cli/process.h"
#include "store/state_file.h"

namespace dracpu::cli {
namespace {

using ::testing::HasSubstr;

class StateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = std::filesystem::temp_directory_path() / ("dracpu-state-cli-" + random_hex(6));
    state_ = {"boot-1", "node1", "dra.cpu", {}};
    add("u1", "0-1");
    add("u2", "4");
  }
  void TearDown() override { std::filesystem::remove(file_); }

  void add(const std::string& uid, const std::string& cpus) {
    ledger::Claim claim;
    claim.ns = "ns";
    claim.name = "claim-" + uid;
    claim.cpus = CpuSet::parse(cpus).value();
    claim.grants = {{"r", "node1", "cpudevnuma000", std::nullopt, claim.cpus.size()}};
    if (uid == "u1") claim.owner = ledger::Owner{PodUid("pod-1"), "app"};
    if (uid == "u2") claim.prepared_at = 1'700'000'000;
    state_.claims[ClaimUid(uid)] = claim;
  }
  void save() { ASSERT_TRUE(store::StateFile(file_).save(agent::encode_state(state_)).ok()); }

  struct Outcome {
    int status;
    std::string out;
    std::string err;
  };
  Outcome run(const std::vector<std::string>& args) const {
    std::vector<std::string> all{"state"};
    all.insert(all.end(), args.begin(), args.end());
    all.push_back("--file=" + file_.string());
    const CommandLine line = parse_command_line(all);
    if (line.kind != CommandLine::Kind::kState) return {line.status, "", line.text};
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int status = run_state(line);
    return {status, ::testing::internal::GetCapturedStdout(), ::testing::internal::GetCapturedStderr()};
  }

  std::filesystem::path file_;
  agent::State state_;
};

TEST_F(StateTest, ShowsWhoHoldsWhat) {
  save();
  const Outcome text = run({"show"});
  EXPECT_EQ(text.status, kOk) << text.err;
  for (const char* part : {"format   1.0", "node     node1", "(an earlier one)", "ns/claim-u1",
                           "cpus     0-1", "container app of pod pod-1", "cpudevnuma000:2", "none yet",
                           "prepared not known", "prepared 2023-11-14T22:13:20Z"}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  const Outcome json = run({"show", "-o", "json"});
  EXPECT_EQ(json.status, kOk);
  EXPECT_THAT(json.out, HasSubstr(R"("uid":"u2","cpus":"4","preparedAt":"2023-11-14T22:13:20Z")"));
}

TEST_F(StateTest, VerifyFindsWhatAChecksumCannot) {
  save();
  EXPECT_EQ(run({"verify"}).status, kOk);
  EXPECT_THAT(run({"verify"}).out, HasSubstr("ok, 2 claims"));
  std::filesystem::permissions(file_, std::filesystem::perms(0644));
  add("u3", "1-2");
  state_.claims[ClaimUid("u4")] = {};
  std::ofstream(file_, std::ios::trunc) << store::seal(agent::encode_state(state_));
  const Outcome got = run({"verify"});
  EXPECT_EQ(got.status, kRefused);
  EXPECT_THAT(got.out, HasSubstr("mode 0644"));
  EXPECT_THAT(got.out, HasSubstr("claims u1 and u3 both hold CPUs 1"));
  EXPECT_THAT(got.out, HasSubstr("claim u4 has no CPUs"));
  EXPECT_THAT(run({"verify", "-o", "json"}).out, HasSubstr("\"findings\":["));
}

// The driver would hold the CPUs and never be able to write the claim's file.
TEST_F(StateTest, VerifyFindsNamesThatCannotBe) {
  add("../../tmp/x", "5");
  state_.node.clear();
  save();
  const Outcome got = run({"verify"});
  EXPECT_EQ(got.status, 3);
  EXPECT_THAT(got.out, HasSubstr("../../tmp/x"));
  EXPECT_THAT(got.out, HasSubstr("node is empty"));
}

TEST_F(StateTest, DamageAndAbsenceAreToldApart) {
  for (const char* action : {"show", "verify"}) {
    EXPECT_EQ(run({action}).status, kBadInput) << "no file";
    std::ofstream(file_) << "garbage";
    const Outcome got = run({action});
    EXPECT_EQ(got.status, kRefused);
    EXPECT_THAT(got.err, HasSubstr("keeps such a file aside"));
    std::filesystem::remove(file_);
  }
}

TEST_F(StateTest, BadCommandLines) {
  EXPECT_EQ(run({}).status, kBadInput);
  EXPECT_EQ(run({"forget"}).status, kBadInput);
  EXPECT_EQ(run({"show", "-o", "yaml"}).status, kBadInput);
  EXPECT_EQ(run({"show", "verify"}).status, kBadInput);
}

}  // namespace
}  // namespace dracpu::cli
