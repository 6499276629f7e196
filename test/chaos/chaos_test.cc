// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A small share of `make chaos`, and proof that its judges can say "no".

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <set>

#include "cdi_view.h"
#include "child.h"
#include "churn.h"
#include "disk.h"
#include "duel.h"
#include "facts.h"
#include "node.h"
#include "runtime_parts.h"
#include "schedule.h"
#include "schedules.h"
#include "witness.h"

#ifndef DRACPU_BINARY
#define DRACPU_BINARY ""
#endif

namespace dracpu::chaos {
namespace {

namespace fs = std::filesystem;

std::string all_of(const Report& report) {
  std::string out;
  for (const Violation& v : report.list()) {
    out += fmt::format("seed {}: {}\n", v.seed, v.what);
    for (const std::string& line : v.trail) out += "    " + line + "\n";
  }
  return out;
}

fs::path driver_binary() {
  const char* given = std::getenv("DRACPU_BINARY");
  return given != nullptr && *given != '\0' ? given : DRACPU_BINARY;
}

class Chaos : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<sandbox::Folder> folder = sandbox::Folder::make("dracpu-chaos-test-");
    ASSERT_TRUE(folder.ok());
    folder_.emplace(*std::move(folder));
  }
  const fs::path& dir() const { return folder_->path(); }

  std::optional<sandbox::Folder> folder_;
  Report report_;
};

TEST_F(Chaos, TheDiskForgetsWhatWasNotSyncedAndNothingElse) {
  std::set<std::string> seen;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    SimDisk disk(random);
    const fs::path file = dir() / "f";
    fs::remove_all(file);
    ASSERT_TRUE(replace_file(disk, file, "old", 0600).ok());
    disk.die_at(seed % 4, Where::kInside);  // inside the write, after the rename, after the sync, not at all
    (void)replace_file(disk, file, "newer", 0600);
    disk.after_power_cut({});
    const std::string left = slurp(file).value_or("nothing");
    EXPECT_TRUE(left == "old" || left == "newer") << left;
    if (seed % 4 >= 2) {
      EXPECT_EQ(left, "newer") << "its folder was synced";
    }
    seen.insert(fmt::format("{} {}", seed % 4, left));
    // The file beside it, which nobody has to find whole.
    if (const auto beside = slurp(dir() / ".f.new")) seen.insert("beside: " + *beside);
    fs::remove(dir() / ".f.new");
  }
  EXPECT_TRUE(seen.contains("1 old"));
  EXPECT_TRUE(seen.contains("1 newer"));
  EXPECT_TRUE(seen.contains("beside: ne")) << "torn";
  EXPECT_TRUE(seen.contains("beside: "));
}

TEST_F(Chaos, ADeadProcessHasNoEffect) {
  Random random(1);
  SimDisk disk(random);
  disk.die_at(0, Where::kBefore);
  EXPECT_FALSE(disk.write_and_sync(dir() / "f", "x", 0600).ok());
  EXPECT_TRUE(disk.is_dead());
  EXPECT_FALSE(disk.write_and_sync(dir() / "f", "x", 0600).ok());
  EXPECT_FALSE(fs::exists(dir() / "f"));
  disk.after_process_death();
  EXPECT_TRUE(disk.write_and_sync(dir() / "f", "x", 0600).ok());
}

TEST_F(Chaos, Schedules) {
  ASSERT_TRUE(run_schedules(300, 1, report_).ok());
  EXPECT_EQ(report_.violations(), 0U) << all_of(report_);
  EXPECT_EQ(report_.counted("run", "schedules"), 300U);
  EXPECT_GT(report_.counted("crash", "in an effect: power cut"), 0U);
  EXPECT_GT(report_.counted("call", "prepare answered"), 300U) << "most of it must work";
}

TEST_F(Chaos, TheSeedMakesTheSchedule) {
  Result<Bed> bed = Bed::make(dir());
  ASSERT_TRUE(bed.ok());
  std::vector<std::vector<std::string>> trails;
  for (int i = 0; i < 2; ++i) {
    trails.emplace_back();
    for (std::uint64_t seed = 50; seed < 60; ++seed) {
      Schedule schedule(*bed, seed, report_);
      EXPECT_TRUE(schedule.run());
      for (const std::string& line : schedule.trail()) {
        if (line.find(".unreadable-") == std::string::npos) trails.back().push_back(line);  // names the time
      }
    }
  }
  EXPECT_EQ(trails[0], trails[1]);
}

