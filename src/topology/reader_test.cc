// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the reader makes of trees with something missing, odd or wrong: a small even machine, one fault at a
// time.

#include "topology/reader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>

#include "data/corpus.h"
#include "data/tree.h"

namespace dracpu::topology {
namespace {

using test::make_tree;

constexpr const char* kCpu = "sys/devices/system/cpu/";
constexpr const char* kNode = "sys/devices/system/node/";

// Two sockets of two cores of two threads: cores 0,4 1,5 2,6 3,7; node and L3 per socket.
MemorySource small() { return make_tree({}); }

void remove_below(MemorySource& tree, const std::string& prefix) {
  std::vector<std::string> paths;
  for (const auto& [path, content] : tree.files()) {
    if (path.starts_with(prefix)) paths.push_back(path);
  }
  for (const std::string& path : paths) tree.remove(path);
}

// The end of a path of which there is one per CPU, as in "/topology/core_cpus_list".
void for_each_ending(MemorySource& tree, std::string_view end,
                     const std::function<void(const std::string&)>& f) {
  std::vector<std::string> paths;
  for (const auto& [path, content] : tree.files()) {
    if (path.ends_with(end)) paths.push_back(path);
  }
  ASSERT_FALSE(paths.empty()) << end;
  for (const std::string& path : paths) f(path);
}

void remove_ending(MemorySource& tree, std::string_view end) {
  for_each_ending(tree, end, [&](const std::string& path) { tree.remove(path); });
}

void set_ending(MemorySource& tree, std::string_view end, const std::string& content) {
  for_each_ending(tree, end, [&](const std::string& path) { tree.add(path, content); });
}

std::set<std::string> cores_of(const Topology& t) {
  std::set<std::string> out;
  for (const Core& core : t.cores) out.insert(core.cpus.to_string());
  return out;
}

std::set<std::string> l3_of(const Topology& t) {
  std::set<std::string> out;
  for (const CacheGroup& group : t.l3_groups)
    out.insert(fmt::format("{}={}", group.label, group.cpus.to_string()));
  return out;
}

bool warns_of(const Topology& t, std::string_view part_of_path) {
  for (const Warning& w : t.warnings) {
    if (w.path.find(part_of_path) != std::string::npos) return true;
  }
  return false;
}

const std::set<std::string> kAllCores = {"0,4", "1,5", "2,6", "3,7"};

struct Case {
  const char* about;
  std::function<void(MemorySource&)> edit;
  std::function<void(const Topology&)> check;
  const char* warning = nullptr;  // a part of the path that is warned about; null: no warning at all
};

void run(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.about);
    MemorySource tree = small();
    c.edit(tree);
    const Result<Topology> got = read_topology(tree);
    ASSERT_TRUE(got.ok()) << got.error().text;
    c.check(*got);
    if (c.warning != nullptr) {
      EXPECT_TRUE(warns_of(*got, c.warning));
    } else {
      EXPECT_TRUE(got->warnings.empty()) << got->warnings.front().path << ": " << got->warnings.front().found;
    }
  }
}

TEST(Reader, ReadsAnEvenMachine) {
  MemorySource tree = small();
  const Result<Topology> got = read_topology(tree);
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_TRUE(got->warnings.empty());
  EXPECT_EQ(got->usable.to_string(), "0-7");
  EXPECT_EQ(cores_of(*got), kAllCores);
  EXPECT_EQ(l3_of(*got), (std::set<std::string>{"0=0-1,4-5", "1=2-3,6-7"}));
  EXPECT_EQ(got->sockets.at(SocketId(1)).to_string(), "2-3,6-7");
  EXPECT_EQ(got->nodes.at(NumaNodeId(1)).cpus.to_string(), "2-3,6-7");
  EXPECT_EQ(got->nodes.at(NumaNodeId(1)).distance.at(NumaNodeId(0)), 20);
  EXPECT_EQ(got->nodes.at(NumaNodeId(0)).memory_bytes, std::uint64_t{1} << 30U);
  EXPECT_EQ(got->siblings(CpuId(6)).to_string(), "2,6");
  EXPECT_EQ(got->pcie_roots.at(1).name, "pci0000:10");
  EXPECT_EQ(got->pcie_roots.at(1).node, NumaNodeId(1));
  EXPECT_TRUE(got->smt_enabled);
  EXPECT_TRUE(got->clusters.empty()) << "65535 is no cluster";
}

