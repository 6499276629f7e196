// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/cleanup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <boost/json.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "agent/guard.h"
#include "agent/state_codec.h"
#include "base/unique_fd.h"
#include "cdi/directory.h"
#include "cdi/metadata.h"
#include "cli/process.h"
#include "data/corpus.h"
#include "store/state_file.h"

namespace dracpu::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using ::testing::HasSubstr;

class CleanupTest : public ::testing::Test {
 protected:
  CleanupTest() {
    for (const char* dir : {"k/plugins", "k/plugins_registry", "cdi"})
      fs::create_directories(dir_.path() / dir);
  }

  struct Outcome {
    int status;
    std::string out;
    std::string err;
  };
  Outcome run(std::vector<std::string> args) const {
    args.insert(args.begin(),
                {"cleanup", "--kubelet-root-dir=" + root().string(), "--cdi-dir=" + cdi().string()});
    const CommandLine line = parse_command_line(args);
    if (line.kind != CommandLine::Kind::kCleanup) return {line.status, "", line.text};
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int status = run_cleanup(line);
    return {status, ::testing::internal::GetCapturedStdout(), ::testing::internal::GetCapturedStderr()};
  }

  fs::path root() const { return dir_.path() / "k"; }
  fs::path cdi() const { return dir_.path() / "cdi"; }
  fs::path state() const { return root() / "plugins/dracpu/state.json"; }

  static void write(const fs::path& path, const std::string& text = "x") {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  // A socket file; while the result lives somebody listens on it.
  static UniqueFd listen_at(const fs::path& path) {
    fs::create_directories(path.parent_path());
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.native().size());
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(fd.get(), 1), 0);
    return fd;
  }
  void save_state(std::vector<std::string> uids, const std::string& driver = "dra.cpu") const {
    agent::State out{"boot", "node1", driver, {}};
    std::uint32_t cpu = 0;
    for (const std::string& uid : uids) {
      ledger::Claim claim;
      claim.ns = "team";
      claim.name = "claim-" + uid;
      claim.cpus = CpuSet{cpu++};
      out.claims[ClaimUid(uid)] = claim;
    }
    ASSERT_TRUE(store::StateFile(state()).save(agent::encode_state(out)).ok());
  }
  void leave_everything(const std::string& driver = "dra.cpu") const {
    listen_at(root() / "plugins" / driver / "dra.sock");
    listen_at(root() / "plugins_registry" / (driver + "-reg.sock"));
    const cdi::MetadataFiles files(root() / "plugins" / driver, cdi(), driver);
    ASSERT_TRUE(files.write({ClaimUid("u1"), "team", "claim-u1", "", "r"}, "{}").ok());
    ASSERT_TRUE(agent::Guard(cdi()).try_take().ok());
    write(cdi() / ".dra.k8s.io-cpu_claim-u9.json.new");
    write(root() / "plugins/dracpu/state.json.unreadable-1700000000");
    save_state({});
  }
  // Every file and folder below, by its relative path.
  std::vector<std::string> left() const {
    std::vector<std::string> out;
    for (const fs::directory_entry& e : fs::recursive_directory_iterator(dir_.path()))
      out.push_back(fs::relative(e.path(), dir_.path()).string());
    std::sort(out.begin(), out.end());
    return out;
  }
  const std::vector<std::string> kNothing{"cdi", "k", "k/plugins", "k/plugins_registry"};

  test::TempDir dir_;
};

TEST_F(CleanupTest, AKubeletRootThatIsNotThereIsAMistake) {
  fs::remove_all(root());
  const Outcome got = run({});
  EXPECT_EQ(got.status, 2);
  EXPECT_THAT(got.err, HasSubstr("is no folder here; give the right one with --kubelet-root-dir"));
}

