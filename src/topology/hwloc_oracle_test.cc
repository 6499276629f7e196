// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A second opinion on every machine of the collection: hwloc reads the same tree, and both must see the same
// CPUs, packages, cores, nodes with their memory, and caches of level 2 and 3.
//
// hwloc reads masks where the reader prefers lists, so mostly the two do not even open the same files. Where
// they differ for a reason, the reason is a rule about what the tree says, in the table below; no machine is
// named. Which machines needed which rule is printed at the end.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "data/corpus.h"
#include "data/random_tree.h"
#include "data/tree.h"
#include "topology/files.h"
#include "topology/hwloc_view.h"
#include "topology/reader.h"

namespace dracpu::topology {
namespace {

namespace fs = std::filesystem;

enum Rule : std::size_t {
  kNothingDescribed,
  kMaskFromList,
  kMaskFromLinks,
  kOfflineInNode,
  kCpuWithoutFiles,
  kSetNotSettled,
  kSetsCutAcross,
  kNoPackageNumber,
  kNumberBeatsSiblings,
  kNoNodeDirectory,
  kNodeWithoutCpus,
  kOverlappingNode,
  kRules
};

constexpr std::array<const char*, kRules> kReasons = {
    "no CPU has a topology directory: hwloc refuses such a tree, the reader finds no usable CPU",
    "hwloc reads masks only: where a list stands alone or its mask says otherwise, the test writes the mask",
    "a node with neither list nor mask: the test writes the mask from the links",
    "a node names CPUs that are off line: hwloc holds them against its packages, so the test cuts the mask",
    "a CPU without sibling files is in no set of hwloc; the reader keeps it with what else it has",
    "CPUs of one set name different sets: each side has its own way out",
    "sets of two kinds overlap in part: hwloc is a tree and drops one, the reader keeps levels independent",
    "a package number is missing or negative: hwloc keeps the set of siblings, the reader no socket",
    "package numbers and siblings group differently: the number names the socket here, siblings in hwloc",
    "no node directory: hwloc makes up one node for all, the reader has none",
    "a node without CPUs: hwloc gives it those of nodes nearby, the reader none, as the kernel lists",
    "a node that shares CPUs with a lower one: hwloc leaves it out, the reader keeps node and memory",
};

using Rules = std::set<Rule>;

// The set that each CPU's own file names, cut to the online CPUs. Only CPUs with such a file appear.
using Named = std::map<CpuId, CpuSet>;

// What the files say, CPU by CPU, read by no more than a parser of masks.
struct Files {
  Named packages;
  Named cores;
  Named l2;
  Named l3;
  std::map<CpuId, std::int64_t> package_number;  // those that are not negative
  Sets all;                                      // every set that anything names, nodes included
};

std::optional<std::int64_t> number_in(const fs::path& file) {
  return parse_number<std::int64_t>(clean(test::slurp(file)));
}

std::optional<CpuSet> siblings_in(const fs::path& cpu, const char* name, const char* old_name) {
  std::optional<CpuSet> out = mask_in(cpu / "topology" / name);
  return out ? out : mask_in(cpu / "topology" / old_name);
}

std::optional<CpuSet> cache_in(const fs::path& cpu, int level) {
  if (!fs::exists(cpu / "cache")) return std::nullopt;
  for (const auto& entry : fs::directory_iterator(cpu / "cache")) {
    if (number_in(entry.path() / "level") != level) continue;
    const std::string type = test::slurp(entry.path() / "type");
    if (type.empty() || clean(type) == "Unified") return mask_in(entry.path() / "shared_cpu_map");
  }
  return std::nullopt;
}

Files read_files(const fs::path& root, const Topology& ours) {
  Files out;
  const CpuSet& online = ours.online;
  online.for_each([&](CpuId id) {
    const fs::path cpu = root / kCpuDir / fmt::format("cpu{}", id.get());
    const auto add = [&](Named& named, const std::optional<CpuSet>& set) {
      if (!set) return;
      named[id] = *set & online;
      out.all.insert(named[id]);
    };
    add(out.packages, siblings_in(cpu, "package_cpus", "core_siblings"));
    add(out.cores, siblings_in(cpu, "core_cpus", "thread_siblings"));
    add(out.l2, cache_in(cpu, 2));
    add(out.l3, cache_in(cpu, 3));
    for (const char* group : {"cluster_cpus", "book_siblings", "drawer_siblings"}) {
      if (const auto set = mask_in(cpu / "topology" / group)) out.all.insert(*set & online);
    }
    const auto number = number_in(cpu / "topology/physical_package_id");
    if (number.value_or(-1) >= 0) out.package_number[id] = *number;
  });
  for (const auto& [id, node] : ours.nodes) out.all.insert(node.cpus);
  return out;
}

bool is_cut(const CpuSet& set, const Sets& all) {
  return std::any_of(all.begin(), all.end(), [&](const CpuSet& other) {
    return other.intersects(set) && !other.is_subset_of(set) && !set.is_subset_of(other);
  });
}

// The CPUs that can be compared: all members of the set that they name, themselves included, name it too,
// and it lies in every other set whole or not at all.
CpuSet comparable(const Named& named, const Sets& all, Rules& used) {
  CpuSet out;
  for (const auto& [cpu, set] : named) {
    bool is_settled = set.contains(cpu);
    set.for_each([&, &wanted = set](CpuId member) {
      const auto it = named.find(member);
      is_settled = is_settled && it != named.end() && it->second == wanted;
    });
    if (!is_settled) {
      used.insert(kSetNotSettled);
    } else if (is_cut(set, all)) {
      used.insert(kSetsCutAcross);
    } else {
      out.insert(cpu);
    }
  }
  return out;
}

// Of those, the ones whose package has a number, and the same members by number as by siblings.
CpuSet numbered_alike(const CpuSet& cpus, const Files& files, Rules& used) {
  std::map<std::int64_t, CpuSet> by_number;
  for (const auto& [cpu, number] : files.package_number) by_number[number].insert(cpu);
  CpuSet out;
  cpus.for_each([&](CpuId cpu) {
    const auto it = files.package_number.find(cpu);
    if (it == files.package_number.end()) {
      used.insert(kNoPackageNumber);
    } else if (by_number[it->second] != files.packages.at(cpu)) {
      used.insert(kNumberBeatsSiblings);
    } else {
      out.insert(cpu);
    }
  });
  return out;
}

std::string text_of(const Sets& sets, const CpuSet& within) {
  std::string out;
  for (const CpuSet& set : sets) {
    if (set.intersects(within)) out += (set & within).to_string() + ' ';
  }
  return out;
}

void compare_sets(const char* what, const Sets& ours, const Sets& seen, const CpuSet& within) {
  EXPECT_EQ(text_of(ours, within), text_of(seen, within)) << what << ": ours, then hwloc's";
}

template <typename Groups>
Sets sets_of(const Groups& groups) {
  Sets out;
  for (const auto& group : groups) out.insert(group.cpus);
  return out;
}

void compare_packages(const Topology& ours, const Seen& seen, const Files& files, Rules& used) {
  Sets sockets;
  for (const auto& [id, cpus] : ours.sockets) sockets.insert(cpus);
  compare_sets("packages", sockets, seen.packages,
               numbered_alike(comparable(files.packages, files.all, used), files, used));
  for (const auto& [id, cpu] : ours.cpus) {
    EXPECT_EQ(cpu.socket.has_value(), files.package_number.contains(id)) << id.get();
  }
}

void compare_caches(const char* what, const std::vector<CacheGroup>& ours, const Sets& seen,
                    const Named& named, const Sets& all, Rules& used) {
  compare_sets(what, sets_of(ours), seen, comparable(named, all, used));
  EXPECT_TRUE(!named.empty() || (ours.empty() && seen.empty())) << what << " that no file tells of";
}

// hwloc gives such a node the CPUs of others: each of those lies in it whole or not at all.
void compare_node_without_cpus(const Topology& ours, const SeenNode& seen) {
  CpuSet of_others;
  for (const auto& [id, node] : ours.nodes) {
    of_others |= node.cpus;
    EXPECT_TRUE(node.cpus.is_subset_of(seen.cpus) || !node.cpus.intersects(seen.cpus)) << id.get();
  }
  EXPECT_TRUE(seen.cpus.is_subset_of(of_others)) << seen.cpus.to_string();
}

// `kept` are the CPUs that hwloc has.
void compare_node(const Topology& ours, const Node& node, const SeenNode& seen, const CpuSet& kept,
                  const Sets& all, Rules& used) {
  EXPECT_EQ(node.memory_bytes.value_or(0), seen.memory_bytes);
  if (node.cpus.empty()) {
    used.insert(kNodeWithoutCpus);
    compare_node_without_cpus(ours, seen);
  } else if (is_cut(node.cpus, all)) {
    used.insert(kSetsCutAcross);
  } else {
    EXPECT_EQ((node.cpus & kept).to_string(), seen.cpus.to_string());
  }
}

void compare_nodes(const Topology& ours, const Seen& seen, const Sets& all, Rules& used) {
  if (!ours.has_numa) {
    used.insert(kNoNodeDirectory);
    ASSERT_EQ(seen.nodes.size(), 1U);
    EXPECT_EQ(seen.nodes.begin()->second.cpus, seen.cpus);
    return;
  }
  CpuSet of_lower;
  std::size_t compared = 0;
  for (const auto& [id, node] : ours.nodes) {
    SCOPED_TRACE(fmt::format("node {}", id.get()));
    const auto it = seen.nodes.find(id);
    if (node.cpus.intersects(of_lower)) {
      used.insert(kOverlappingNode);
      EXPECT_TRUE(it == seen.nodes.end());
      continue;
    }
    of_lower |= node.cpus;
    if (it == seen.nodes.end()) {
      ADD_FAILURE() << "not in hwloc";
      continue;
    }
    ++compared;
    compare_node(ours, node, it->second, seen.cpus, all, used);
  }
  EXPECT_EQ(compared, seen.nodes.size()) << "nodes that hwloc alone has";
}

void compare(const Topology& ours, const Seen& seen, const fs::path& root, Rules& used) {
  // hwloc leaves out an online CPU without a topology directory.
  EXPECT_TRUE(ours.usable.is_subset_of(seen.cpus)) << (ours.usable - seen.cpus).to_string();
  EXPECT_TRUE(seen.cpus.is_subset_of(ours.online)) << (seen.cpus - ours.online).to_string();

  const Files files = read_files(root, ours);
  if (std::min(files.packages.size(), files.cores.size()) < ours.usable.size()) used.insert(kCpuWithoutFiles);
  compare_packages(ours, seen, files, used);
  compare_sets("cores", sets_of(ours.cores), seen.cores, comparable(files.cores, files.all, used));
  compare_caches("L2", ours.l2_groups, seen.l2, files.l2, files.all, used);
  compare_caches("L3", ours.l3_groups, seen.l3, files.l3, files.all, used);
  compare_nodes(ours, seen, files.all, used);
}

// Reads the tree below `root` with both and compares. True if there was something to compare.
bool check_tree(const fs::path& root, Rules& used) {
  const Result<Topology> ours = read_topology({.root = root});
  if (!ours.ok()) {
    ADD_FAILURE() << ours.error().text;
    return false;
  }
  if (ours->usable.empty()) {
    used.insert(kNothingDescribed);
    EXPECT_FALSE(look_with_hwloc(root).has_value());
    return false;
  }
  if (write_masks_from_lists(root, ours->online)) used.insert(kMaskFromList);
  if (write_node_masks_from_links(root)) used.insert(kMaskFromLinks);
  if (cut_node_masks(root, ours->online)) used.insert(kOfflineInNode);
  const std::optional<Seen> seen = look_with_hwloc(root);
  if (!seen) {
    ADD_FAILURE() << "hwloc cannot read the tree";
    return false;
  }
  compare(*ours, *seen, root, used);
  return true;
}

TEST(HwlocOracle, SeesTheSameMachines) {
  const std::vector<test::Machine> machines = test::machines();
  if (machines.empty()) GTEST_SKIP() << "no machines in " << test::data_dir() << "; set DRACPU_TEST_DATA";
  std::map<Rule, std::string> machines_by_rule;
  std::size_t compared = 0;
  for (const test::Machine& machine : machines) {
    SCOPED_TRACE(machine.name);
    const test::TempDir dir;
    ASSERT_TRUE(test::unpack(machine, dir.path()));
    Rules used;
    if (check_tree(dir.path(), used)) ++compared;
    for (const Rule rule : used) machines_by_rule[rule] += ' ' + machine.name;
  }
  std::cout << compared << " of " << machines.size() << " machines compared with hwloc\n";
  for (const auto& [rule, names] : machines_by_rule) std::cout << kReasons[rule] << ':' << names << '\n';
}

TEST(HwlocOracle, SeesTheSameEvenMachines) {
  for (const test::TreeSpec& spec : std::initializer_list<test::TreeSpec>{
           {},
           {.sockets = 1, .threads = 1},
           {.sockets = 1, .threads = 4, .are_siblings_adjacent = true},
           {.sockets = 2, .nodes_per_socket = 4, .cores_per_node = 3, .threads = 8, .cores_per_l3 = 6},
           {.sockets = 4, .cores_per_node = 20, .cores_per_l3 = 10},
       }) {
    SCOPED_TRACE(fmt::format("{} sockets, {} nodes each, {} threads", spec.sockets, spec.nodes_per_socket,
                             spec.threads));
    const test::TempDir dir;
    test::write_tree(test::make_tree(spec), dir.path());
    Rules used;
    EXPECT_TRUE(check_tree(dir.path(), used));
    EXPECT_EQ(used, Rules());
  }
}

TEST(HwlocOracle, SeesTheSameRandomMachines) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    test::Random random(seed);
    const test::TempDir dir;
    test::write_tree(test::random_tree(random), dir.path());
    Rules used;
    EXPECT_TRUE(check_tree(dir.path(), used));
  }
}

