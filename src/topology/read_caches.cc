// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Level 2 and 3 caches and core types: spec topology-sysfs sections 5 and 7.

#include <algorithm>
#include <string>
#include <utility>

#include "base/strings.h"
#include "topology/parts.h"

namespace dracpu::topology {
namespace {

struct CacheFile {
  CpuSet cpus;
  std::optional<std::int64_t> id;
  std::optional<std::uint64_t> size_bytes;
};

std::optional<std::uint64_t> size_of(Files& files, const std::string& dir) {
  const std::optional<std::string_view> text = files.text(dir, "size");
  if (!text || text->empty()) return std::nullopt;
  std::string_view digits = *text;
  std::uint64_t unit = 1;
  if (digits.back() == 'K') unit = 1024;
  if (digits.back() == 'M') unit = std::uint64_t{1024} * 1024;
  if (unit != 1) digits.remove_suffix(1);
  const std::optional<std::uint64_t> value = parse_number<std::uint64_t>(digits);
  if (value && *value <= UINT64_MAX / unit) return *value * unit;
  files.warn_once("cache size", dir + "/size", std::string(*text), "size not told");
  return std::nullopt;
}

bool is_level(Files& files, const std::string& dir, int level) {
  if (files.number(dir, "level") != level) return false;
  const std::optional<std::string_view> type = files.text(dir, "type");
  return !type || type->empty() || *type == "Unified";
}

// The directory of the CPU's cache of a level. Level 3 is mostly index3, and level 2 index2, so that one is
// tried before the whole list.
std::optional<std::string> cache_dir(Files& files, CpuId cpu, int level, bool& has_caches) {
  const std::string base = fmt::format("{}/cpu{}/cache", kCpuDir, cpu.get());
  std::string dir = fmt::format("{}/index{}", base, level);
  if (is_level(files, dir, level)) {
    has_caches = true;
    return dir;
  }
  const auto names = files.names(base);
  if (!names) return std::nullopt;
  has_caches = true;
  std::vector<std::uint32_t> indices;
  for (const std::string& name : *names) {
    const auto index = numbered(name, "index");
    if (index && *index != static_cast<std::uint32_t>(level)) indices.push_back(*index);
  }
  std::sort(indices.begin(), indices.end());
  for (const std::uint32_t index : indices) {
    dir = fmt::format("{}/index{}", base, index);
    if (is_level(files, dir, level)) return dir;
  }
  return std::nullopt;
}

std::optional<CacheFile> read_cache(Files& files, CpuId cpu, int level, const CpuSet& usable,
                                    bool& has_caches) {
  const std::optional<std::string> dir = cache_dir(files, cpu, level, has_caches);
  if (!dir) return std::nullopt;
  std::optional<CpuSet> cpus = files.cpus(*dir, {{.list = "shared_cpu_list", .mask = "shared_cpu_map"}});
  if (!cpus) {
    files.warn_once("cache set", *dir, "no list of the CPUs that share the cache",
                    fmt::format("no L{} group", level));
    return std::nullopt;
  }
  if (!cpus->contains(cpu)) {
    files.warn_once("cache self", *dir, fmt::format("CPU {} is missing", cpu.get()),
                    "it shares its own cache");
    cpus->insert(cpu);
  }
  *cpus &= usable;
  return CacheFile{std::move(*cpus), files.number(*dir, "id"), size_of(files, *dir)};
}

// A cache id is a label only where every group has one: both schemes on one machine would mix.
void label_groups(std::vector<CacheGroup>& groups) {
  const bool has_ids =
      std::all_of(groups.begin(), groups.end(), [](const CacheGroup& g) { return g.id.has_value(); });
  for (CacheGroup& group : groups)
    group.label = has_ids ? *group.id : std::int64_t{group.cpus.first()->get()};
}

CpuSet pmu_cpus(Files& files, std::string_view device, const CpuSet& usable) {
  const std::string dir = fmt::format("sys/devices/{}", device);
  return files.cpus(dir, {{.list = "cpus", .mask = {}}}).value_or(CpuSet()) & usable;
}

// True if the monitoring devices of hybrid parts exist.
bool types_by_pmu(Files& files, Topology& out) {
  const CpuSet performance = pmu_cpus(files, "cpu_core", out.usable);
  const CpuSet efficiency =
      pmu_cpus(files, "cpu_atom", out.usable) | pmu_cpus(files, "cpu_lowpower", out.usable);
  if (performance.empty() && efficiency.empty()) return false;
  for (auto& [id, cpu] : out.cpus) {
    // Without cpu_core all that are not efficiency cores are performance cores (driver-behaviours section 4).
    if (efficiency.contains(id)) {
      cpu.type = CoreType::kEfficiency;
    } else if (performance.contains(id) || performance.empty()) {
      cpu.type = CoreType::kPerformance;
    }
  }
  return true;
}

// Kinds by relative strength. Equal cores differ by a few percent; the weakest kind in the field is 15 %
// below the next, so a tenth tells them apart.
bool types_by_capacity(Topology& out) {
  std::vector<int> values;
  for (const auto& [id, cpu] : out.cpus) {
    if (cpu.capacity) values.push_back(*cpu.capacity);
  }
  std::sort(values.rbegin(), values.rend());
  std::vector<int> tops;  // strongest of each kind, descending
  for (const int value : values) {
    if (tops.empty() || std::int64_t{value} * 10 < std::int64_t{tops.back()} * 9) tops.push_back(value);
  }
  if (tops.size() < 2) return false;
  for (auto& [id, cpu] : out.cpus) {
    if (!cpu.capacity) continue;
    if (*cpu.capacity <= tops.back()) {
      cpu.type = CoreType::kEfficiency;
    } else {
      cpu.type = *cpu.capacity <= tops[1] ? CoreType::kMiddle : CoreType::kPerformance;
    }
  }
  return true;
}

void read_l3(Files& files, Topology& out) {
  std::map<CpuSet, std::size_t> by_set;  // what a CPU's own file names decides, so groups never overlap
  for (auto& [id, cpu] : out.cpus) {
    std::optional<CacheFile> cache = read_cache(files, id, 3, out.usable, out.has_caches);
    if (!cache) continue;
    const auto [it, is_new] = by_set.emplace(std::move(cache->cpus), out.l3_groups.size());
    if (is_new) {
      out.l3_groups.push_back({.cpus = {}, .label = 0, .id = cache->id, .size_bytes = cache->size_bytes});
    }
    CacheGroup& group = out.l3_groups[it->second];
    if (group.id != cache->id) group.id.reset();
    group.cpus.insert(id);
    cpu.l3 = it->second;
  }
  for (const auto& [named, index] : by_set) {
    if (out.l3_groups[index].cpus == named) continue;
    const CpuId first = *out.l3_groups[index].cpus.first();
    files.warn_once("cache overlap", fmt::format("{}/cpu{}/cache", kCpuDir, first.get()),
                    "CPUs that share an L3 name different sets",
                    "each CPU is in the group that its own file names");
  }
  label_groups(out.l3_groups);
}

// Level 2 is for information: the lowest CPU of a group speaks for all, which saves half of the reads and
// more.
void read_l2(Files& files, Topology& out) {
  CpuSet placed;
  for (const auto& [id, cpu] : out.cpus) {
    if (placed.contains(id)) continue;
    std::optional<CacheFile> cache = read_cache(files, id, 2, out.usable, out.has_caches);
    if (!cache) continue;
    cache->cpus -= placed;
    placed |= cache->cpus;
    out.l2_groups.push_back(
        {.cpus = std::move(cache->cpus), .label = 0, .id = cache->id, .size_bytes = cache->size_bytes});
  }
  label_groups(out.l2_groups);
}

}  // namespace

void read_caches(Files& files, Topology& out) {
  read_l3(files, out);
  read_l2(files, out);
}

std::string_view name_of(CoreType type) {
  switch (type) {
    case CoreType::kPerformance:
      return "p-core";
    case CoreType::kMiddle:
      return "m-core";
    case CoreType::kEfficiency:
      return "e-core";
    case CoreType::kStandard:
      break;
  }
  return "standard";
}

void read_core_types(Files& files, Topology& out) {
  for (auto& [id, cpu] : out.cpus) {
    const auto capacity = files.number(fmt::format("{}/cpu{}", kCpuDir, id.get()), "cpu_capacity");
    if (capacity && *capacity > 0 && *capacity <= 1 << 20) cpu.capacity = static_cast<int>(*capacity);
  }
  if (types_by_pmu(files, out)) {
    out.core_type_source = CoreTypeSource::kPmuDevices;
  } else if (types_by_capacity(out)) {
    out.core_type_source = CoreTypeSource::kCapacity;
  }
}

}  // namespace dracpu::topology
