// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cdi/directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <optional>
#include <thread>

#include "base/strings.h"
#include "cdi/spec.h"

namespace dracpu::cdi {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Fails at the n-th step (0: never) and passes the others on.
class FailingOps final : public FileOps {
 public:
  explicit FailingOps(int at) : at_(at) {}
  int steps() const { return n_; }
  Status write_and_sync(const fs::path& p, std::string_view d, mode_t m) override {
    return due() ? failure() : real_file_ops().write_and_sync(p, d, m);
  }
  Status rename(const fs::path& a, const fs::path& b) override {
    return due() ? failure() : real_file_ops().rename(a, b);
  }
  Status remove(const fs::path& p) override { return due() ? failure() : real_file_ops().remove(p); }
  Status sync_dir(const fs::path& d) override { return due() ? failure() : real_file_ops().sync_dir(d); }

 private:
  bool due() { return ++n_ == at_; }
  static Status failure() { return make_error(Errc::kUnavailable, "no space left"); }
  int at_;
  int n_ = 0;
};

class CdiDirectory : public ::testing::Test {
 protected:
  void SetUp() override { root_ = fs::temp_directory_path() / ("dracpu-cdi-test-" + random_hex(6)); }
  void TearDown() override { fs::remove_all(root_); }

  fs::path dir() const { return root_ / "cdi"; }
  fs::path put(const std::string& name, std::string_view text) const {
    fs::create_directories(dir());
    std::ofstream(dir() / name, std::ios::binary) << text;
    return dir() / name;
  }
  std::string text_of(const fs::path& path) const {
    Result<std::string> text = read_file(path);
    return text.ok() ? *text : "(" + text.error().text + ")";
  }
  std::vector<Entry> listed() const {
    Result<std::vector<Entry>> entries = Directory(dir()).list();
    EXPECT_TRUE(entries.ok());
    return entries.ok() ? std::move(entries).value() : std::vector<Entry>();
  }
  static mode_t mode_of(const fs::path& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 ? st.st_mode & 07777U : 0;
  }
  static std::string old_file(std::initializer_list<std::pair<const char*, const char*>> claims) {
    std::string devices;
    for (const auto& [uid, cpus] : claims) {
      devices += fmt::format(R"({}{{"name":"claim-{}","containerEdits":{{"env":["DRA_CPUSET_{}={}"]}}}})",
                             devices.empty() ? "" : ",", uid, uid, cpus);
    }
    return fmt::format(
        R"({{"cdiVersion":"0.8.0","kind":"dra.k8s.io/cpu","devices":[{}],"containerEdits":{{}}}})", devices);
  }

  fs::path root_;
  const ClaimUid a_{"aaaa-1"};
  const ClaimUid b_{"bbbb-2"};
};

TEST_F(CdiDirectory, WritesOneFileAClaim) {
  const mode_t old_umask = ::umask(0077);
  Directory cdi(dir());
  ASSERT_TRUE(cdi.write_claim(a_, CpuSet{1, 2}).ok());
  ::umask(old_umask);
  const fs::path path = dir() / "dra.k8s.io-cpu_claim-aaaa-1.json";
  EXPECT_EQ(cdi.claim_path(a_), path);
  EXPECT_EQ(text_of(path), claim_spec(a_, CpuSet{1, 2}));
  EXPECT_EQ(mode_of(path), 0644U);
  EXPECT_EQ(mode_of(dir()), 0755U);
  ASSERT_TRUE(cdi.write_claim(a_, CpuSet{3}).ok());
  EXPECT_EQ(text_of(path), claim_spec(a_, CpuSet{3}));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir()), fs::directory_iterator()), 1);
}

TEST_F(CdiDirectory, ComesBackAfterSomebodyEmptiedTheFolder) {  // kubelet-dra-wire line 35
  Directory cdi(dir());
  ASSERT_TRUE(cdi.write_claim(a_, CpuSet{1}).ok());
  fs::remove_all(root_);
  EXPECT_TRUE(listed().empty());
  ASSERT_TRUE(cdi.write_claim(a_, CpuSet{1}).ok());
  EXPECT_EQ(listed().size(), 1U);
}