TEST(Reader, CleansTexts) {
  run({
      {"a NUL byte after the newline",
       [](auto& t) { t.add(std::string(kCpu) + "online", std::string("0-7\n\0", 5)); },
       [](const auto& t) { EXPECT_EQ(t.online.to_string(), "0-7"); }},
      {"a NUL byte alone", [](auto& t) { t.add(std::string(kCpu) + "nohz_full", std::string("\0\n", 2)); },
       [](const auto& t) { EXPECT_TRUE(t.nohz_full.empty()); }},
      {"a mask that was never set up", [](auto& t) { t.add(std::string(kCpu) + "isolated", "(null)\n"); },
       [](const auto& t) { EXPECT_TRUE(t.isolated.empty()); }},
      {"any order", [](auto& t) { t.add(std::string(kCpu) + "online", "4-7,2,0-1,3"); },
       [](const auto& t) { EXPECT_EQ(t.online.to_string(), "0-7"); }},
      {"isolated CPUs that are not online",
       [](auto& t) { t.add(std::string(kCpu) + "isolated", "3,90-99\n"); },
       [](const auto& t) {
         EXPECT_EQ(t.isolated.to_string(), "3");
         EXPECT_TRUE(t.cpus.at(CpuId(3)).isolated);
       }},
      {"a number that is none", [](auto& t) { t.add(std::string(kCpu) + "cpu2/topology/core_id", "zwei\n"); },
       [](const auto& t) { EXPECT_FALSE(t.cpus.at(CpuId(2)).core_label.has_value()); },
       "cpu2/topology/core_id"},
      {"a number that is empty", [](auto& t) { t.add(std::string(kCpu) + "cpu2/topology/core_id", "\n"); },
       [](const auto& t) { EXPECT_FALSE(t.cpus.at(CpuId(2)).core_label.has_value()); },
       "cpu2/topology/core_id"},
      {"a list that is none, mask at hand",
       [](auto& t) { t.add(std::string(kNode) + "node1/cpulist", "2-,6\n"); },
       [](const auto& t) { EXPECT_EQ(t.nodes.at(NumaNodeId(1)).cpus.to_string(), "2-3,6-7"); },
       "node1/cpulist"},
      {"a reversed range is not read by half",
       [](auto& t) { t.add(std::string(kCpu) + "isolated", "5-3\n"); },
       [](const auto& t) { EXPECT_TRUE(t.isolated.empty()); }, "isolated"},
  });
}

