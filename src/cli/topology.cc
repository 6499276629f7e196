// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/topology.h"

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "config/overlay.h"
#include "observe/escape.h"
#include "topology/picture.h"
#include "topology/reader.h"

namespace dracpu::cli {
namespace {

using topology::CacheGroup;
using topology::Cpu;
using topology::Topology;

constexpr int kBadInput = 2;

std::string text(std::string_view value) {
  std::string out;
  observe::append_json_string(out, value);
  return out;
}

std::string text(const CpuSet& cpus) { return text(cpus.to_string()); }

template <typename T>
std::string or_null(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "null";
}

template <typename T>
int or_minus_one(const std::optional<T>& id) {
  return id ? static_cast<int>(id->get()) : -1;
}

// `[` … `]` with one element a line.
class Lines {
 public:
  Lines(std::string& out, std::string_view key) : out_(out) { out_ += fmt::format(",\n  \"{}\": [", key); }
  void add(const std::string& element) {
    out_ += is_first_ ? "\n    " : ",\n    ";
    is_first_ = false;
    out_ += element;
  }
  void end() { out_ += is_first_ ? "]" : "\n  ]"; }

 private:
  std::string& out_;
  bool is_first_ = true;
};

std::string cpu_json(const Topology& t, const Cpu& c) {
  return fmt::format(
      "{{\"cpuID\": {}, \"coreID\": {}, \"socketID\": {}, \"dieID\": {}, \"clusterID\": {}, \"numaNodeID\": "
      "{}, "
      "\"uncoreCacheID\": {}, \"coreType\": \"{}\", \"capacity\": {}, \"online\": true, \"siblings\": {}}}",
      c.id.get(), c.core_label.value_or(-1), or_minus_one(c.socket), c.die.value_or(-1),
      c.cluster.value_or(-1), or_minus_one(c.node), c.l3 ? t.l3_groups[*c.l3].label : -1,
      core_type_name(c.type), or_null(c.capacity), text(t.siblings(c.id)));
}

// What is known of a CPU without facts: its number.
std::string bare_cpu_json(CpuId cpu, bool is_online) {
  return fmt::format(
      "{{\"cpuID\": {}, \"coreID\": -1, \"socketID\": -1, \"dieID\": -1, \"clusterID\": -1, \"numaNodeID\": "
      "-1, "
      "\"uncoreCacheID\": -1, \"coreType\": null, \"capacity\": null, \"online\": {}, \"siblings\": \"\"}}",
      cpu.get(), is_online);
}

std::string node_json(const topology::Node& node) {
  std::string pools;
  for (const topology::HugepagePool& p : node.hugepages) {
    pools += fmt::format("{}{{\"pageSizeBytes\": {}, \"total\": {}, \"free\": {}}}",
                         pools.empty() ? "" : ", ", p.page_bytes, p.total, p.free);
  }
  std::string distances;
  for (const auto& [other, distance] : node.distance) {
    distances += fmt::format("{}{}", distances.empty() ? "" : ", ", distance);
  }
  return fmt::format(
      "{{\"id\": {}, \"cpus\": {}, \"memTotalBytes\": {}, \"hugepages\": [{}], \"distances\": [{}]}}",
      node.id.get(), text(node.cpus), or_null(node.memory_bytes), pools, distances);
}

std::string cache_json(int level, const CacheGroup& group) {
  return fmt::format("{{\"level\": {}, \"id\": {}, \"cpus\": {}, \"sizeBytes\": {}}}", level, group.label,
                     text(group.cpus), or_null(group.size_bytes));
}

}  // namespace

std::string_view core_type_name(topology::CoreType type) {
  switch (type) {
    case topology::CoreType::kPerformance:
      return "p-core";
    case topology::CoreType::kMiddle:
      return "m-core";
    case topology::CoreType::kEfficiency:
      return "e-core";
    case topology::CoreType::kStandard:
      break;
  }
  return "standard";
}

Result<Topology> read_machine(const MachineFiles& files) {
  topology::ReadOptions read;
  if (!files.sysfs_root.empty()) {
    read.root = files.sysfs_root;
  } else if (const char* host = std::getenv("HOST_ROOT"); host != nullptr && *host != '\0') {
    read.root = host;
  }
  if (!files.overlay.empty()) {
    Result<config::OverlayFiles> overlay = config::read_overlay(files.overlay);
    if (!overlay) return std::move(overlay).error();
    read.overlay = *std::move(overlay);
  }
  return topology::read_topology(read);
}

std::string topology_json(const Topology& t) {
  std::string out = fmt::format(
      "{{\n  \"topology\": {{\"numCPUs\": {}, \"numCores\": {}, \"numUncoreCache\": {}, \"numSockets\": {}, "
      "\"numNUMANodes\": {}, \"smtEnabled\": {}}}",
      t.usable.size(), t.cores.size(), t.l3_groups.size(), t.sockets.size(), t.nodes.size(), t.smt_enabled);
  for (const auto& [key, cpus] : {std::pair{"onlineCPUs", &t.online},
                                  {"offlineCPUs", &t.offline},
                                  {"isolatedCPUs", &t.isolated},
                                  {"nohzFullCPUs", &t.nohz_full}}) {
    out += fmt::format(",\n  \"{}\": {}", key, text(*cpus));
  }
  Lines cpus(out, "cpus");
  (t.online | t.offline).for_each([&](CpuId id) {
    const auto it = t.cpus.find(id);
    cpus.add(it == t.cpus.end() ? bare_cpu_json(id, t.online.contains(id)) : cpu_json(t, it->second));
  });
  cpus.end();
  Lines nodes(out, "numaNodes");
  for (const auto& [id, node] : t.nodes) nodes.add(node_json(node));
  nodes.end();
  Lines caches(out, "caches");
  for (const CacheGroup& group : t.l2_groups) caches.add(cache_json(2, group));
  for (const CacheGroup& group : t.l3_groups) caches.add(cache_json(3, group));
  caches.end();
  Lines roots(out, "pcieRoots");
  for (const topology::PcieRoot& root : t.pcie_roots) {
    roots.add(fmt::format("{{\"name\": {}, \"cpus\": {}, \"numaNode\": {}}}", text(root.name),
                          text(root.cpus), or_minus_one(root.node)));
  }
  roots.end();
  Lines warnings(out, "warnings");
  for (const topology::Warning& w : t.warnings) {
    warnings.add(fmt::format("{{\"file\": {}, \"found\": {}, \"assumed\": {}}}", text(w.path), text(w.found),
                             text(w.assumed)));
  }
  warnings.end();
  out += "\n}\n";
  return out;
}

int run_topology(const MachineFiles& files, std::string_view output) {
  const Result<Topology> machine = read_machine(files);
  if (!machine) {
    std::fputs(fmt::format("dracpu: {}\n", machine.error().text).c_str(), stderr);
    return kBadInput;
  }
  std::string shown;
  if (output == "json") {
    shown = topology_json(*machine);
  } else {
    for (const topology::Warning& w : machine->warnings) {
      std::fputs(fmt::format("dracpu: {}: {}; assumed: {}\n", w.path, w.found, w.assumed).c_str(), stderr);
    }
    shown = output == "svg" ? topology::svg_picture(*machine) : topology::text_picture(*machine);
  }
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace dracpu::cli
