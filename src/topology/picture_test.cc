// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The picture for a terminal: no line too long, each CPU once, and the words where levels do not nest.

#include "topology/picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "data/corpus.h"
#include "topology/picture_tree.h"
#include "topology/test_machines.h"

namespace dracpu::topology {
namespace {

constexpr std::string_view kItem = "0123456789,-+ ";

// The lines of the part that shows the cores.
std::vector<std::string> core_lines(const std::string& text) {
  std::vector<std::string> out;
  bool is_inside = false;
  for (const std::string_view line : split(text, '\n')) {
    if (is_inside && line.empty()) break;
    if (is_inside) out.emplace_back(line);
    if (line.starts_with("Each item is one core")) is_inside = true;
  }
  return out;
}

// What stands in a line besides labels: everything, or what follows "L3 0, 8 MiB: " or "P-cores: ".
std::string items_of(const std::string& line) {
  const std::size_t colon = line.find(": ");
  const std::string items = colon == std::string::npos ? line : line.substr(colon + 1);
  return items.find_first_not_of(kItem) == std::string::npos ? items + " " : "";
}

void expect_good_lines(const std::string& text, std::size_t columns) {
  EXPECT_TRUE(text.ends_with('\n'));
  for (const std::string_view line : split(text, '\n')) {
    EXPECT_LE(line.size(), columns) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
    for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
  }
}

void expect_each_cpu_once(const Topology& t, const std::string& text) {
  std::string all;
  for (const std::string& line : core_lines(text)) {
    std::string items = items_of(line);
    // A core that is too long for a line goes on in the next.
    if (all.ends_with(", ") && !items.empty()) {
      all.pop_back();
      items.erase(0, items.find_first_not_of(' '));
    }
    all += items;
    while (all.ends_with("  ")) all.pop_back();
  }
  std::map<CpuId, int> seen;
  for (std::string_view item : split(all, ' ')) {
    if (item.empty()) continue;
    const bool is_part = item.ends_with('+');
    if (is_part) item.remove_suffix(1);
    const Result<CpuSet> cpus = CpuSet::parse(item);
    ASSERT_TRUE(cpus.ok()) << item;
    cpus->for_each([&](CpuId id) { ++seen[id]; });
    ASSERT_TRUE(cpus->is_subset_of(t.usable)) << item;
    const CpuSet& core = t.siblings(*cpus->first());
    EXPECT_TRUE(is_part ? cpus->is_subset_of(core) && *cpus != core : *cpus == core) << item;
  }
  for (const auto& [id, cpu] : t.cpus) EXPECT_EQ(seen[id], 1) << "CPU " << id.get();
}

void expect_good_text(const NamedMachine& machine) {
  SCOPED_TRACE(machine.name);
  for (const int columns : {100, 80, 40, 1}) {
    SCOPED_TRACE(columns);
    const std::string text = text_picture(machine.topology, {.title = machine.name, .columns = columns});
    expect_good_lines(text, static_cast<std::size_t>(std::max(columns, 40)));
    expect_each_cpu_once(machine.topology, text);
  }
  EXPECT_EQ(text_picture(machine.topology), text_picture(machine.topology));
}

TEST(TextPicture, OfMadeMachines) {
  for (const NamedMachine& machine : made_machines()) expect_good_text(machine);
}

TEST(TextPicture, OfCollectedMachines) {
  const std::vector<NamedMachine>& machines = collected_machines();
  if (machines.empty()) GTEST_SKIP() << "no machines in " << test::data_dir() << "; set DRACPU_TEST_DATA";
  for (const NamedMachine& machine : machines) expect_good_text(machine);
}

TEST(TextPicture, OfASmallMachine) {
  EXPECT_EQ(text_picture(made_machine(made_machines(), "8 CPUs"), {.title = "desk"}),
            "desk\n"
            "8 CPUs, 4 cores, 2 threads per core, 1 socket, 1 NUMA node, 1 L3 group, SMT on\n"
            "\n"
            "Each item is one core as the list of its CPUs.\n"
            "Socket 0 (CPUs 0-7)\n"
            "  NUMA node 0 (CPUs 0-7), 1 GiB\n"
            "    L3 0, 32 MiB: 0,4 1,5 2,6 3,7\n"
            "\n"
            "PCIe roots by the node and CPUs that they are local to\n"
            "  node 0, all CPUs: pci0000:00\n");
}

TEST(TextPicture, SaysWhatDoesNotNest) {
  struct Case {
    const char* machine;
    std::vector<const char*> lines;
  };
  const std::vector<NamedMachine> machines = made_machines();
  for (const Case& c : std::initializer_list<Case>{
           {"L3 over two nodes",
            {"\n    part of L3 0 (8 of 16 CPUs), 35 MiB:\n      0-1   2-3   4-5   6-7\n"}},
           {"node over two sockets",
            {"\nNUMA node 0 (CPUs 0-7), 37 GiB\n  Socket 0 (CPUs 0-3)\n    L3 0, 35 MiB: 0-1"}},
           {"nodes across sockets",
            {"\nSocket 0 (CPUs 0-5)\n  NUMA node 0 (CPUs 0-2), 37 GiB\n",
             "\n  part of NUMA node 1 (3 of 6 CPUs), 37 GiB in the whole node\n"}},
           {"nothing known",
            {" sockets unknown, no NUMA nodes, no L3, SMT on\n\nEach item", "\n0 1 2 3 4\n"}},
           {"much unknown", {"\nSocket unknown (", "    No L3:"}},
           {"cores across L3 groups",
            {"; + marks one that goes on in another group.\n", " 0-2+\n", " 3+     4-5+\n"}},
           {"types of core",
            {"(3 P, 1 M, 4 E)", "      P-cores: 0-1   2-3   4-5\n", "      M-cores: 6-7\n",
             "      E-cores: 8-9   10-11\n"}},
           {"offline, isolated, unreadable",
            {"\n  SMT on (<odd>?[31m & \"text\"?)\n", "\nOffline: CPUs 100,102,",
             "\nOnline but not readable: CPUs 50-51\n", "\nIsolated: CPUs 6-7,9\n",
             "\nWithout tick (nohz_full): CPUs 9,12\n"}},
           {"memory-only nodes",
            {"6 NUMA nodes (3 without CPUs)",
             "\n  NUMA node 2, no memory, hugepages 512 x 2 MiB (12 free, 3 surplus), nearest node 0",
             " (distance 17)\n", "\n  NUMA node 5, 6 TiB, hugepages 512 x 2 MiB (12 free, 3 surplus)\n",
             "\n  NUMA node 8, no memory, hugepages 512 x 2 MiB (12 free, 3 surplus), lists CPUs 0-1,",
             "\n      counted in node 0\n", "\n  no node told, all CPUs: pci0000:00\n",
             "\n  node 0, CPUs 0-7: pci0000:10\n", "\n  no node told, CPUs 8-15: pci0000:20\n",
             "\n  node 1, CPU 2: pci0000:30\n", "\n  node 5, no CPUs: pci10000:40\n",
             "\n  node 999, CPU 3: pci10000:50\n",
             "\n  node   0   1   2   5   8  11\n     0  10 117 217 217 217 217\n",
             "\n     5   -   -   -   -   -   -\n"}},
           {"many memory-only nodes",
            {"\nNUMA distances between different nodes: 17 to 217 (10 is local)\n"}},
       }) {
    SCOPED_TRACE(c.machine);
    const std::string text = text_picture(made_machine(machines, c.machine));
    for (const char* const line : c.lines)
      EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

TEST(Words, OfBytes) {
  for (const auto& [bytes, text] :
       std::initializer_list<std::pair<std::uint64_t, const char*>>{{0, "0 B"},
                                                                    {1023, "1023 B"},
                                                                    {524288, "512 KiB"},
                                                                    {37486592, "35.8 MiB"},
                                                                    {std::uint64_t{4} << 30U, "4 GiB"},
                                                                    {std::uint64_t{3} << 39U, "1.5 TiB"},
                                                                    {UINT64_MAX, "16777216 TiB"}}) {
    EXPECT_EQ(bytes_text(bytes), text);
  }
}

TEST(Words, Wrap) {
  struct Case {
    const char* text;
    std::size_t width;
    std::vector<std::string> lines;
  };
  for (const Case& c : std::initializer_list<Case>{{"", 5, {}},
                                                   {"a b", 3, {"a b"}},
                                                   {"aa bb cc", 5, {"aa bb", "cc"}},
                                                   {"aa bb cc", 6, {"aa bb", "cc"}},
                                                   {"1,2,3,4", 4, {"1,2,", "3,4"}},
                                                   {"2 nodes, 1 group, on", 14, {"2 nodes,", "1 group, on"}},
                                                   {"a, long words 7", 13, {"a, long words", "7"}},
                                                   {"abcdef", 4, {"abcd", "ef"}},
                                                   {"abc", 0, {"a", "b", "c"}},
                                                   {"   ab", 2, {"ab"}}}) {
    EXPECT_EQ(wrap(c.text, c.width), c.lines) << c.text;
  }
}

}  // namespace
}  // namespace dracpu::topology