TEST(Reader, FindsCores) {
  run({
      {"masks only",
       [](auto& t) {
         remove_ending(t, "core_cpus_list");
         remove_ending(t, "shared_cpu_list");
         remove_ending(t, "/cpulist");
       },
       [](const auto& t) {
         EXPECT_EQ(cores_of(t), kAllCores);
         EXPECT_EQ(t.l3_groups.size(), 2U);
         EXPECT_EQ(t.nodes.at(NumaNodeId(0)).cpus.to_string(), "0-1,4-5");
       }},
      {"list and mask disagree",
       [](auto& t) { t.add(std::string(kCpu) + "cpu0/topology/core_cpus", "00000003\n"); },
       [](const auto& t) { EXPECT_EQ(cores_of(t), kAllCores); }, "cpu0/topology/core_cpus"},
      {"the old names",
       [](auto& t) {
         for_each_ending(t, "core_cpus_list", [&](const std::string& path) {
           std::string old = path;
           old.replace(old.find("core_cpus_list"), 14, "thread_siblings_list");
           t.add(old, t.files().at(path));
         });
         remove_ending(t, "core_cpus_list");
         remove_ending(t, "core_cpus");
       },
       [](const auto& t) { EXPECT_EQ(cores_of(t), kAllCores); }},
      {"no sibling files: ids",
       [](auto& t) { remove_ending(t, "core_cpus_list"), remove_ending(t, "core_cpus"); },
       [](const auto& t) { EXPECT_EQ(cores_of(t), kAllCores); }},
      {"no sibling files and no core ids: every CPU for itself",
       [](auto& t) {
         remove_ending(t, "core_cpus_list"), remove_ending(t, "core_cpus");
         set_ending(t, "/core_id", "-1\n");
       },
       [](const auto& t) { EXPECT_EQ(t.cores.size(), 8U); }},
      {"ids that group differently", [](auto& t) { set_ending(t, "/core_id", "0\n"); },
       [](const auto& t) { EXPECT_EQ(cores_of(t), kAllCores); }, "core_id"},
      {"a sibling that is not online", [](auto& t) { t.add(std::string(kCpu) + "online", "0-6\n"); },
       [](const auto& t) {
         EXPECT_EQ(cores_of(t), (std::set<std::string>{"0,4", "1,5", "2,6", "3"}));
         EXPECT_EQ(t.offline.to_string(), "7");
         EXPECT_EQ(t.nodes.at(NumaNodeId(1)).cpus.to_string(), "2-3,6");
       }},
      {"siblings that do not agree still make a partition",
       [](auto& t) {
         remove_ending(t, "core_cpus");
         t.add(std::string(kCpu) + "cpu4/topology/core_cpus_list", "4-5\n");
       },
       [](const auto& t) { EXPECT_EQ(cores_of(t), kAllCores); }, "cpu4/topology"},
      {"a list without its own CPU",
       [](auto& t) {
         remove_ending(t, "core_cpus");
         t.add(std::string(kCpu) + "cpu4/topology/core_cpus_list", "0\n");
       },
       [](const auto& t) { EXPECT_EQ(cores_of(t), kAllCores); }, "cpu4/topology"},
      {"a directory that went away", [](auto& t) { remove_below(t, std::string(kCpu) + "cpu6/topology/"); },
       [](const auto& t) {
         EXPECT_EQ(t.usable.to_string(), "0-5,7");
         EXPECT_EQ(t.online.to_string(), "0-7");
         EXPECT_EQ(t.siblings(CpuId(2)).to_string(), "2");
       },
       "cpu6/topology"},
      {"sockets unknown", [](auto& t) { set_ending(t, "/physical_package_id", "-1\n"); },
       [](const auto& t) {
         EXPECT_TRUE(t.sockets.empty());
         EXPECT_EQ(t.usable.size(), 8U);
         EXPECT_FALSE(t.cpus.at(CpuId(0)).socket.has_value());
       },
       "cpu0/topology/"},
      {"a large package number", [](auto& t) { set_ending(t, "/physical_package_id", "268435456\n"); },
       [](const auto& t) { EXPECT_EQ(t.sockets.at(SocketId(268435456)).size(), 8U); }, "core_id"},
      {"clusters", [](auto& t) { set_ending(t, "/cluster_id", "16332\n"); },
       [](const auto& t) {
         EXPECT_EQ(t.clusters.size(), 2U) << "one per socket: ids are unique there only";
       }},
  });
}

TEST(Reader, FindsCaches) {
  run({
      {"no cache directory", [](auto& t) { remove_below(t, std::string(kCpu) + "cpu0/cache/"); },
       [](const auto& t) {
         EXPECT_FALSE(t.cpus.at(CpuId(0)).l3.has_value());
         EXPECT_EQ(t.usable.size(), 8U);
       },
       "cpu1/cache"},
      {"level 3 elsewhere than at index 3",
       [](auto& t) {
         for_each_ending(t, "/index3/level", [&](const std::string& p) { t.add(p, "2\n"); });
         for_each_ending(t, "/index2/level", [&](const std::string& p) { t.add(p, "3\n"); });
       },
       [](const auto& t) { EXPECT_EQ(t.l3_groups.size(), 4U) << "what was the L2"; }},
      {"a split level 3 is no group", [](auto& t) { set_ending(t, "/index3/type", "Data\n"); },
       [](const auto& t) { EXPECT_TRUE(t.l3_groups.empty()); }},
      {"no type", [](auto& t) { remove_ending(t, "/index3/type"); },
       [](const auto& t) { EXPECT_EQ(t.l3_groups.size(), 2U); }},
      {"one group without an id: none is labelled by id",
       [](auto& t) { t.remove(std::string(kCpu) + "cpu2/cache/index3/id"); },
       [](const auto& t) {
         EXPECT_EQ(l3_of(t), (std::set<std::string>{"0=0-1,4-5", "2=2-3,6-7"}));
       }},
      {"no size, and one in other units",
       [](auto& t) {
         t.add(std::string(kCpu) + "cpu0/cache/index3/size", "\n");
         t.add(std::string(kCpu) + "cpu2/cache/index3/size", "32M\n");
       },
       [](const auto& t) {
         EXPECT_FALSE(t.l3_groups[0].size_bytes.has_value());
         EXPECT_EQ(t.l3_groups[1].size_bytes, std::uint64_t{32} << 20U);
       }},
      {"groups that overlap: what the CPU's own file says",
       [](auto& t) {
         remove_ending(t, "shared_cpu_map");
         t.add(std::string(kCpu) + "cpu4/cache/index3/shared_cpu_list", "4\n");
       },
       [](const auto& t) { EXPECT_EQ(t.l3_groups.size(), 3U); }, "cache"},
  });
}

