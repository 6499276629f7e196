// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/topology.h"

#include <boost/json.hpp>
#include <optional>
#include <utility>

#include "agent/node.h"
#include "cli/process.h"
#include "topology/picture.h"
#include "topology/reader.h"

namespace dracpu::cli {
namespace {

namespace json = boost::json;

using topology::CacheGroup;
using topology::Cpu;
using topology::Topology;

template <typename T>
json::value or_null(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

template <typename T>
int or_minus_one(const std::optional<T>& id) {
  return id ? static_cast<int>(id->get()) : -1;
}

// `facts` is null for a CPU that is offline or tells nothing.
json::object cpu_json(const Topology& t, CpuId id, const Cpu* facts) {
  const Cpu nothing;
  const Cpu& c = facts == nullptr ? nothing : *facts;
  return {{"cpuID", id.get()},
          {"coreID", c.core_label.value_or(-1)},
          {"socketID", or_minus_one(c.socket)},
          {"dieID", c.die.value_or(-1)},
          {"clusterID", c.cluster.value_or(-1)},
          {"numaNodeID", or_minus_one(c.node)},
          {"uncoreCacheID", c.l3 ? t.l3_groups[*c.l3].label : -1},
          {"coreType", facts == nullptr ? json::value(nullptr) : json::value(name_of(c.type))},
          {"capacity", or_null(c.capacity)},
          {"online", t.online.contains(id)},
          {"siblings", facts == nullptr ? std::string() : t.siblings(id).to_string()}};
}

json::object node_json(const topology::Node& node) {
  json::array pools;
  for (const topology::HugepagePool& p : node.hugepages) {
    pools.push_back({{"pageSizeBytes", p.page_bytes}, {"total", p.total}, {"free", p.free}});
  }
  json::array distances;
  for (const auto& [other, distance] : node.distance) distances.push_back(distance);
  return {{"id", node.id.get()},
          {"cpus", node.cpus.to_string()},
          {"memTotalBytes", or_null(node.memory_bytes)},
          {"hugepages", std::move(pools)},
          {"distances", std::move(distances)}};
}

json::object cache_json(int level, const CacheGroup& group) {
  return {{"level", level},
          {"id", group.label},
          {"cpus", group.cpus.to_string()},
          {"sizeBytes", or_null(group.size_bytes)}};
}

// Like JSON with indent, but each element of a list on one line: 512 CPUs stay readable.
std::string one_line_each(const json::object& root) {
  std::string out;
  for (const auto& [key, value] : root) {
    out += fmt::format("{}\n  {}: ", out.empty() ? "{" : ",", json::serialize(json::string(key)));
    const json::array* list = value.if_array();
    if (list == nullptr || list->empty()) {
      out += json::serialize(value);
      continue;
    }
    for (const json::value& item : *list) {
      out += (&item == list->data() ? "[\n    " : ",\n    ") + json::serialize(item);
    }
    out += "\n  ]";
  }
  return out + "\n}\n";
}

}  // namespace

Result<Topology> read_machine(const MachineFiles& files) {
  const std::string& root = files.sysfs_root;
  const Result<topology::ReadOptions> read =
      agent::machine_files(root.empty() ? environment().host_root : root, files.overlay);
  if (!read.ok()) return read.error();
  return topology::read_topology(*read);
}

std::string topology_json(const Topology& t) {
  json::array cpus;
  (t.online | t.offline).for_each([&](CpuId id) {
    const auto it = t.cpus.find(id);
    cpus.push_back(cpu_json(t, id, it == t.cpus.end() ? nullptr : &it->second));
  });
  json::array nodes;
  for (const auto& [id, node] : t.nodes) nodes.push_back(node_json(node));
  json::array caches;
  for (const CacheGroup& group : t.l2_groups) caches.push_back(cache_json(2, group));
  for (const CacheGroup& group : t.l3_groups) caches.push_back(cache_json(3, group));
  json::array roots;
  for (const topology::PcieRoot& root : t.pcie_roots) {
    roots.push_back(
        {{"name", root.name}, {"cpus", root.cpus.to_string()}, {"numaNode", or_minus_one(root.node)}});
  }
  json::array warnings;
  for (const topology::Warning& w : t.warnings) {
    warnings.push_back({{"file", w.path}, {"found", w.found}, {"assumed", w.assumed}});
  }
  return one_line_each({{"topology",
                         {{"numCPUs", t.usable.size()},
                          {"numCores", t.cores.size()},
                          {"numUncoreCache", t.l3_groups.size()},
                          {"numSockets", t.sockets.size()},
                          {"numNUMANodes", t.nodes.size()},
                          {"smtEnabled", t.smt_enabled}}},
                        {"onlineCPUs", t.online.to_string()},
                        {"offlineCPUs", t.offline.to_string()},
                        {"isolatedCPUs", t.isolated.to_string()},
                        {"nohzFullCPUs", t.nohz_full.to_string()},
                        {"cpus", std::move(cpus)},
                        {"numaNodes", std::move(nodes)},
                        {"caches", std::move(caches)},
                        {"pcieRoots", std::move(roots)},
                        {"warnings", std::move(warnings)}});
}

int run_topology(const MachineFiles& files, std::string_view output) {
  const Result<Topology> machine = read_machine(files);
  if (!machine) {
    complain(machine.error().text);
    return kBadInput;
  }
  std::string shown;
  if (output == "json") {
    shown = topology_json(*machine);
  } else {
    for (const topology::Warning& w : machine->warnings) {
      complain(fmt::format("{}: {}; assumed: {}", w.path, w.found, w.assumed));
    }
    shown = output == "svg" ? topology::svg_picture(*machine) : topology::text_picture(*machine);
  }
  return print_result(shown, kOk);
}

}  // namespace dracpu::cli
