// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "topology/picture_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>

namespace dracpu::topology {
namespace {

using Key = std::optional<std::int64_t>;  // which socket, node or L3 group; nothing: unknown

Key key_of(const Cpu& cpu, Level level) {
  switch (level) {
    case Level::kSocket:
      return cpu.socket ? Key(cpu.socket->get()) : Key();
    case Level::kNode:
      return cpu.node ? Key(cpu.node->get()) : Key();
    case Level::kL3:
      return cpu.l3 ? Key(static_cast<std::int64_t>(*cpu.l3)) : Key();
    case Level::kMachine:
      break;
  }
  return {};
}

using Groups = std::map<Key, CpuSet>;

Groups groups_of(const Topology& t, Level level, const CpuSet& within) {
  Groups out;
  within.for_each([&](CpuId id) { out[key_of(t.cpus.at(id), level)].insert(id); });
  return out;
}

bool is_known(const Groups& groups) {
  return std::any_of(groups.begin(), groups.end(), [](const auto& g) { return g.first; });
}

// "1 core", "2 cores".
std::string count(std::size_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

void add_fact(std::string& facts, std::string_view fact) {
  if (!facts.empty() && !fact.empty()) facts += ", ";
  facts += fact;
}

std::string memory_facts(const Node& node) {
  std::string out = "memory unknown";
  if (node.memory_bytes) out = *node.memory_bytes == 0 ? "no memory" : bytes_text(*node.memory_bytes);
  std::string pools;
  for (const HugepagePool& pool : node.hugepages) {
    if (pool.total == 0) continue;
    add_fact(pools, fmt::format("{} x {} ({} free", pool.total, bytes_text(pool.page_bytes), pool.free));
    if (pool.surplus != 0) pools += fmt::format(", {} surplus", pool.surplus);
    pools += ")";
  }
  return pools.empty() ? out : out + ", hugepages " + pools;
}

std::string name_of(const Topology& t, Level level, const Key& key) {
  switch (level) {
    case Level::kSocket:
      return key ? fmt::format("Socket {}", *key) : "Socket unknown";
    case Level::kNode:
      return key ? fmt::format("NUMA node {}", *key) : "No NUMA node";
    case Level::kL3:
      return key ? fmt::format("L3 {}", t.l3_groups[static_cast<std::size_t>(*key)].label) : "No L3";
    case Level::kMachine:
      break;
  }
  return "Machine";
}

class TreeBuilder {
 public:
  explicit TreeBuilder(const Topology& t) : t_(t) {}

  Box build() {
    Box machine;
    for (const auto& [id, cpu] : t_.cpus) machine.cpus.insert(id);
    std::vector<Level> levels;
    const Groups sockets = all(machine.cpus, Level::kSocket);
    const Groups nodes = all(machine.cpus, Level::kNode);
    if (is_known(sockets)) levels.push_back(Level::kSocket);
    if (is_known(nodes)) levels.push_back(Level::kNode);
    if (levels.size() == 2 && !nests(nodes, Level::kSocket) && nests(sockets, Level::kNode)) {
      std::swap(levels[0], levels[1]);
    }
    if (is_known(all(machine.cpus, Level::kL3))) levels.push_back(Level::kL3);
    fill(machine, levels);
    return machine;
  }

 private:
  const Groups& all(const CpuSet& cpus, Level level) { return whole_[level] = groups_of(t_, level, cpus); }

  // Each group lies in one group of the other level.
  bool nests(const Groups& inner, Level outer) const {
    return std::all_of(inner.begin(), inner.end(),
                       [&](const auto& g) { return groups_of(t_, outer, g.second).size() == 1; });
  }

  void fill(Box& box, std::span<const Level> levels) {
    if (levels.empty()) {
      fill_cores(box);
      return;
    }
    Groups groups = groups_of(t_, levels[0], box.cpus);
    for (auto& [key, cpus] : groups) box.boxes.push_back(make_box(levels[0], key, std::move(cpus)));
    // What is unknown sorts first and is shown last.
    if (!groups.begin()->first) std::rotate(box.boxes.begin(), box.boxes.begin() + 1, box.boxes.end());
    for (Box& inner : box.boxes) fill(inner, levels.subspan(1));
  }

  Box make_box(Level level, const Key& key, CpuSet cpus) {
    Box box;
    box.level = level;
    box.name = name_of(t_, level, key);
    box.cpus = std::move(cpus);
    const std::size_t whole = whole_[level].at(key).size();
    const bool is_part = key && whole != box.cpus.size();
    if (is_part) box.name = fmt::format("part of {} ({} of {} CPUs)", box.name, box.cpus.size(), whole);
    if (!key) return box;
    if (level == Level::kNode) {
      const NumaNodeId id(static_cast<std::int32_t>(*key));
      if (const auto it = t_.nodes.find(id); it != t_.nodes.end()) {
        box.facts = memory_facts(it->second);
        if (is_part) box.facts += " in the whole node";
      }
      if (shown_.insert(id).second) box.node = id;
    } else if (level == Level::kL3) {
      const CacheGroup& group = t_.l3_groups[static_cast<std::size_t>(*key)];
      if (group.size_bytes) box.facts = bytes_text(*group.size_bytes);
    }
    return box;
  }

  void fill_cores(Box& box) const {
    CpuSet rest = box.cpus;
    while (const std::optional<CpuId> first = rest.first()) {
      CpuSet core = t_.siblings(*first) & rest;
      core.insert(*first);
      rest -= core;
      box.cores.push_back(std::move(core));
    }
  }

  const Topology& t_;
  std::map<Level, Groups> whole_;
  std::set<NumaNodeId> shown_;
};

std::string core_counts(const Topology& t) {
  std::string out = count(t.cores.size(), "core");
  std::map<CoreType, std::size_t> types;
  std::size_t most = 0;
  std::size_t least = SIZE_MAX;
  for (const Core& core : t.cores) {
    most = std::max(most, core.cpus.size());
    least = std::min(least, core.cpus.size());
  }
  for (const auto& [id, cpu] : t.cpus) {
    if (t.siblings(id).first() == id) ++types[cpu.type];
  }
  std::string kinds;
  for (const CoreType type : {CoreType::kPerformance, CoreType::kMiddle, CoreType::kEfficiency}) {
    if (types.contains(type)) add_fact(kinds, fmt::format("{} {}", types[type], letter_of(type)));
  }
  if (!kinds.empty()) out += " (" + kinds + ")";
  if (t.cores.empty()) return out;
  if (most == least) return fmt::format("{}, {} per core", out, count(most, "thread"));
  return fmt::format("{}, {} to {} threads per core", out, least, most);
}

std::string ids_text(const std::set<NumaNodeId>& ids) {
  std::string out;
  for (const NumaNodeId id : ids) out += fmt::format("{}{}", out.empty() ? "" : ",", id.get());
  return (ids.size() == 1 ? "node " : "nodes ") + out;
}

// The nodes with CPUs that are nearest to a node without; empty if distances are not told.
std::string nearest_text(const Node& node, const std::set<NumaNodeId>& with_cpus) {
  std::set<NumaNodeId> nearest;
  int best = INT32_MAX;
  for (const auto& [other, distance] : node.distance) {
    if (!with_cpus.contains(other) || distance > best) continue;
    if (distance < best) nearest.clear();
    best = distance;
    nearest.insert(other);
  }
  if (nearest.empty()) return {};
  if (nearest.size() > 1 && nearest.size() == with_cpus.size()) {
    return fmt::format("equally far from all nodes with CPUs (distance {})", best);
  }
  return fmt::format("nearest {} (distance {})", ids_text(nearest), best);
}

}  // namespace

Box machine_tree(const Topology& t) { return TreeBuilder(t).build(); }

std::vector<std::string> summary(const Topology& t) {
  std::string head = fmt::format("{}, {}", count(t.usable.size(), "CPU"), core_counts(t));
  add_fact(head, t.sockets.empty() ? "sockets unknown" : count(t.sockets.size(), "socket"));
  if (t.nodes.empty()) {
    add_fact(head, "no NUMA nodes");
  } else {
    add_fact(head, count(t.nodes.size(), "NUMA node"));
    const auto empty =
        std::count_if(t.nodes.begin(), t.nodes.end(), [](const auto& n) { return n.second.cpus.empty(); });
    if (empty != 0) head += fmt::format(" ({} without CPUs)", empty);
  }
  if (!t.has_caches) {
    add_fact(head, "caches unknown");
  } else {
    add_fact(head, t.l3_groups.empty() ? "no L3" : count(t.l3_groups.size(), "L3 group"));
  }
  add_fact(head, t.smt_enabled ? "SMT on" : "SMT off");
  const std::string_view same = t.smt_enabled ? "on" : "off";
  if (!t.smt_control.empty() && t.smt_control != same) head += fmt::format(" ({})", plain(t.smt_control));

  std::vector<std::string> out = {std::move(head)};
  for (const auto& [what, cpus] : {std::pair{"Offline", t.offline - t.online},
                                   {"Online but not readable", t.online - t.usable},
                                   {"Isolated", t.isolated},
                                   {"Without tick (nohz_full)", t.nohz_full}}) {
    if (!cpus.empty()) out.push_back(fmt::format("{}: {}", what, cpus_text(cpus)));
  }
  return out;
}

std::vector<SideNode> side_nodes(const Topology& t) {
  std::set<NumaNodeId> with_cpus;
  for (const auto& [id, cpu] : t.cpus) {
    if (cpu.node) with_cpus.insert(*cpu.node);
  }
  std::vector<SideNode> out;
  for (const auto& [id, node] : t.nodes) {
    if (with_cpus.contains(id)) continue;
    SideNode side{id, fmt::format("NUMA node {}, {}", id.get(), memory_facts(node)), {}};
    std::set<NumaNodeId> owners;
    (node.cpus & t.usable).for_each([&](CpuId cpu) {
      if (const auto owner = t.cpus.at(cpu).node) owners.insert(*owner);
    });
    side.note = owners.empty()
                    ? nearest_text(node, with_cpus)
                    : fmt::format("lists {}, counted in {}", cpus_text(node.cpus), ids_text(owners));
    out.push_back(std::move(side));
  }
  return out;
}

std::vector<RootGroup> root_groups(const Topology& t) {
  std::vector<RootGroup> out;
  std::map<std::pair<std::optional<NumaNodeId>, CpuSet>, std::size_t> index;
  for (const PcieRoot& root : t.pcie_roots) {
    const auto [it, is_new] = index.emplace(std::pair(root.node, root.cpus), out.size());
    if (!is_new) {
      out[it->second].names += " " + plain(root.name);
      continue;
    }
    RootGroup group;
    group.names = plain(root.name);
    if (root.node && t.nodes.contains(*root.node)) {
      group.home = root.node;
    } else if (t.nodes.size() > 1) {
      const auto has_these = [&](const auto& n) { return !root.cpus.empty() && n.second.cpus == root.cpus; };
      const auto first = std::find_if(t.nodes.begin(), t.nodes.end(), has_these);
      const bool is_only = std::count_if(t.nodes.begin(), t.nodes.end(), has_these) == 1;
      if (is_only) group.home = first->first;
    }
    group.is_whole_node = group.home && t.nodes.at(*group.home).cpus == root.cpus;
    group.cpus = root.cpus == t.online && t.online.size() > 1 ? "all CPUs" : cpus_text(root.cpus);
    const bool is_shortened = group.is_whole_node && group.cpus.size() > kLongList;
    if (is_shortened) group.cpus = fmt::format("all {} CPUs of node {}", root.cpus.size(), group.home->get());
    if (!root.node) {
      group.place = "no node told, " + group.cpus;
    } else {
      group.place = is_shortened ? group.cpus : fmt::format("node {}, {}", root.node->get(), group.cpus);
    }
    out.push_back(std::move(group));
  }
  return out;
}

std::string_view letter_of(CoreType type) {
  switch (type) {
    case CoreType::kPerformance:
      return "P";
    case CoreType::kMiddle:
      return "M";
    case CoreType::kEfficiency:
      return "E";
    case CoreType::kStandard:
      break;
  }
  return "";
}

std::string cpus_text(const CpuSet& cpus) {
  if (cpus.empty()) return "no CPUs";
  return fmt::format("CPU{} {}", cpus.size() == 1 ? "" : "s", cpus.to_string());
}

std::string bytes_text(std::uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  const auto tenths = static_cast<std::uint64_t>(std::llround(value * 10));
  if (tenths % 10 == 0) return fmt::format("{} {}", tenths / 10, kUnits[unit]);
  return fmt::format("{}.{} {}", tenths / 10, tenths % 10, kUnits[unit]);
}

std::string plain(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  width = std::max<std::size_t>(width, 1);
  std::vector<std::string> lines;
  while (text.size() > width) {
    // A space that would be the first character of the next line is dropped.
    std::size_t end = text[width] == ' ' ? width : text.find_last_of(" ,", width - 1);
    if (end == std::string_view::npos) {
      end = width;
    } else if (text[end] == ',') {
      ++end;
    }
    // Between two facts rather than inside one, if that does not waste most of the line.
    const std::size_t comma = text.rfind(", ", width - 1);
    if (comma != std::string_view::npos && comma >= width / 3) end = comma + 1;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    while (line.ends_with(' ')) line.remove_suffix(1);
    while (text.starts_with(' ')) text.remove_prefix(1);
    if (!line.empty()) lines.emplace_back(line);
  }
  if (!text.empty()) lines.emplace_back(text);
  return lines;
}

}  // namespace dracpu::topology
