// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The reader against files that move, vanish or lie elsewhere, and the PCI part, whose tree has many shapes.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "data/corpus.h"
#include "data/tree.h"
#include "topology/reader.h"

namespace dracpu::topology {
namespace {

constexpr const char* kOnline = "sys/devices/system/cpu/online";

// Calls a hook before each read; what it answers replaces the file.
class Meddler final : public Source {
 public:
  explicit Meddler(MemorySource& below) : below_(below) {}
  std::function<std::optional<Found>(const std::string& path, std::string& into)> before_read;

  Found read(const std::string& path, std::string& into) override {
    if (before_read) {
      if (const std::optional<Found> answer = before_read(path, into)) return *answer;
    }
    return below_.read(path, into);
  }
  Found list(const std::string& path, std::vector<std::string>& into) override {
    return below_.list(path, into);
  }
  Found link(const std::string& path, std::string& into) override { return below_.link(path, into); }

 private:
  MemorySource& below_;
};

TEST(ReaderFaults, RefusesOnlyWhatHasNoCpus) {
  struct Case {
    const char* about;
    std::function<void(MemorySource&)> edit;
    Errc code;
    const char* text;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"an empty tree", [](MemorySource& t) { t = MemorySource(); }, Errc::kNotFound, "no CPU found"},
           {"no CPU online", [](MemorySource& t) { t.add(kOnline, "\n"); }, Errc::kNotFound, "no CPU found"},
           {"not a list", [](MemorySource& t) { t.add(kOnline, "0-7,x\n"); }, Errc::kCorrupt, kOnline},
           {"a number beyond reason", [](MemorySource& t) { t.add(kOnline, "0-4000000000\n"); },
            Errc::kCorrupt, kOnline},
       }) {
    SCOPED_TRACE(c.about);
    MemorySource tree = test::make_tree({});
    c.edit(tree);
    const Result<Topology> got = read_topology(tree);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, c.code);
    EXPECT_NE(got.error().text.find(c.text), std::string::npos) << got.error().text;
  }
}

TEST(ReaderFaults, TakesDirectoriesWhereTheListIsMissing) {
  MemorySource tree = test::make_tree({});
  tree.remove(kOnline);
  tree.add("sys/devices/system/cpu/cpu3/online", "0\n");
  const Result<Topology> got = read_topology(tree);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->online.to_string(), "0-2,4-7");
  EXPECT_EQ(got->offline.to_string(), "3");
}

TEST(ReaderFaults, ReadsAgainWhenTheOnlineListMoves) {
  MemorySource tree = test::make_tree({});
  Meddler source(tree);
  int reads = 0;
  source.before_read = [&](const std::string& path, std::string&) -> std::optional<Found> {
    if (path == kOnline && ++reads == 2) tree.add(kOnline, "0-3\n");
    return std::nullopt;
  };
  const Result<Topology> got = read_topology(source);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->online.to_string(), "0-3");
  EXPECT_TRUE(got->warnings.empty());
}

TEST(ReaderFaults, KeepsWhatTwoReadsNameWhenItNeverRests) {
  MemorySource tree = test::make_tree({});
  Meddler source(tree);
  int reads = 0;
  source.before_read = [&](const std::string& path, std::string& into) -> std::optional<Found> {
    if (path != kOnline) return std::nullopt;
    into = ++reads % 2 == 0 ? "0-5\n" : "1-7\n";
    return Found::kYes;
  };
  const Result<Topology> got = read_topology(source);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->online.to_string(), "1-5");
  ASSERT_FALSE(got->warnings.empty());
  EXPECT_EQ(got->warnings.back().path, kOnline);
}

