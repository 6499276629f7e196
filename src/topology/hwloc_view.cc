// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "topology/hwloc_view.h"

#include <hwloc.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/corpus.h"
#include "data/tree.h"
#include "topology/files.h"

namespace dracpu::topology {
namespace {

namespace fs = std::filesystem;

CpuSet set_of(hwloc_const_cpuset_t bits) {
  CpuSet out;
  for (int i = hwloc_bitmap_first(bits); i >= 0; i = hwloc_bitmap_next(bits, i)) {
    out.insert(CpuId(static_cast<std::uint32_t>(i)));
  }
  return out;
}

void add(const hwloc_obj& object, Seen& out) {
  const CpuSet cpus = set_of(object.cpuset);
  switch (object.type) {
    case HWLOC_OBJ_PACKAGE:
      out.packages.insert(cpus);
      return;
    case HWLOC_OBJ_CORE:
      out.cores.insert(cpus);
      return;
    case HWLOC_OBJ_L2CACHE:
    case HWLOC_OBJ_L3CACHE:
      if (object.attr->cache.type != HWLOC_OBJ_CACHE_UNIFIED) return;
      (object.type == HWLOC_OBJ_L2CACHE ? out.l2 : out.l3).insert(cpus);
      return;
    case HWLOC_OBJ_NUMANODE:
      out.nodes[NumaNodeId(static_cast<std::int32_t>(object.os_index))] = {
          .cpus = cpus, .memory_bytes = object.attr->numanode.local_memory};
      return;
    default:
      return;
  }
}

// Walks the tree: a look-up by type fails where objects of one type lie in each other.
void add_all(const hwloc_obj& object, Seen& out) {
  add(object, out);
  for (const hwloc_obj* child : {object.first_child, object.memory_first_child}) {
    for (; child != nullptr; child = child->next_sibling) add_all(*child, out);
  }
}

std::optional<CpuSet> set_in(const fs::path& file, bool is_mask) {
  if (!fs::exists(file)) return std::nullopt;
  const std::string text = test::slurp(file);
  const Result<CpuSet> set = is_mask ? CpuSet::parse_mask(clean(text)) : CpuSet::parse(clean(text));
  if (!set.ok()) return std::nullopt;
  return *set;
}

void write_mask(const fs::path& file, const CpuSet& cpus) {
  const std::uint32_t width = cpus.empty() ? 1 : cpus.last()->get() + 1;
  std::ofstream(file, std::ios::binary) << test::mask_text(cpus, width) << '\n';
}

// "cpulist" -> "cpumap" and so on; empty for other names.
std::string mask_name(const fs::path& list) {
  const std::string name = list.filename();
  if (name == "cpulist") return "cpumap";
  if (name == "shared_cpu_list") return "shared_cpu_map";
  constexpr std::string_view kEnd = "_list";
  const bool is_sibling = list.parent_path().filename() == "topology" && name.ends_with(kEnd);
  return is_sibling ? name.substr(0, name.size() - kEnd.size()) : "";
}

std::vector<fs::path> node_dirs(const fs::path& root) {
  std::vector<fs::path> out;
  if (!fs::exists(root / kNodeDir)) return out;
  for (const auto& entry : fs::directory_iterator(root / kNodeDir)) {
    if (numbered(entry.path().filename().string(), "node")) out.push_back(entry.path());
  }
  return out;
}

}  // namespace

std::optional<Seen> look_with_hwloc(const fs::path& root) {
  for (const auto& [name, value] : {std::pair<const char*, const char*>{"HWLOC_FSROOT", root.c_str()},
                                    {"HWLOC_COMPONENTS", "linux,stop"},
                                    {"HWLOC_THISSYSTEM", "0"},
                                    {"HWLOC_KEEP_NVIDIA_GPU_NUMA_NODES", "1"},
                                    {"HWLOC_HIDE_ERRORS", "2"}}) {
    ::setenv(name, value, 1);
  }
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return std::nullopt;
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(made,
                                                                                    hwloc_topology_destroy);
  hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  // What is not compared must not push out what is: objects that cut across each other cannot both stay.
  hwloc_topology_set_all_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE);
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_CORE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE}) {
    hwloc_topology_set_type_filter(made, type, HWLOC_TYPE_FILTER_KEEP_ALL);
  }
  // Groups carry the CPUs of nodes.
  hwloc_topology_set_type_filter(made, HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
  if (hwloc_topology_load(made) != 0) return std::nullopt;
  Seen out;
  out.cpus = set_of(hwloc_topology_get_topology_cpuset(made));
  add_all(*hwloc_get_root_obj(made), out);
  return out;
}

bool write_masks_from_lists(const fs::path& root, const CpuSet& online) {
  std::vector<fs::path> lists;
  for (const auto& entry : fs::recursive_directory_iterator(root / "sys/devices/system")) {
    if (!mask_name(entry.path()).empty()) lists.push_back(entry.path());
  }
  bool did_write = false;
  for (const fs::path& path : lists) {
    const std::optional<CpuSet> list = set_in(path, false);
    const fs::path mask_path = path.parent_path() / mask_name(path);
    const std::optional<CpuSet> mask = mask_in(mask_path);
    // Old kernels name all possible CPUs in one form and the online ones in the other.
    if (!list || (mask && (*mask & online) == (*list & online))) continue;
    write_mask(mask_path, *list);
    did_write = true;
  }
  return did_write;
}

bool write_node_masks_from_links(const fs::path& root) {
  bool did_write = false;
  for (const fs::path& node : node_dirs(root)) {
    if (fs::exists(node / "cpumap")) continue;
    CpuSet cpus;
    for (const auto& entry : fs::directory_iterator(root / kCpuDir)) {
      const fs::path& dir = entry.path();
      const auto cpu = numbered(dir.filename().string(), "cpu");
      const auto has = [](const fs::path& link) { return fs::exists(fs::symlink_status(link)); };
      if (cpu && (has(dir / node.filename()) || has(node / dir.filename()))) cpus.insert(CpuId(*cpu));
    }
    write_mask(node / "cpumap", cpus);
    did_write = true;
  }
  return did_write;
}

bool cut_node_masks(const fs::path& root, const CpuSet& online) {
  bool did_write = false;
  for (const fs::path& node : node_dirs(root)) {
    const std::optional<CpuSet> mask = mask_in(node / "cpumap");
    if (!mask || mask->is_subset_of(online)) continue;
    write_mask(node / "cpumap", *mask & online);
    did_write = true;
  }
  return did_write;
}

std::optional<CpuSet> mask_in(const fs::path& file) { return set_in(file, true); }

}  // namespace dracpu::topology