TEST(Reader, FindsNodes) {
  run({
      {"no NUMA support", [](auto& t) { remove_below(t, kNode); },
       [](const auto& t) {
         EXPECT_FALSE(t.has_numa);
         EXPECT_TRUE(t.nodes.empty());
         EXPECT_FALSE(t.cpus.at(CpuId(0)).node.has_value());
       }},
      {"possible CPUs in the list",
       [](auto& t) {
         remove_ending(t, "cpumap"), t.add(std::string(kNode) + "node1/cpulist", "2-3,6-175\n");
       },
       [](const auto& t) { EXPECT_EQ(t.nodes.at(NumaNodeId(1)).cpus.to_string(), "2-3,6-7"); }},
      {"a CPU in two nodes",
       [](auto& t) { remove_ending(t, "cpumap"), t.add(std::string(kNode) + "node1/cpulist", "1-3,6-7\n"); },
       [](const auto& t) { EXPECT_EQ(t.cpus.at(CpuId(1)).node, NumaNodeId(0)); }, "node1/cpulist"},
      {"a CPU in no node",
       [](auto& t) { remove_ending(t, "cpumap"), t.add(std::string(kNode) + "node1/cpulist", "3,6-7\n"); },
       [](const auto& t) {
         EXPECT_FALSE(t.cpus.at(CpuId(2)).node.has_value());
         EXPECT_EQ(t.cpus.at(CpuId(2)).socket, SocketId(1));
       }},
      {"links where lists are missing",
       [](auto& t) {
         remove_ending(t, "cpumap"), remove_ending(t, "/cpulist");
         for (const char* cpu : {"0", "1", "4", "5"}) t.add(std::string(kNode) + "node0/cpu" + cpu, "");
         for (const char* cpu : {"2", "3", "6", "7"}) t.add(fmt::format("{}cpu{}/node1", kCpu, cpu), "");
       },
       [](const auto& t) {
         EXPECT_EQ(t.nodes.at(NumaNodeId(0)).cpus.to_string(), "0-1,4-5");
         EXPECT_EQ(t.nodes.at(NumaNodeId(1)).cpus.to_string(), "2-3,6-7");
       }},
      {"a node of memory alone, with a number far away",
       [](auto& t) {
         t.add(std::string(kNode) + "online", "0-1,255\n");
         t.add(std::string(kNode) + "node255/cpulist", "\n");
         t.add(std::string(kNode) + "node255/meminfo", "Node 255 MemTotal: 2 kB\n");
         t.add(std::string(kNode) + "node255/hugepages/hugepages-1048576kB/nr_hugepages", "3\n");
         for (const char* node : {"0", "1", "255"})
           t.add(fmt::format("{}node{}/distance", kNode, node), "10 20 80\n");
       },
       [](const auto& t) {
         const Node& node = t.nodes.at(NumaNodeId(255));
         EXPECT_TRUE(node.cpus.empty());
         EXPECT_EQ(node.memory_bytes, 2048U);
         EXPECT_EQ(node.hugepages.at(0).page_bytes, std::uint64_t{1} << 30U);
         EXPECT_EQ(node.hugepages.at(0).total, 3U);
         EXPECT_EQ(t.nodes.at(NumaNodeId(0)).distance.at(NumaNodeId(255)), 80);
       }},
      {"a row of the wrong length", [](auto& t) { t.add(std::string(kNode) + "node0/distance", "10\n"); },
       [](const auto& t) { EXPECT_TRUE(t.nodes.at(NumaNodeId(0)).distance.empty()); }, "node0/distance"},
      {"an online node without a directory", [](auto& t) { t.add(std::string(kNode) + "online", "0-2\n"); },
       [](const auto& t) { EXPECT_EQ(t.nodes.size(), 2U); }, "node2"},
      {"no list of nodes", [](auto& t) { t.remove(std::string(kNode) + "online"); },
       [](const auto& t) { EXPECT_EQ(t.nodes.size(), 2U); }},
      {"memory not told", [](auto& t) { t.remove(std::string(kNode) + "node0/meminfo"); },
       [](const auto& t) { EXPECT_FALSE(t.nodes.at(NumaNodeId(0)).memory_bytes.has_value()); }},
  });
}