// Whether memory was on is not asked: the configuration may be gone with the pod.
TEST_F(CleanupTest, WhatTheMemoryDriverLeftIsFoundToo) {
  fs::create_directories(root() / "plugins/dra.memory");
  write(cdi() / "dra.k8s.io-memory_claim-0e0e0e0e-0000-4000-8000-000000000001.json");
  const Outcome got = run({"--with-claims", "--apply"});
  EXPECT_EQ(got.status, 0) << got.out << got.err;
  EXPECT_FALSE(fs::exists(root() / "plugins/dra.memory"));
  EXPECT_TRUE(fs::is_empty(cdi())) << got.out;
}

TEST_F(CleanupTest, ListsFirstAndRemovesWhenAsked) {
  leave_everything();
  const std::vector<std::string> before = left();
  const Outcome listed = run({});
  EXPECT_EQ(listed.status, kOk) << listed.out << listed.err;
  EXPECT_EQ(left(), before) << "nothing was changed";
  for (const char* line :
       {"plugins/dra.cpu/dra.sock  socket for the kubelet", "dra.cpu-reg.sock  registration socket",
        "dra.cpu_metadata_u1_r.json  CDI file of metadata of claim u1", "team_claim-u1/r/metadata.json  ",
        ".dra.k8s.io-cpu_claim-u9.json.new  CDI file, half written", "state.json  state file",
        "unreadable-1700000000  state file that could not be read", ".dracpu.lock  lock",
        "plugins/dracpu  folder of the state file", "--apply removes it"})
    EXPECT_THAT(listed.out, HasSubstr(line));
  const Outcome removed = run({"--apply"});
  EXPECT_EQ(removed.status, kOk) << removed.out << removed.err;
  EXPECT_EQ(left(), kNothing);
  EXPECT_THAT(run({}).out, HasSubstr("left nothing on this node"));
  EXPECT_EQ(run({"--apply"}).status, kOk) << "and again";
}

TEST_F(CleanupTest, ALivingDriverRefusesIt) {
  leave_everything();
  const std::vector<std::string> before = left();
  const auto expect_refused = [&](const char* told) {
    for (const Outcome& got : {run({}), run({"--apply", "--with-claims"})}) {
      EXPECT_EQ(got.status, kRefused) << got.out;
      EXPECT_THAT(got.out, HasSubstr("Refused; nothing was changed."));
      EXPECT_THAT(got.out, HasSubstr(told));
    }
    EXPECT_EQ(left(), before);
  };
  {
    agent::Guard guard(cdi());
    ASSERT_TRUE(*guard.try_take());
    expect_refused("holds the lock");
  }
  for (const char* socket : {"plugins/dra.cpu/dra.sock", "plugins_registry/dra.cpu-reg.sock"}) {
    fs::remove(root() / socket);
    const UniqueFd alive = listen_at(root() / socket);
    expect_refused(socket);
  }
}

TEST_F(CleanupTest, ClaimsOnRecordRefuseItUnlessTheyAreMeant) {
  leave_everything();
  save_state({"u1", "u2"});
  ASSERT_TRUE(cdi::Directory(cdi()).write_claim(ClaimUid("u1"), CpuSet{0}).ok());
  ASSERT_TRUE(cdi::Directory(cdi()).write_claim(ClaimUid("u7"), CpuSet{3}).ok());
  const std::vector<std::string> before = left();
  const Outcome refused = run({"--apply"});
  EXPECT_EQ(refused.status, kRefused);
  EXPECT_THAT(refused.out,
              HasSubstr("team/claim-u1 (u1, CPUs 0)\n  team/claim-u2 (u2, CPUs 1)\n  u7 (known by "));
  EXPECT_THAT(refused.out, HasSubstr("--with-claims"));
  EXPECT_EQ(left(), before);
  EXPECT_EQ(run({"--with-claims"}).status, kOk);
  EXPECT_EQ(left(), before);
  EXPECT_EQ(run({"--with-claims", "--apply"}).status, kOk);
  EXPECT_EQ(left(), kNothing);
}

TEST_F(CleanupTest, AnUnreadableStateFileMayHoldClaims) {
  write(state(), "garbage");
  EXPECT_EQ(run({"--apply"}).status, kRefused);
  EXPECT_THAT(run({}).out, HasSubstr("perhaps some"));
  EXPECT_EQ(run({"--apply", "--with-claims"}).status, kOk);
  EXPECT_EQ(left(), kNothing);
}