TEST_F(CdiDirectory, RemovesAndIsContentWithNothing) {
  Directory cdi(dir());
  EXPECT_TRUE(cdi.remove_claim(a_).ok()) << "no folder";
  ASSERT_TRUE(cdi.write_claim(a_, CpuSet{1}).ok());
  ASSERT_TRUE(cdi.write_claim(b_, CpuSet{2}).ok());
  EXPECT_TRUE(cdi.remove_claim(a_).ok());
  EXPECT_TRUE(cdi.remove_claim(a_).ok());
  ASSERT_EQ(listed().size(), 1U);
  EXPECT_EQ(listed().front().uid, b_);
  put("dra.k8s.io-cpu_claim-bbbb-2.json", "damaged");
  EXPECT_TRUE(cdi.remove_claim(b_).ok());
  EXPECT_TRUE(listed().empty());
}

TEST_F(CdiDirectory, RefusesUidsThatAreNone) {
  struct Case {
    const char* about;
    std::string uid;
    const char* says;
  };
  Directory cdi(dir());
  for (const Case& c : std::initializer_list<Case>{
           {"empty", "", "is empty"},
           {"a path", "../../etc/cron.d/x", "other than"},
           {"a slash", "a/b", "other than"},
           {"parent folder", "..", "begin and end"},
           {"two dots inside", "a..b", "two dots"},
           {"hidden", ".a", "begin and end"},
           {"dash at the end", "a-", "begin and end"},
           {"zero byte", std::string("a\0b", 3), "other than"},
           {"quote, which would end the JSON text", "a\"b", "other than"},
           {"new line", "a\nb", "a\\nb"},
           {"not ASCII", "\xc3\xa4", "other than"},
           {"too long", std::string(222, 'a'), "has 222 characters, more than 221"},
       }) {
    SCOPED_TRACE(c.about);
    const ClaimUid uid(c.uid);
    for (const Status& s : {cdi.write_claim(uid, CpuSet{1}), cdi.remove_claim(uid)}) {
      ASSERT_FALSE(s.ok());
      EXPECT_EQ(s.error().code, Errc::kInvalidInput);
      EXPECT_THAT(s.error().text, HasSubstr(c.says));
      EXPECT_LT(s.error().text.size(), 200U);
    }
  }
  EXPECT_FALSE(fs::exists(root_));
  const ClaimUid longest(std::string(221, 'a'));
  EXPECT_TRUE(cdi.write_claim(longest, CpuSet{1}).ok());
  ASSERT_EQ(listed().size(), 1U);
  EXPECT_EQ(listed().front().uid, longest);
}

TEST_F(CdiDirectory, RefusesAnEmptySet) {
  const Status s = Directory(dir()).write_claim(a_, CpuSet());
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.error().code, Errc::kInvalidInput);
  EXPECT_FALSE(fs::exists(dir()));
}

TEST_F(CdiDirectory, ListsBothLayouts) {
  put("dra.cpu.json", old_file({{"cccc-3", "4-5"}, {"dddd-4", "x"}}));
  put("vendor.com-gpu.json", "{}");
  put("dra.cpu_metadata_aaaa-1_req.json", "{}");
  put("notes.txt", "");
  Directory cdi(dir());
  ASSERT_TRUE(cdi.write_claim(a_, CpuSet{1, 2}).ok());
  const std::vector<Entry> entries = listed();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].uid, ClaimUid("cccc-3"));
  EXPECT_EQ(entries[0].layout, Layout::kAllClaims);
  EXPECT_EQ(entries[0].path, dir() / "dra.cpu.json");
  EXPECT_EQ(*entries[0].cpus, (CpuSet{4, 5}));
  EXPECT_EQ(entries[1].uid, ClaimUid("dddd-4"));
  EXPECT_FALSE(entries[1].cpus.ok());
  EXPECT_EQ(entries[2].uid, a_);
  EXPECT_EQ(entries[2].layout, Layout::kPerClaim);
  EXPECT_EQ(*entries[2].cpus, (CpuSet{1, 2}));
}