TEST(ReaderFaults, SurvivesEveryFileThatCannotBeRead) {
  MemorySource tree = test::make_tree({});
  for (const auto& [victim, content] : tree.files()) {
    SCOPED_TRACE(victim);
    Meddler source(tree);
    source.before_read = [&](const std::string& path, std::string& into) -> std::optional<Found> {
      if (path != victim) return std::nullopt;
      into.clear();
      return Found::kUnreadable;
    };
    const Result<Topology> got = read_topology(source);
    if (victim == kOnline) {
      ASSERT_FALSE(got.ok());
      EXPECT_EQ(got.error().code, Errc::kUnavailable);
      continue;
    }
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(got->usable.to_string(), "0-7");
  }
}

TEST(ReaderFaults, StaysBelowItsRoot) {
  const test::TempDir dir;
  test::write_tree(test::make_tree({}), dir.path() / "root");
  std::ofstream(dir.path() / "outside") << "0\n";
  const std::filesystem::path online = dir.path() / "root" / kOnline;
  for (const std::filesystem::path& target :
       {dir.path() / "outside", std::filesystem::path("../../../../../../outside")}) {
    std::filesystem::remove(online);
    std::filesystem::create_symlink(target, online);
    const Result<Topology> got = read_topology({.root = dir.path() / "root"});
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(got->online.to_string(), "0-7") << "from the topology directories, not from outside";
  }
  EXPECT_EQ(read_topology({.root = dir.path() / "nowhere"}).error().code, Errc::kNotFound);
}

// In a copy of /sys that somebody made: no writer will ever come.
TEST(ReaderFaults, DoesNotWaitForAFifo) {
  const test::TempDir dir;
  test::write_tree(test::make_tree({}), dir.path());
  const std::filesystem::path file = dir.path() / "sys/devices/system/cpu/cpu0/topology/core_id";
  ASSERT_TRUE(std::filesystem::remove(file));
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  const Result<Topology> got = read_topology({.root = dir.path()});
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_FALSE(got->warnings.empty());
}

// Warnings go to terminals, logs and JSON.
TEST(ReaderFaults, WarningsHoldNoForeignBytes) {
  const MemorySource whole = test::make_tree({});
  for (const auto& [victim, content] : whole.files()) {
    SCOPED_TRACE(victim);
    MemorySource tree = whole;
    tree.add(victim, "\xff\x1b[31m\n" + std::string(1000, 'x'));
    const Result<Topology> got = read_topology(tree);
    if (!got.ok()) continue;
    for (const Warning& w : got->warnings) {
      EXPECT_EQ(w.found.find_first_of("\xff\x1b\n"), std::string::npos) << w.found;
      EXPECT_LT(w.found.size(), 300U);
    }
  }
}

TEST(ReaderFaults, DirectoryAndMemoryGiveTheSame) {
  const test::TempDir dir;
  MemorySource tree =
      test::make_tree({.sockets = 2, .nodes_per_socket = 2, .cores_per_node = 4, .threads = 4});
  test::write_tree(tree, dir.path());
  const Result<Topology> from_files = read_topology({.root = dir.path()});
  const Result<Topology> from_memory = read_topology(tree);
  ASSERT_TRUE(from_files.ok() && from_memory.ok());
  EXPECT_EQ(*from_files, *from_memory);
}

std::set<std::string> roots_of(MemorySource& tree) {
  const Result<Topology> got = read_topology(tree);
  EXPECT_TRUE(got.ok());
  std::set<std::string> out;
  for (const PcieRoot& root : got->pcie_roots) {
    out.insert(fmt::format("{}={}@{}", root.name, root.cpus.to_string(),
                           root.node ? std::to_string(root.node->get()) : "none"));
  }
  return out;
}