TEST_F(CleanupTest, TheOneFileOfTheFirstRelease) {
  const fs::path file = cdi() / "dra.cpu.json";
  write(file, R"({"cdiVersion":"0.8.0","kind":"dra.k8s.io/cpu","devices":[
      {"name":"claim-u5","containerEdits":{"env":["DRA_CPUSET_u5=2-3"]}}]})");
  EXPECT_EQ(run({}).status, kRefused) << "its claim is on record";
  const Outcome got = run({"--with-claims", "--apply"});
  EXPECT_EQ(got.status, kOk) << got.out;
  EXPECT_THAT(got.out, HasSubstr("of all claims, of a driver of before"));
  EXPECT_FALSE(fs::exists(file));
  write(file, R"({"cdiVersion":"0.8.0","kind":"example.com/cpu","devices":[]})");
  EXPECT_THAT(run({"--apply"}).out, HasSubstr("is no CDI file of claims"));
  EXPECT_TRUE(fs::exists(file)) << "somebody else's";
}

TEST_F(CleanupTest, WhatIsNotTheDriversStays) {
  leave_everything();
  const fs::path outside = dir_.path() / "outside";
  write(outside / "file");
  write(outside / "r/metadata.json");
  // Other vendors, other files, and links under our names.
  write(cdi() / "vendor.json");
  write(cdi() / "dra.cpu.example.com_metadata_u1_r.json");
  write(root() / "plugins/other.driver/dra.sock");
  write(root() / "plugins/dra.cpu/notes");
  write(root() / "plugins/dracpu/state.json.unreadable-x");
  fs::create_symlink(outside / "file", cdi() / "dra.k8s.io-cpu_claim-u3.json");
  fs::create_directory_symlink(outside, root() / "plugins/dra.cpu/dra-device-metadata/team_linked");
  fs::create_directory_symlink(outside, root() / "plugins/dra.cpu/dra-device-metadata/team_claim-u1/linked");
  const Outcome got = run({"--apply", "--with-claims"});
  EXPECT_EQ(got.status, kOk) << got.out;
  for (const char* path :
       {"cdi/vendor.json", "cdi/dra.cpu.example.com_metadata_u1_r.json", "cdi/dra.k8s.io-cpu_claim-u3.json",
        "k/plugins/other.driver/dra.sock", "k/plugins/dra.cpu/notes",
        "k/plugins/dracpu/state.json.unreadable-x", "k/plugins/dra.cpu/dra-device-metadata/team_linked",
        "outside/file", "outside/r/metadata.json",
        "k/plugins/dra.cpu/dra-device-metadata/team_claim-u1/linked"}) {
    EXPECT_TRUE(fs::exists(fs::symlink_status(dir_.path() / path))) << path;
  }
  EXPECT_FALSE(fs::exists(root() / "plugins/dra.cpu/dra.sock"));
  EXPECT_FALSE(fs::exists(state()));
  EXPECT_THAT(got.out, HasSubstr("notes  is not known to be the driver's"));
  EXPECT_THAT(got.out, HasSubstr("dra.k8s.io-cpu_claim-u3.json  is no regular file"));
  EXPECT_THAT(got.out, HasSubstr("team_linked  is no folder; links are not followed"));
  EXPECT_THAT(got.out, HasSubstr("plugins/dra.cpu  is not empty"));
}

TEST_F(CleanupTest, LinkedFoldersAreNotEntered) {
  const fs::path outside = dir_.path() / "outside";
  listen_at(outside / "dra.sock");
  write(outside / "state.json");
  fs::create_directory_symlink(outside, root() / "plugins/dra.cpu");
  const Outcome got = run({"--apply"});
  EXPECT_TRUE(fs::exists(outside / "dra.sock"));
  EXPECT_THAT(got.out, HasSubstr("plugins/dra.cpu  is no folder; links are not followed"));
}