TEST(Reader, FindsCoreTypes) {
  const auto types = [](const Topology& t, CoreType type) {
    CpuSet out;
    for (const auto& [id, cpu] : t.cpus) {
      if (cpu.type == type) out.insert(id);
    }
    return out.to_string();
  };
  run({
      {"monitoring devices",
       [](auto& t) {
         t.add("sys/devices/cpu_core/cpus", "0-1,4-5\n");
         t.add("sys/devices/cpu_atom/cpus", "2-3,6-9\n");
       },
       [&](const auto& t) {
         EXPECT_EQ(t.core_type_source, CoreTypeSource::kPmuDevices);
         EXPECT_EQ(types(t, CoreType::kPerformance), "0-1,4-5");
         EXPECT_EQ(types(t, CoreType::kEfficiency), "2-3,6-7");
       }},
      {"efficiency cores alone are named", [](auto& t) { t.add("sys/devices/cpu_atom/cpus", "2-3,6-7\n"); },
       [&](const auto& t) { EXPECT_EQ(types(t, CoreType::kPerformance), "0-1,4-5"); }},
      {"equal capacities, but for a few percent",
       [](auto& t) {
         for (int cpu = 0; cpu < 8; ++cpu)
           t.add(fmt::format("{}cpu{}/cpu_capacity", kCpu, cpu), cpu < 4 ? "1024\n" : "981\n");
       },
       [&](const auto& t) {
         EXPECT_EQ(t.core_type_source, CoreTypeSource::kNone);
         EXPECT_EQ(types(t, CoreType::kStandard), "0-7");
         EXPECT_EQ(t.cpus.at(CpuId(5)).capacity, 981);
       }},
      {"three kinds by capacity",
       [](auto& t) {
         for (int cpu = 0; cpu < 8; ++cpu) {
           t.add(fmt::format("{}cpu{}/cpu_capacity", kCpu, cpu),
                 cpu < 4 ? "280\n" : (cpu < 7 ? "855\n" : "1024\n"));
         }
       },
       [&](const auto& t) {
         EXPECT_EQ(t.core_type_source, CoreTypeSource::kCapacity);
         EXPECT_EQ(types(t, CoreType::kEfficiency), "0-3");
         EXPECT_EQ(types(t, CoreType::kMiddle), "4-6");
         EXPECT_EQ(types(t, CoreType::kPerformance), "7");
       }},
  });
}

TEST(Reader, ReportsSmt) {
  struct Smt {
    const char* control;
    bool is_enabled;
    bool warns;
  };
  for (const Smt& c : std::initializer_list<Smt>{{"on", true, false},
                                                 {"off", false, false},
                                                 {"forceoff", false, false},
                                                 {"notsupported", false, false},
                                                 {"notimplemented", false, false},
                                                 {"2", true, false},
                                                 {"maybe", true, true}}) {
    SCOPED_TRACE(c.control);
    MemorySource tree = small();
    tree.add(std::string(kCpu) + "smt/control", std::string(c.control) + "\n");
    const Result<Topology> got = read_topology(tree);
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(got->smt_enabled, c.is_enabled);
    EXPECT_EQ(warns_of(*got, "smt/control"), c.warns);
  }
}

}  // namespace
}  // namespace dracpu::topology
