// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Every machine of the collection is read and compared with its expected facts, fact by fact.

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <iostream>
#include <set>

#include "data/corpus.h"
#include "topology/reader.h"

namespace dracpu::topology {
namespace {

namespace json = boost::json;

json::array sorted_texts(const std::set<std::string>& texts) {
  json::array out;
  for (const std::string& text : texts) out.emplace_back(text);
  return out;
}

// Arrays of CPU sets have no order that is promised.
json::value unordered(const json::value& list) {
  if (!list.is_array()) return list;
  std::set<std::string> out;
  for (const json::value& item : list.as_array())
    out.emplace(item.is_string() ? item.as_string().c_str() : json::serialize(item));
  return sorted_texts(out);
}

template <typename T>
json::value or_null(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

// What the expected file says at a path such as "numa.count"; null where it says nothing.
class Expected {
 public:
  explicit Expected(json::value root) : root_(std::move(root)) {}

  json::value at(std::string_view path) const {
    const json::value* v = &root_;
    for (;;) {
      const std::size_t dot = path.find('.');
      const json::object* object = v->if_object();
      if (object == nullptr) return nullptr;
      v = object->if_contains(path.substr(0, dot));
      if (v == nullptr) return nullptr;
      if (dot == std::string_view::npos) return *v;
      path.remove_prefix(dot + 1);
    }
  }

  bool accepts(std::string_view path, const json::value& got) const {
    const json::object& ambiguous = root_.at("ambiguous").as_object();
    const json::value* accepted = ambiguous.if_contains(path);
    if (accepted == nullptr || !accepted->is_array()) return false;
    const json::array& list = accepted->as_array();
    return std::find(list.begin(), list.end(), got) != list.end();
  }

  void check(std::string_view path, const json::value& got, json::value want) const {
    if (got == want || accepts(path, got)) return;
    ADD_FAILURE() << path << "\n  got  " << got << "\n  want " << want;
  }
  void check(std::string_view path, const json::value& got) const { check(path, got, at(path)); }
  // A set that is not told is an empty one in the model.
  void check_set(std::string_view path, const CpuSet& got) const {
    const json::value want = at(path);
    check(path, json::string(got.to_string()), want.is_null() ? json::value("") : want);
  }

 private:
  json::value root_;
};

CpuSet parsed(const json::value& text) {
  if (!text.is_string()) return {};
  return CpuSet::parse(text.as_string().c_str()).value();
}

void check_lists(const Expected& expected, const Topology& t) {
  expected.check_set("cpus.online", t.online);
  expected.check_set("cpus.usable", t.usable);
  expected.check_set("cpus.offline", t.offline);
  // The model cuts both to the online CPUs; the files may name others.
  EXPECT_EQ(t.isolated.to_string(), (parsed(expected.at("cpus.isolated")) & t.online).to_string());
  EXPECT_EQ(t.nohz_full.to_string(), (parsed(expected.at("cpus.nohzFull")) & t.online).to_string());
  const json::value control = expected.at("smt.control");
  expected.check("smt.control", json::string(t.smt_control), control.is_null() ? json::value("") : control);
  expected.check("smt.active",
                 t.smt_active ? json::value(std::int64_t{*t.smt_active}) : json::value(nullptr));
}

void check_cores(const Expected& expected, const Topology& t) {
  if (t.usable.empty()) {
    EXPECT_TRUE(expected.at("cores").is_null());
    return;
  }
  std::size_t most = 0;
  std::size_t least = SIZE_MAX;
  std::set<std::string> cores;
  CpuSet all;
  for (const Core& core : t.cores) {
    most = std::max(most, core.cpus.size());
    least = std::min(least, core.cpus.size());
    cores.insert(core.cpus.to_string());
    EXPECT_FALSE(all.intersects(core.cpus));
    all |= core.cpus;
  }
  EXPECT_EQ(all, t.usable);
  expected.check("smt.threadsPerCore", std::int64_t(most));
  expected.check("cores.count", std::int64_t(t.cores.size()));
  if (expected.at("cores.count") == json::value(std::int64_t(t.cores.size()))) {
    expected.check("smt.minThreadsPerCore", std::int64_t(least));
    expected.check("cores.list", sorted_texts(cores), unordered(expected.at("cores.list")));
  }
}

void check_groups(const Expected& expected, const Topology& t) {
  if (t.usable.empty()) return;
  EXPECT_EQ(!t.sockets.empty(), expected.at("sockets.known") == json::value(true));
  if (!t.sockets.empty()) {
    json::object sockets;
    json::array ids;
    for (const auto& [id, cpus] : t.sockets) {
      sockets.emplace(std::to_string(id.get()), cpus.to_string());
      ids.emplace_back(id.get());
    }
    expected.check("sockets.count", std::int64_t(t.sockets.size()));
    expected.check("sockets.ids", ids);
    expected.check("sockets.cpus", sockets);
  }
  const auto check_level = [&](const std::string& key, const std::vector<Group>& groups) {
    std::set<std::string> sets;
    for (const Group& group : groups) sets.insert(group.cpus.to_string());
    expected.check(key + ".list", groups.empty() ? json::value(nullptr) : json::value(sorted_texts(sets)),
                   unordered(expected.at(key + ".list")));
  };
  check_level("dies", t.dies);
  check_level("clusters", t.clusters);
}

json::value hugepages_of(const Node& node) {
  json::object out;
  for (const HugepagePool& pool : node.hugepages) {
    out.emplace(std::to_string(pool.page_bytes / 1024),
                json::object{{"nr", std::int64_t(pool.total)},
                             {"free", std::int64_t(pool.free)},
                             {"surplus", std::int64_t(pool.surplus)}});
  }
  return out;
}

void check_nodes(const Expected& expected, const Topology& t) {
  expected.check("numa.count", std::int64_t(t.nodes.size()));
  const json::value want = expected.at("numa.nodes");
  ASSERT_TRUE(want.is_array());
  CpuSet in_nodes;
  json::array cpuless, memory_only, memoryless;
  for (const auto& [id, node] : t.nodes) {
    in_nodes |= node.cpus;
    if (node.cpus.empty()) cpuless.emplace_back(id.get());
    if (node.cpus.empty() && node.memory_bytes.value_or(0) > 0) memory_only.emplace_back(id.get());
    if (node.memory_bytes == 0U) memoryless.emplace_back(id.get());
  }
  expected.check("numa.cpuless", cpuless);
  expected.check("numa.memoryOnly", memory_only);
  expected.check("numa.memoryless", memoryless);
  if (!expected.at("numa.cpusWithoutNode").is_null()) {
    expected.check_set("numa.cpusWithoutNode", t.online - in_nodes);
  }
  for (const json::value& entry : want.as_array()) {
    const std::int64_t id = entry.at("id").as_int64();
    SCOPED_TRACE("node " + std::to_string(id));
    const auto it = t.nodes.find(NumaNodeId(static_cast<std::int32_t>(id)));
    if (it == t.nodes.end()) {
      ADD_FAILURE() << "missing";
      continue;
    }
    const Node& node = it->second;
    EXPECT_EQ(node.cpus.to_string(), entry.at("cpus").as_string().c_str());
    EXPECT_EQ(node.memory_bytes ? json::value(std::int64_t(*node.memory_bytes / 1024)) : json::value(nullptr),
              entry.at("memTotalKB"));
    const json::value& pools = entry.at("hugepages");
    EXPECT_EQ(hugepages_of(node), pools.is_null() ? json::value(json::object()) : pools);
    json::array distance;
    for (const auto& [to, value] : node.distance) distance.emplace_back(value);
    const json::value& row = entry.at("distance");
    const bool is_usable = row.is_array() && row.as_array().size() == t.nodes.size();
    EXPECT_EQ(json::value(distance), is_usable ? row : json::value(json::array()));
  }
}

void check_caches(const Expected& expected, const Topology& t) {
  expected.check("l3.cacheDirs", t.has_caches);
  expected.check("l3.count", std::int64_t(t.l3_groups.size()));
  std::set<std::string> got, want;
  CpuSet with;
  for (const CacheGroup& group : t.l3_groups) {
    with |= group.cpus;
    std::optional<std::int64_t> kb;
    if (group.size_bytes) kb = std::int64_t(*group.size_bytes / 1024);
    got.insert(json::serialize(json::array{group.cpus.to_string(), or_null(group.id), or_null(kb)}));
  }
  const json::value groups = expected.at("l3.groups");
  for (const json::value& g : groups.as_array()) {
    want.insert(json::serialize(json::array{g.at("cpus"), g.at("id"), g.at("sizeKB")}));
  }
  EXPECT_EQ(got, want);
  if (!expected.at("l3.cpusWithoutL3").is_null()) expected.check_set("l3.cpusWithoutL3", t.usable - with);
}

void check_core_types(const Expected& expected, const Topology& t) {
  const json::value want = expected.at("coreTypes");
  std::map<CoreType, CpuSet> by_type;
  for (const auto& [id, cpu] : t.cpus) by_type[cpu.type].insert(id);
  if (want.is_null()) {
    EXPECT_EQ(t.core_type_source, CoreTypeSource::kNone);
    EXPECT_EQ(by_type[CoreType::kStandard], t.usable);
    return;
  }
  if (want.as_object().contains("byCapacity")) {
    EXPECT_EQ(t.core_type_source, CoreTypeSource::kCapacity);
    std::map<int, CpuSet> by_capacity;
    for (const auto& [id, cpu] : t.cpus) by_capacity[cpu.capacity.value_or(0)].insert(id);
    json::object got;
    for (const auto& [capacity, cpus] : by_capacity) got.emplace(std::to_string(capacity), cpus.to_string());
    expected.check("coreTypes.byCapacity", got);
    EXPECT_TRUE(expected.accepts("coreTypes",
                                 json::object{{"performance", by_type[CoreType::kPerformance].to_string()},
                                              {"middle", by_type[CoreType::kMiddle].to_string()},
                                              {"efficiency", by_type[CoreType::kEfficiency].to_string()}}));
    return;
  }
  EXPECT_EQ(t.core_type_source, CoreTypeSource::kPmuDevices);
  expected.check_set("coreTypes.performance", by_type[CoreType::kPerformance]);
  expected.check_set("coreTypes.efficiency", by_type[CoreType::kEfficiency]);
}

void check_roots(const Expected& expected, const Topology& t) {
  std::set<std::string> got, want;
  for (const PcieRoot& root : t.pcie_roots) {
    std::optional<std::int64_t> node;
    if (root.node) node = root.node->get();
    got.insert(json::serialize(json::array{root.name, root.cpus.to_string(), or_null(node)}));
  }
  const json::value roots = expected.at("pcieRoots");
  for (const json::value& root : roots.as_array()) {
    const json::value& node = root.at("numaNode");  // null: no function says; -1: firmware gave none
    const bool has_node = node.is_int64() && node.as_int64() >= 0;
    want.insert(json::serialize(
        json::array{root.at("name"), root.at("cpus"), has_node ? node : json::value(nullptr)}));
  }
  EXPECT_EQ(got, want);
}

TEST(Machines, AreReadAsExpected) {
  const std::vector<test::Machine> machines = test::machines();
  if (machines.empty()) GTEST_SKIP() << "no machines in " << test::data_dir() << "; set DRACPU_TEST_DATA";
  std::size_t passed = 0;
  std::size_t without_facts = 0;
  for (const test::Machine& machine : machines) {
    SCOPED_TRACE(machine.name);
    const test::TempDir dir;
    ASSERT_TRUE(test::unpack(machine, dir.path()));
    const Result<Topology> first = read_topology({.root = dir.path()});
    if (!first.ok()) {
      ADD_FAILURE() << first.error().text;
      continue;
    }
    const Result<Topology> second = read_topology({.root = dir.path()});
    ASSERT_TRUE(second.ok());
    EXPECT_EQ(*first, *second) << "two reads differ";

    const std::string text = test::slurp(machine.expected);
    if (text.empty()) {
      ++without_facts;
      continue;
    }
    const auto failures_before =
        testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
    const Expected expected(json::parse(text));
    check_lists(expected, *first);
    check_cores(expected, *first);
    check_groups(expected, *first);
    check_nodes(expected, *first);
    check_caches(expected, *first);
    check_core_types(expected, *first);
    check_roots(expected, *first);
    const auto* const result = testing::UnitTest::GetInstance()->current_test_info()->result();
    if (result->total_part_count() == failures_before) ++passed;
  }
  std::cout << passed << " of " << machines.size() << " machines as expected, " << without_facts
            << " without expected facts\n";
}

}  // namespace
}  // namespace dracpu::topology