TEST_F(CleanupTest, TheOldNameAfterAMove) {
  leave_everything("dra.cpu");
  leave_everything("cpu.example.com");
  save_state({"u1"}, "cpu.example.com");
  ASSERT_TRUE(cdi::Directory(cdi()).write_claim(ClaimUid("u1"), CpuSet{0}).ok());
  agent::Guard guard(cdi());
  ASSERT_TRUE(*guard.try_take());
  fs::remove(root() / "plugins/cpu.example.com/dra.sock");
  const UniqueFd alive = listen_at(root() / "plugins/cpu.example.com/dra.sock");
  EXPECT_EQ(run({"--apply"}).status, kRefused) << "the driver works here";
  const Outcome got = run({"--driver", "dra.cpu", "--apply"});
  EXPECT_EQ(got.status, kOk) << got.out;
  EXPECT_FALSE(fs::exists(root() / "plugins/dra.cpu"));
  EXPECT_FALSE(fs::exists(root() / "plugins_registry/dra.cpu-reg.sock"));
  EXPECT_FALSE(fs::exists(cdi() / "dra.cpu_metadata_u1_r.json"));
  for (const fs::path& path :
       {state(), cdi() / "dra.k8s.io-cpu_claim-u1.json", cdi() / ".dracpu.lock",
        cdi() / "cpu.example.com_metadata_u1_r.json", root() / "plugins/cpu.example.com/dra.sock"})
    EXPECT_TRUE(fs::exists(path)) << path;
}

TEST_F(CleanupTest, TheNameThatWorksIsNotAnOldOne) {
  leave_everything();
  agent::Guard guard(cdi());
  ASSERT_TRUE(*guard.try_take());
  const Outcome got = run({"--driver=dra.cpu", "--apply"});
  EXPECT_EQ(got.status, kRefused);
  EXPECT_THAT(got.out, HasSubstr("the state file says that it is \"dra.cpu\""));
}

TEST_F(CleanupTest, ANameOnlyTheStateFileKnows) {
  leave_everything("cpu.example.com");
  save_state({}, "cpu.example.com");
  EXPECT_EQ(run({"--apply"}).status, kOk);
  EXPECT_EQ(left(), kNothing);
}

TEST_F(CleanupTest, ADryRunMakesNothing) {
  EXPECT_EQ(run({}).status, kOk);
  EXPECT_EQ(left(), kNothing) << "no lock either";
  fs::remove(cdi());
  EXPECT_EQ(run({"--apply"}).status, kOk);
  EXPECT_FALSE(fs::exists(cdi()));
}

TEST_F(CleanupTest, Json) {
  leave_everything();
  save_state({"u1"});
  write(root() / "plugins/dra.cpu/n\xff");
  const Outcome got = run({"-o", "json", "--with-claims"});
  EXPECT_EQ(got.status, kOk);
  const json::value root = json::parse(got.out);
  EXPECT_FALSE(root.at("applied").as_bool() || root.at("refused").as_bool());
  EXPECT_THAT(std::string(root.at("claims").at(0).as_string().c_str()), HasSubstr("claim-u1"));
  EXPECT_EQ(root.at("remove").at(0).at("outcome").as_string(), "planned");
  EXPECT_EQ(root.at("kept").as_array().size(), 2U);
}

TEST_F(CleanupTest, BadCommandLines) {
  EXPECT_EQ(run({"now"}).status, kBadInput);
  EXPECT_EQ(run({"--apply=x"}).status, kBadInput);
  EXPECT_EQ(run({"--driver="}).status, kBadInput);
  EXPECT_EQ(run({"--cdi-dir=relative"}).status, kBadInput);
  EXPECT_EQ(run({"--driver=../../etc"}).status, kBadInput);
  EXPECT_EQ(run({"--config=/nowhere/c.yaml"}).status, kBadInput);
  EXPECT_EQ(left(), kNothing);
}

}  // namespace
}  // namespace dracpu::cli