TEST(ReaderPcie, FindsRootsInEveryShape) {
  const std::string even0 = "pci0000:00=0-1,4-5@0";
  const std::string even1 = "pci0000:10=2-3,6-7@1";
  const std::string bus0 = "sys/devices/pci0000:00/pci_bus/0000:00/";
  const std::string function0 = "sys/devices/pci0000:00/0000:00:00.0/";
  struct Case {
    const char* about;
    std::function<void(MemorySource&)> edit;
    std::set<std::string> roots;
  };
  const auto drop_affinity = [&](MemorySource& t) {
    t.remove(bus0 + "cpulistaffinity");
    t.remove(bus0 + "cpuaffinity");
  };
  for (const Case& c : std::initializer_list<Case>{
           {"as they are", [](MemorySource&) {}, {even0, even1}},
           {"the mask alone", [&](MemorySource& t) { t.remove(bus0 + "cpulistaffinity"); }, {even0, even1}},
           {"functions, where the bus says nothing", drop_affinity, {even0, even1}},
           {"functions that disagree",
            [&](MemorySource& t) {
              drop_affinity(t);
              for (const char* f : {"01.0", "02.0"}) {
                t.add(fmt::format("sys/devices/pci0000:00/0000:00:{}/local_cpulist", f), "0-7\n");
                t.add(fmt::format("sys/devices/pci0000:00/0000:00:{}/numa_node", f), "0\n");
              }
            },
            {"pci0000:00=0-7@0", even1}},
           {"the node, where functions name no CPUs",
            [&](MemorySource& t) {
              drop_affinity(t);
              t.remove(function0 + "local_cpulist");
              t.remove(function0 + "local_cpus");
            },
            {even0, even1}},
           {"no node: local to all",
            [&](MemorySource& t) {
              drop_affinity(t);
              t.remove(function0 + "local_cpulist");
              t.remove(function0 + "local_cpus");
              t.add(function0 + "numa_node", "-1\n");
            },
            {"pci0000:00=0-7@none", even1}},
           {"possible CPUs are cut",
            [&](MemorySource& t) { t.add(bus0 + "cpulistaffinity", "0-1,4-5,8-63\n"); },
            {even0, even1}},
           {"a domain of five digits",
            [](MemorySource& t) { t.add("sys/devices/pci10000:00/pci_bus/10000:00/cpulistaffinity", "7\n"); },
            {even0, even1, "pci10000:00=7@none"}},
           {"names that are none",
            [](MemorySource& t) {
              for (const char* name :
                   {"pci000:00", "pci0000:0", "pci0000:000", "pciXXXX:00", "pci0000", "pci0000:GG"}) {
                t.add(fmt::format("sys/devices/{}/uevent", name), "");
              }
            },
            {even0, even1}},
           {"a bridge inside another root belongs to that one",
            [](MemorySource& t) {
              t.add("sys/class/pci_bus/0000:00", "../../devices/pci0000:00/pci_bus/0000:00");
              t.add("sys/class/pci_bus/10000:00",
                    "../../devices/pci0000:00/0000:00:05.5/pci10000:00/pci_bus/10000:00");
              t.add("sys/class/pci_bus/0000:01", "../../devices/pci0000:00/0000:00:1c.0/pci_bus/0000:01");
            },
            {even0, even1}},
           {"a bridge from the device tree, by class",
            [](MemorySource& t) {
              t.add("sys/class/pci_bus/0002:00",
                    "../../devices/platform/40000000.pcie/pci0002:00/pci_bus/0002:00");
              t.add("sys/devices/platform/40000000.pcie/pci0002:00/pci_bus/0002:00/cpulistaffinity", "3\n");
            },
            {even0, even1, "pci0002:00=3@none"}},
           {"the same without the class directory",
            [](MemorySource& t) {
              t.add("sys/devices/platform/soc/40000000.pcie/pci0002:00/pci_bus/0002:00/cpulistaffinity",
                    "3\n");
            },
            {even0, even1, "pci0002:00=3@none"}},
       }) {
    SCOPED_TRACE(c.about);
    MemorySource tree = test::make_tree({});
    c.edit(tree);
    EXPECT_EQ(roots_of(tree), c.roots);
  }
}

}  // namespace
}  // namespace dracpu::topology
