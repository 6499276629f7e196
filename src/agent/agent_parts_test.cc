// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Guard, worker, state codec, version rule.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "agent/guard.h"
#include "agent/registration_timer.h"
#include "agent/runtime_service.h"
#include "agent/state_codec.h"
#include "agent/worker.h"
#include "base/strings.h"
#include "store/state_file.h"

namespace dracpu::agent {
namespace {

class TempDir {
 public:
  TempDir() : path_(std::filesystem::temp_directory_path() / ("dracpu-agent-test-" + random_hex(6))) {}
  ~TempDir() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(RegistrationTimer, OffersTheSocketsAnewLaterEachTime) {
  RegistrationTimer timer;
  RegistrationTimer::Clock::time_point now{};
  const auto wait_of = [&] {
    timer.offered(now);
    const RegistrationTimer::Clock::time_point begun = now;
    while (!timer.due(now)) now += std::chrono::seconds(1);
    return std::chrono::duration_cast<std::chrono::seconds>(now - begun).count();
  };
  for (const long expected : {30, 60, 120, 240, 300, 300}) EXPECT_EQ(wait_of(), expected);
  timer.reset();
  EXPECT_EQ(wait_of(), 30);
}

TEST(Guard, OneHolderAndTheNextOneGetsItAtOnce) {
  const TempDir dir;
  Guard first(dir.path());
  Guard second(dir.path());
  ASSERT_TRUE(*first.try_take());
  EXPECT_FALSE(*second.try_take());
  EXPECT_TRUE(first.still_ours());
  first.release();
  EXPECT_TRUE(*second.try_take());
}

TEST(Guard, EndsWithTheProcessHoweverItDies) {
  const TempDir dir;
  std::filesystem::create_directories(dir.path());
  const pid_t child = ::fork();
  if (child == 0) {
    Guard guard(dir.path());
    const Result<bool> got = guard.try_take();
    if (!got.ok() || !*got) ::_exit(1);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  Guard guard(dir.path());
  EXPECT_TRUE(*guard.try_take());
}

TEST(Guard, AStandbyIsWokenWhenTheOwnerEnds) {
  const TempDir dir;
  Guard first(dir.path());
  Guard second(dir.path());
  ASSERT_TRUE(*first.try_take());
  std::atomic<bool> told{false};
  LockWait wait(second, [&] { told = true; });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(wait.done());
  first.release();
  while (!told) std::this_thread::yield();
  ASSERT_TRUE(wait.done());
  EXPECT_TRUE(*second.take(wait));
  EXPECT_TRUE(second.still_ours());
  EXPECT_FALSE(*first.try_take());
}

TEST(Guard, AWaitCanBeGivenUpAndLeavesTheLockFree) {
  const TempDir dir;
  Guard first(dir.path());
  Guard second(dir.path());
  ASSERT_TRUE(*first.try_take());
  for (int i = 0; i < 50; ++i) const LockWait wait(second, [] {});
  first.release();
  {
    const LockWait wait(second, [] {});
  }  // may get it, and gives it back
  EXPECT_TRUE(*first.try_take());
}

TEST(Guard, AWaitThatGotAReplacedFileHoldsNothing) {
  const TempDir dir;
  Guard first(dir.path());
  Guard second(dir.path());
  ASSERT_TRUE(*first.try_take());
  LockWait wait(second, [] {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::filesystem::remove(first.path());
  first.release();
  while (!wait.done()) std::this_thread::yield();
  EXPECT_FALSE(*second.take(wait));
  EXPECT_FALSE(second.still_ours());
}

TEST(Guard, NetworkFileSystemsProveNothing) {
  for (const std::uint64_t type : {0x6969UL, 0x517BUL, 0xFE534D42UL, 0xFF534D42UL, 0xFFFFFFFFFF534D42UL,
                                   0x01021997UL, 0x00C36400UL, 0x65735546UL}) {
    EXPECT_NE(network_file_system(type), "") << type;
  }
  // tmpfs, ext4, xfs, overlay, btrfs, ramfs, zfs
  for (const std::uint64_t type :
       {0x01021994UL, 0xEF53UL, 0x58465342UL, 0x794C7630UL, 0x9123683EUL, 0x858458F6UL, 0x2FC12FC1UL}) {
    EXPECT_EQ(network_file_system(type), "") << type;
  }
}

TEST(Guard, NoticesThatItsFileWasReplaced) {
  const TempDir dir;
  Guard guard(dir.path());
  ASSERT_TRUE(*guard.try_take());
  std::filesystem::remove(guard.path());
  EXPECT_FALSE(guard.still_ours());
  Guard other(dir.path());
  EXPECT_TRUE(*other.try_take()) << "which is why the first must step back";
  EXPECT_FALSE(guard.still_ours());
}

TEST(Guard, NamesTheFolderThatCannotBeUsed) {
  Guard guard("/proc/nothing/here");
  const Result<bool> got = guard.try_take();
  ASSERT_FALSE(got.ok());
  EXPECT_NE(got.error().text.find("/proc/nothing/here"), std::string::npos);
}

TEST(Worker, KeepsOrderAndHonoursDelays) {
  std::vector<int> order;
  {
    Worker worker;
    std::atomic<bool> done{false};
    worker.post_after(std::chrono::milliseconds(30), [&] {
      order.push_back(3);
      done = true;
    });
    worker.post([&] { order.push_back(1); });
    worker.post([&] { order.push_back(2); });
    worker.post_after(std::chrono::hours(1), [&] { order.push_back(99); });
    while (!done) std::this_thread::yield();
  }
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(Worker, WorkPostedAfterStopIsDropped) {
  Worker worker;
  worker.stop();
  bool ran = false;
  worker.post([&] { ran = true; });
  worker.stop();
  EXPECT_FALSE(ran);
}

State sample() {
  State s{"boot", "node1", "dra.cpu", {}};
  ledger::Claim a;
  a.ns = "ns";
  a.name = "with \"quotes\"";
  a.cpus = CpuSet{1, 2, 5};
  a.committed = true;
  a.owner = ledger::Owner{PodUid("p1"), "app"};
  a.grants = {{"main/sub", "node1", "cpudevnuma000", "share-1", 3},
              {"b", "node1", "cpudevnuma001", std::nullopt, 1}};
  s.claims[ClaimUid("u1")] = a;
  ledger::Claim adopted;
  adopted.cpus = CpuSet{7};
  adopted.committed = true;
  s.claims[ClaimUid("u2")] = adopted;
  return s;
}

TEST(StateCodec, RoundTrip) {
  const State in = sample();
  const Result<State> out = decode_state(encode_state(in));
  ASSERT_TRUE(out.ok()) << out.error().text;
  EXPECT_EQ(out->boot_id, "boot");
  EXPECT_EQ(out->node, "node1");
  EXPECT_EQ(out->driver, "dra.cpu");
  EXPECT_EQ(out->claims, in.claims);
}

TEST(StateCodec, KeepsWhatALaterReleaseWrote) {
  const std::string later =
      R"({"bootID":"b","node":"n","driver":"d","claims":[{"uid":"u","namespace":"ns","name":"c","cpus":"1","results":)"
      R"([{"request":"r","pool":"n","device":"x","cpus":1,"bytes":4096},{"request":"s","pool":"n","device":"x","cpus":0}],)"
      R"("memory":{"node":1}}],"sealedBy":["x"]})";
  Result<State> state = decode_state(later);
  ASSERT_TRUE(state.ok()) << state.error().text;
  const std::string again = encode_state(*state);
  for (const char* part : {R"("bytes":4096)", R"("memory":{"node":1})", R"("sealedBy":["x"])"}) {
    EXPECT_NE(again.find(part), std::string::npos) << part << " in " << again;
  }
  EXPECT_EQ(encode_state(*decode_state(again)), again);
  // Another result in that place has nothing to do with them.
  state->claims.at(ClaimUid("u")).grants[0].device = "y";
  EXPECT_EQ(encode_state(*state).find("bytes"), std::string::npos);
  state->claims.clear();
  EXPECT_EQ(encode_state(*state).find("memory"), std::string::npos);
}

// A cut or a flipped byte is an error, or changes nothing that matters.
TEST(StateCodec, DamageIsNeverAnotherState) {
  const State in = sample();
  const std::string good = store::seal(encode_state(in));
  const auto is_harmless = [&](std::string_view bytes) {
    const Result<store::Unsealed> content = store::unseal(bytes);
    if (!content.ok()) return true;
    const Result<State> got = decode_state(content->payload);
    return got.ok() && got->claims == in.claims && got->node == in.node;
  };
  ASSERT_TRUE(is_harmless(good));
  for (std::size_t n = 0; n < good.size(); ++n) {
    EXPECT_TRUE(is_harmless(std::string_view(good).substr(0, n))) << "cut at " << n;
    for (unsigned value = 0; value < 256; ++value) {
      std::string bad = good;
      bad[n] = static_cast<char>(value);
      ASSERT_TRUE(is_harmless(bad)) << "byte " << n << " is " << value;
    }
  }
}

TEST(StateCodec, RefusesAndNamesThePath) {
  struct Case {
    const char* json;
    const char* path;
  };
  for (
      const Case& c : std::initializer_list<Case>{
          {"", "state"},
          {"[]", "state"},
          {R"({"bootID":1,"node":"n","driver":"d","claims":[]})", "bootID"},
          {R"({"bootID":"b","node":"n","driver":"d"})", "state.claims"},
          {R"({"bootID":"b","node":"n","driver":"d","claims":[7]})", "claims[0]"},
          {R"({"bootID":"b","node":"n","driver":"d","claims":[{"uid":"u","namespace":"","name":"","cpus":"3-1"}]})",
           "claims[0].cpus"},
          {R"({"bootID":"b","node":"n","driver":"d","claims":[{"uid":"u","namespace":"","name":"","cpus":"1","owner":[]}]})",
           "owner"},
          {R"({"bootID":"b","node":"n","driver":"d","claims":[{"uid":"u","namespace":"","name":"","cpus":"1","results":[{}]}]})",
           "results[0]"},
          {R"({"bootID":"b","node":"n","driver":"d","claims":[{"uid":"u","namespace":"","name":"","cpus":"1"},{"uid":"u","namespace":"","name":"","cpus":"2"}]})",
           "claims[1].uid"},
      }) {
    SCOPED_TRACE(c.json);
    const Result<State> got = decode_state(c.json);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, Errc::kCorrupt);
    EXPECT_NE(got.error().text.find(c.path), std::string::npos) << got.error().text;
  }
}

TEST(TakesUnsolicitedUpdates, FromTheReleaseWithoutTheDeadlock) {
  for (const char* yes :
       {"0.12.1", "v0.12.1", "v0.12.3", "v0.13.0", "1.0.0", "v0.12.2-rc1", "v0.12.1+dirty"}) {
    EXPECT_TRUE(takes_unsolicited_updates(yes)) << yes;
  }
  for (const char* no :
       {"", "0.12.0", "v0.12.1-rc.0", "0.8.0", "(devel)", "0.0.0-unknown", "0.12", "x.y.z", "v"}) {
    EXPECT_FALSE(takes_unsolicited_updates(no)) << no;
  }
}

}  // namespace
}  // namespace dracpu::agent
