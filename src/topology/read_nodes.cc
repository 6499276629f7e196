// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// NUMA nodes: spec topology-sysfs section 6.

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "base/strings.h"
#include "topology/parts.h"

namespace dracpu::topology {
namespace {

// Node numbers go through the same parser as CPU numbers: the text form is the same.
std::vector<NumaNodeId> online_nodes(Files& files, const std::vector<std::string>& names) {
  std::vector<NumaNodeId> out;
  const std::optional<CpuSet> listed = files.cpus(kNodeDir, {{.list = "online", .mask = {}}});
  if (listed) {
    listed->for_each([&](CpuId n) { out.emplace_back(static_cast<std::int32_t>(n.get())); });
    return out;
  }
  for (const std::string& name : names) {
    const std::optional<std::uint32_t> n = numbered(name, "node");
    if (n && *n <= kMaxCpu) out.emplace_back(static_cast<std::int32_t>(*n));
  }
  std::sort(out.begin(), out.end());
  return out;
}

// The links say the same as the lists, but can dangle: used only where both lists are missing.
CpuSet cpus_by_links(Files& files, const std::string& dir, NumaNodeId id, const CpuSet& online) {
  CpuSet out;
  if (const auto names = files.names(dir)) {
    for (const std::string& name : *names) {
      const std::optional<std::uint32_t> cpu = numbered(name, "cpu");
      if (cpu && *cpu <= kMaxCpu) out.insert(CpuId(*cpu));
    }
  }
  if (!out.empty()) return out;
  online.for_each([&](CpuId cpu) {
    const auto names = files.names(fmt::format("{}/cpu{}", kCpuDir, cpu.get()));
    if (!names) return;
    for (const std::string& name : *names) {
      if (numbered(name, "node") == static_cast<std::uint32_t>(id.get())) out.insert(cpu);
    }
  });
  return out;
}

std::optional<std::uint64_t> mem_total_bytes(Files& files, const std::string& dir) {
  const std::optional<std::string_view> text = files.text(dir, "meminfo");
  if (!text) return std::nullopt;
  for (const std::string_view line : split(*text, '\n')) {  // "Node 0 MemTotal:   1234 kB"
    constexpr std::string_view kKey = "MemTotal:";
    const std::size_t at = line.find(kKey);
    if (at == std::string_view::npos) continue;
    std::string_view value = trim(line.substr(at + kKey.size()));
    if (value.ends_with("kB")) value = trim(value.substr(0, value.size() - 2));
    const std::optional<std::uint64_t> kb = parse_number<std::uint64_t>(value);
    if (kb && *kb <= UINT64_MAX / 1024) return *kb * 1024;
    files.warn(dir + "/meminfo", std::string(line), "memory not told");
    return std::nullopt;
  }
  return std::nullopt;
}

std::vector<HugepagePool> hugepages(Files& files, const std::string& dir) {
  std::vector<HugepagePool> out;
  const std::string base = dir + "/hugepages";
  const auto names = files.names(base);
  if (!names) return out;
  for (const std::string& name : *names) {  // "hugepages-2048kB"
    if (!name.ends_with("kB")) continue;
    const std::optional<std::uint32_t> kb =
        numbered(std::string_view(name).substr(0, name.size() - 2), "hugepages-");
    if (!kb) continue;
    const std::string pool = fmt::format("{}/{}", base, name);
    const auto count = [&](std::string_view file) {
      const std::int64_t n = files.number(pool, file).value_or(0);
      return static_cast<std::uint64_t>(std::max<std::int64_t>(n, 0));
    };
    out.push_back({.page_bytes = std::uint64_t{*kb} * 1024,
                   .total = count("nr_hugepages"),
                   .free = count("free_hugepages"),
                   .surplus = count("surplus_hugepages")});
  }
  std::sort(out.begin(), out.end(),
            [](const HugepagePool& a, const HugepagePool& b) { return a.page_bytes < b.page_bytes; });
  return out;
}

// Column i belongs to the i-th online node, never to node i.
std::map<NumaNodeId, int> distances(Files& files, const std::string& dir,
                                    const std::vector<NumaNodeId>& nodes) {
  std::map<NumaNodeId, int> out;
  const std::optional<std::string_view> text = files.text(dir, "distance");
  if (!text || text->empty()) return out;
  std::vector<int> row;
  for (const std::string_view part : split(*text, ' ')) {
    if (part.empty()) continue;
    const std::optional<int> value = parse_number<int>(part);
    if (!value || *value < 0) {
      row.clear();
      break;
    }
    row.push_back(*value);
  }
  if (row.size() != nodes.size()) {
    files.warn(dir + "/distance", fmt::format("{} numbers for {} nodes", row.size(), nodes.size()),
               "distances not told");
    return out;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) out.emplace(nodes[i], row[i]);
  return out;
}

}  // namespace

void read_nodes(Files& files, Topology& out) {
  const auto names = files.names(std::string(kNodeDir));
  if (!names) return;
  const std::vector<NumaNodeId> ids = online_nodes(files, *names);
  out.has_numa = !ids.empty();
  for (const NumaNodeId id : ids) {
    const std::string name = fmt::format("node{}", id.get());
    const std::string dir = fmt::format("{}/{}", kNodeDir, name);
    if (std::find(names->begin(), names->end(), name) == names->end()) {
      files.warn(dir, "not there, though the node is online", "the node is left out");
      continue;
    }
    Node node;
    node.id = id;
    std::optional<CpuSet> cpus = files.cpus(dir, {{.list = "cpulist", .mask = "cpumap"}});
    if (!cpus) cpus = cpus_by_links(files, dir, id, out.online);
    node.cpus = std::move(*cpus);
    node.cpus &= out.online;  // old kernels print all possible CPUs of the node
    node.memory_bytes = mem_total_bytes(files, dir);
    node.hugepages = hugepages(files, dir);
    node.distance = distances(files, dir, ids);
    out.nodes.emplace(id, std::move(node));
  }
}

}  // namespace dracpu::topology