TEST_F(Chaos, AnAnswerBeforeTheSyncIsFound) {
  Result<Bed> bed = Bed::make(dir());
  ASSERT_TRUE(bed.ok());
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Schedule schedule(*bed, seed, report_);
    schedule.leave_syncs_out();
    (void)schedule.run();
  }
  EXPECT_GT(report_.violations(), 2U);
}

// A process that connects, and waits to be killed.
pid_t connect_from_child(const fs::path& path) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (::connect(fd, static_cast<const sockaddr*>(static_cast<const void*>(&address)), sizeof address) == 0)
    ::pause();
  ::_exit(0);
}

TEST_F(Chaos, TheWitnessSeesTwoAtOnce) {
  Result<UniqueFd> listening = sandbox::listen_on(dir() / "nri.sock");
  ASSERT_TRUE(listening.ok());
  std::vector<pid_t> pids;
  std::vector<UniqueFd> sockets;
  for (int i = 0; i < 3; ++i) {
    pids.push_back(connect_from_child(dir() / "nri.sock"));
    sockets.emplace_back(::accept4(listening->get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(sockets.back().valid());
  }
  {
    Witness witness(dir() / "none", dir() / "none");
    for (std::size_t i = 0; i < 3; ++i) witness.born(pids[i], std::to_string(i));
    witness.connected_to_runtime(sockets[0].get());
    witness.killed(pids[0]);
    witness.connected_to_runtime(sockets[1].get());
    witness.wrote("1");
    EXPECT_TRUE(witness.findings().empty()) << "the first was killed before";
    witness.connected_to_runtime(sockets[2].get());
    EXPECT_EQ(witness.findings().size(), 1U);
    witness.wrote("1");
    EXPECT_EQ(witness.findings().size(), 2U) << "it writes, and another is connected";
  }
  for (const pid_t pid : pids) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

TEST_F(Chaos, TheObserverSeesAClaimThatMoves) {
  Result<std::unique_ptr<sandbox::Runtime>> runtime = sandbox::Runtime::start({.socket = dir() / "nri.sock"});
  ASSERT_TRUE(runtime.ok());
  // Old or new, as the driver writes them: the observer looks all the time.
  const auto replace = [&](const std::string& name, const std::string& text) {
    (void)sandbox::write_text(dir() / "draft", text);
    std::filesystem::rename(dir() / "draft", dir() / name);
  };
  const auto put = [&](const CpuSet& file, const std::string& state) {
    replace("dra.k8s.io-cpu_claim-a.json", cdi_text({{"a", file}}));
    replace("state.json", "header\n" + state);
  };
  const std::string good = R"({"claims":[{"uid":"a","cpus":"0-1"}]})";
  for (const auto& [file, state] : {std::pair{CpuSet{0, 1}, good},
                                    {CpuSet{0, 2}, good},
                                    {CpuSet{0, 1}, std::string(R"({"claims":[]})")}}) {
    put(CpuSet{0, 1}, good);
    Facts facts(dir(), dir() / "state.json", **runtime);
    facts.prepared("a", 2);
    put(file, state);
    const bool is_good = file == CpuSet{0, 1} && state == good;
    const std::size_t looks = facts.looks();
    EXPECT_TRUE(sandbox::eventually(std::chrono::seconds(10), [&] {
      return is_good ? facts.looks() > looks + 5 : !facts.findings().empty();
    }));
    EXPECT_EQ(facts.findings().empty(), is_good);
  }
}

TEST_F(Chaos, TwoDrivers) {
  if (::access(driver_binary().c_str(), X_OK) != 0) GTEST_SKIP() << "no driver binary";
  ASSERT_TRUE(run_duels({driver_binary(), 20, 1}, report_).ok());
  EXPECT_EQ(report_.violations(), 0U) << all_of(report_);
  EXPECT_EQ(report_.counted("run", "rounds"), 20U);
  EXPECT_GT(report_.counted("run", "takeovers timed"), 0U);
}

TEST_F(Chaos, Churn) {
  if (::access(driver_binary().c_str(), X_OK) != 0) GTEST_SKIP() << "no driver binary";
  ASSERT_TRUE(run_churn({driver_binary(), 8, 1}, report_).ok());
  EXPECT_EQ(report_.violations(), 0U) << all_of(report_);
  EXPECT_GT(report_.counted("call", "claims answered as prepared"), 0U);
}

}  // namespace
}  // namespace dracpu::chaos