TEST_F(CdiDirectory, SaysWhyAFileCannotBeRead) {
  struct Case {
    const char* about;
    const char* name;
    std::string text;
    const char* uid;
    const char* says;
  };
  const std::string good = claim_spec(a_, CpuSet{1});
  for (const Case& c : std::initializer_list<Case>{
           {"cut off (fault F7)", "dra.k8s.io-cpu_claim-aaaa-1.json", good.substr(0, 100), "aaaa-1",
            "not JSON"},
           {"empty", "dra.k8s.io-cpu_claim-aaaa-1.json", "", "aaaa-1", "not JSON"},
           {"wrong kind", "dra.k8s.io-cpu_claim-aaaa-1.json", R"({"kind":"a.b/c","devices":[]})", "aaaa-1",
            "kind"},
           {"of another claim", "dra.k8s.io-cpu_claim-bbbb-2.json", good, "bbbb-2", "about claim \"aaaa-1\""},
           {"two devices", "dra.k8s.io-cpu_claim-aaaa-1.json", old_file({{"aaaa-1", "1"}, {"bbbb-2", "2"}}),
            "aaaa-1", "2 devices"},
           {"no device", "dra.k8s.io-cpu_claim-aaaa-1.json", old_file({}), "aaaa-1", "0 devices"},
           {"over a MiB", "dra.k8s.io-cpu_claim-aaaa-1.json", std::string((1U << 20U) + 1, ' '), "aaaa-1",
            "longer than 1048576"},
           {"name without a uid", "dra.k8s.io-cpu_claim-.json", good, "", "is empty"},
           {"name with a bad uid", "dra.k8s.io-cpu_claim-a b.json", good, "", "other than"},
           {"old layout, garbage", "dra.cpu.json", "garbage", "", "not JSON"},
       }) {
    SCOPED_TRACE(c.about);
    const fs::path path = put(c.name, c.text);
    const std::vector<Entry> entries = listed();
    ASSERT_EQ(entries.size(), 1U);
    EXPECT_EQ(entries[0].uid.get(), c.uid);
    EXPECT_EQ(entries[0].path, path);
    ASSERT_FALSE(entries[0].cpus.ok());
    EXPECT_EQ(entries[0].cpus.error().code, Errc::kCorrupt);
    EXPECT_THAT(entries[0].cpus.error().text, HasSubstr(c.says));
    fs::remove(path);
  }
}