void remove_below(MemorySource& tree, const std::string& path) {
  const auto files = tree.files();
  for (const auto& [file, content] : files) {
    if (file.starts_with(path)) tree.remove(file);
  }
}

// Faults of captures and firmware, one at a time on a small machine: cores 0,4 1,5 2,6 3,7; node, socket and
// L3 are 0-1,4-5 and 2-3,6-7. Paths are below the directory of the CPUs; without content all below goes away.
TEST(HwlocOracle, SeesTheSameOddMachines) {
  struct Case {
    const char* about;
    std::map<std::string, const char*> files;
    Rules rules;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"a CPU off line", {{"online", "0-6\n"}}, {kOfflineInNode}},
           {"a list that its mask contradicts",
            {{"cpu0/topology/core_cpus_list", "0-1\n"}},
            {kMaskFromList, kSetNotSettled, kSetsCutAcross}},
           {"siblings that do not agree",
            {{"cpu5/topology/core_cpus_list", "4-5\n"}, {"cpu5/topology/core_cpus", "30\n"}},
            {kSetNotSettled, kSetsCutAcross}},
           {"a CPU without siblings",
            {{"cpu6/topology/core_cpus_list", nullptr}, {"cpu6/topology/core_cpus", nullptr}},
            {kCpuWithoutFiles, kSetNotSettled}},
           {"a CPU that went away", {{"cpu6/topology", nullptr}, {"cpu6/cache", nullptr}}, {kSetNotSettled}},
           {"no caches on one socket",
            {{"cpu2/cache", nullptr},
             {"cpu3/cache", nullptr},
             {"cpu6/cache", nullptr},
             {"cpu7/cache", nullptr}},
            {}},
           {"no nodes", {{"../node", nullptr}}, {kNoNodeDirectory}},
           {"a node that went away", {{"../node/online", "0\n"}}, {}},
           {"a package without a number",
            {{"cpu3/topology/physical_package_id", "-1\n"}},
            {kNoPackageNumber, kNumberBeatsSiblings}},
           {"packages that siblings split",
            {{"cpu3/topology/package_cpus_list", "3\n"}, {"cpu3/topology/package_cpus", "8\n"}},
            {kSetNotSettled, kNumberBeatsSiblings}},
           {"caches that overlap",
            {{"cpu1/cache/index3/shared_cpu_list", "1,5\n"}, {"cpu1/cache/index3/shared_cpu_map", "22\n"}},
            {kSetNotSettled}},
           {"a level 3 for data alone", {{"cpu0/cache/index3/type", "Data\n"}}, {kSetNotSettled}},
           {"a cache across sockets",
            {{"cpu1/cache/index3/shared_cpu_list", "1-2\n"},
             {"cpu1/cache/index3/shared_cpu_map", "6\n"},
             {"cpu2/cache/index3/shared_cpu_list", "1-2\n"},
             {"cpu2/cache/index3/shared_cpu_map", "6\n"}},
            {kSetNotSettled, kSetsCutAcross}},
           {"nodes that overlap",
            {{"../node/node1/cpulist", "1-3,6-7\n"}, {"../node/node1/cpumap", "ce\n"}},
            {kSetsCutAcross, kOverlappingNode}},
           {"a node of memory alone",
            {{"../node/online", "0-2\n"},
             {"../node/node2/cpulist", "\n"},
             {"../node/node2/cpumap", "0\n"},
             {"../node/node2/meminfo", "Node 2 MemTotal: 2048 kB\n"}},
            {kNodeWithoutCpus}},
       }) {
    SCOPED_TRACE(c.about);
    const test::TempDir dir;
    MemorySource tree = test::make_tree({});
    for (const auto& [file, content] : c.files) {
      const std::string path = (fs::path(kCpuDir) / file).lexically_normal();
      if (content != nullptr) {
        tree.add(path, content);
      } else {
        remove_below(tree, path);
      }
    }
    test::write_tree(tree, dir.path());
    Rules used;
    EXPECT_TRUE(check_tree(dir.path(), used));
    EXPECT_EQ(used, c.rules);
  }
}

}  // namespace
}  // namespace dracpu::topology