TEST_F(CdiDirectory, IsNotHeldUpByAFifoOrLedAwayByALink) {
  fs::create_directories(dir());
  ASSERT_EQ(::mkfifo((dir() / "dra.k8s.io-cpu_claim-aaaa-1.json").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", dir() / "dra.k8s.io-cpu_claim-bbbb-2.json");
  fs::create_directory(dir() / "dra.cpu.json");
  const std::vector<Entry> entries = listed();
  ASSERT_EQ(entries.size(), 3U);
  for (const Entry& e : entries) {
    ASSERT_FALSE(e.cpus.ok());
    EXPECT_THAT(e.cpus.error().text, HasSubstr("not a regular file"));
  }
  Directory cdi(dir());
  EXPECT_TRUE(cdi.write_claim(a_, CpuSet{1}).ok());
  EXPECT_TRUE(cdi.remove_claim(b_).ok());
  EXPECT_EQ(text_of(dir() / "dra.k8s.io-cpu_claim-aaaa-1.json"), claim_spec(a_, CpuSet{1}));
  EXPECT_FALSE(fs::exists(fs::symlink_status(dir() / "dra.k8s.io-cpu_claim-bbbb-2.json")));
}

TEST_F(CdiDirectory, TakesAClaimOutOfTheOldFile) {
  const fs::path old = put("dra.cpu.json", old_file({{"aaaa-1", "1"}, {"bbbb-2", "2"}, {"cccc-3", "3"}}));
  Directory cdi(dir());
  ASSERT_TRUE(cdi.write_claim(a_, CpuSet{1}).ok());  // adopted: one definition, the new one
  EXPECT_EQ(text_of(old), old_file({{"bbbb-2", "2"}, {"cccc-3", "3"}}));
  ASSERT_TRUE(cdi.remove_claim(b_).ok());
  EXPECT_EQ(text_of(old), old_file({{"cccc-3", "3"}}));
  ASSERT_TRUE(cdi.remove_claim(ClaimUid("eeee-5")).ok());
  EXPECT_EQ(text_of(old), old_file({{"cccc-3", "3"}}));
  ASSERT_TRUE(cdi.remove_claim(ClaimUid("cccc-3")).ok());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(listed().size(), 1U);
}

TEST_F(CdiDirectory, LeavesADamagedOldFileAlone) {
  const fs::path old = put("dra.cpu.json", "aaaa-1 {");
  Directory cdi(dir());
  EXPECT_TRUE(cdi.write_claim(a_, CpuSet{1}).ok());
  EXPECT_TRUE(cdi.remove_claim(a_).ok());
  EXPECT_EQ(text_of(old), "aaaa-1 {");
}

TEST_F(CdiDirectory, ParallelRemovalsFromTheOldFileLoseNothing) {
  put("dra.cpu.json", old_file({{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}, {"e", "5"}}));
  Directory cdi(dir());
  std::vector<std::thread> threads;
  for (const char* uid : {"a", "b", "c", "d"}) {
    threads.emplace_back([&cdi, uid] { EXPECT_TRUE(cdi.remove_claim(ClaimUid(uid)).ok()); });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(text_of(dir() / "dra.cpu.json"), old_file({{"e", "5"}}));
}

// Every step of every change fails once: the claim's CPUs are then the old ones or the new ones, never
// damaged, and the next try gets there.
TEST_F(CdiDirectory, AFailureAtAnyStepLeavesOldOrNew) {
  for (int at = 1;; ++at) {
    SCOPED_TRACE(at);
    fs::remove_all(root_);
    put("dra.cpu.json", old_file({{"aaaa-1", "1"}, {"bbbb-2", "2"}}));
    FailingOps failing(at);
    const Status s = Directory(dir(), failing).write_claim(a_, CpuSet{5});
    if (failing.steps() < at) {
      EXPECT_TRUE(s.ok());
      EXPECT_GT(at, 6) << "both files are replaced, three steps each";
      break;
    }
    ASSERT_FALSE(s.ok());
    EXPECT_THAT(s.error().text, HasSubstr("no space left"));
    bool found = false;
    for (const Entry& e : listed()) {
      ASSERT_TRUE(e.cpus.ok()) << e.cpus.error().text;
      found = found || e.uid == a_;
    }
    EXPECT_TRUE(found);
    ASSERT_TRUE(Directory(dir()).write_claim(a_, CpuSet{5}).ok());
    const std::vector<Entry> entries = listed();
    ASSERT_EQ(entries.size(), 2U);
    EXPECT_EQ(entries[0].uid, b_);
    EXPECT_EQ(*entries[1].cpus, CpuSet{5});
  }
}

TEST_F(CdiDirectory, AFileThatCannotBeRemovedIsAnError) {  // kubelet-dra-wire line 32
  ASSERT_TRUE(Directory(dir()).write_claim(a_, CpuSet{5}).ok());
  FailingOps failing(1);
  EXPECT_FALSE(Directory(dir(), failing).remove_claim(a_).ok());
  EXPECT_EQ(listed().size(), 1U);
}

TEST_F(CdiDirectory, ACrashBeforeTheRenameIsSweptUp) {  // kubelet-dra-wire line 54, for these files
  put(".dra.k8s.io-cpu_claim-aaaa-1.json.new", "{\"half");
  put(".dra.cpu.json.new", "");
  put(".other.json.new", "");
  put(".dracpu.lock", "");
  Directory cdi(dir());
  ASSERT_TRUE(cdi.write_claim(b_, CpuSet{1}).ok());
  EXPECT_EQ(listed().size(), 1U);
  const Result<std::size_t> swept = cdi.sweep();
  ASSERT_TRUE(swept.ok());
  EXPECT_EQ(*swept, 2U);
  EXPECT_TRUE(fs::exists(dir() / ".other.json.new"));
  EXPECT_TRUE(fs::exists(dir() / ".dracpu.lock"));
  EXPECT_EQ(listed().size(), 1U);
  EXPECT_EQ(*cdi.sweep(), 0U);
}

TEST_F(CdiDirectory, AFolderThatCannotBeMadeNamesItself) {
  fs::create_directories(root_);
  std::ofstream(root_ / "cdi") << "a file";
  Directory cdi(dir());
  for (const Status& s : {cdi.write_claim(a_, CpuSet{1}), Status(cdi.list().error())}) {
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.error().code, Errc::kUnavailable);
    EXPECT_THAT(s.error().text, HasSubstr(dir().string()));
  }
  EXPECT_FALSE(cdi.sweep().ok());
}

}  // namespace
}  // namespace dracpu::cdi
