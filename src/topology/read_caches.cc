// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Last-level caches and core types: spec topology-sysfs sections 5 and 7.

#include <algorithm>
#include <string>
#include <utility>

#include "base/strings.h"
#include "topology/parts.h"

namespace dracpu::topology {
namespace {

struct L3File {
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

bool is_l3(Files& files, const std::string& dir) {
  if (files.number(dir, "level") != 3) return false;
  const std::optional<std::string_view> type = files.text(dir, "type");
  return !type || type->empty() || *type == "Unified";
}

// The directory of the CPU's level 3. It is mostly index3, so that one is tried before the whole list.
std::optional<std::string> l3_dir(Files& files, CpuId cpu, bool& has_caches) {
  const std::string base = fmt::format("{}/cpu{}/cache", kCpuDir, cpu.get());
  std::string dir = base + "/index3";
  if (is_l3(files, dir)) {
    has_caches = true;
    return dir;
  }
  const auto names = files.names(base);
  if (!names) return std::nullopt;
  has_caches = true;
  std::vector<std::uint32_t> indices;
  for (const std::string& name : *names) {
    if (const auto index = numbered(name, "index"); index && *index != 3) indices.push_back(*index);
  }
  std::sort(indices.begin(), indices.end());
  for (const std::uint32_t index : indices) {
    dir = fmt::format("{}/index{}", base, index);
    if (is_l3(files, dir)) return dir;
  }
  return std::nullopt;
}

std::optional<L3File> read_l3(Files& files, CpuId cpu, const CpuSet& usable, bool& has_caches) {
  const std::optional<std::string> dir = l3_dir(files, cpu, has_caches);
  if (!dir) return std::nullopt;
  std::optional<CpuSet> cpus = files.cpus(*dir, {{.list = "shared_cpu_list", .mask = "shared_cpu_map"}});
  if (!cpus) {
    files.warn_once("cache set", *dir, "no list of the CPUs that share the cache", "no L3 group");
    return std::nullopt;
  }
  if (!cpus->contains(cpu)) {
    files.warn_once("cache self", *dir, fmt::format("CPU {} is missing", cpu.get()),
                    "it shares its own cache");
    cpus->insert(cpu);
  }
  *cpus &= usable;
  return L3File{std::move(*cpus), files.number(*dir, "id"), size_of(files, *dir)};
}

// A cache id is a label only where every group has one: both schemes on one machine would mix.
void label_groups(std::vector<L3Group>& groups) {
  const bool has_ids =
      std::all_of(groups.begin(), groups.end(), [](const L3Group& g) { return g.id.has_value(); });
  for (L3Group& group : groups) group.label = has_ids ? *group.id : std::int64_t{group.cpus.first()->get()};
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

}  // namespace

void read_caches(Files& files, Topology& out) {
  std::map<CpuSet, std::size_t> by_set;  // what a CPU's own file names decides, so groups never overlap
  std::vector<bool> do_ids_agree;
  for (auto& [id, cpu] : out.cpus) {
    std::optional<L3File> l3 = read_l3(files, id, out.usable, out.has_caches);
    if (!l3) continue;
    const auto [it, is_new] = by_set.emplace(std::move(l3->cpus), out.l3_groups.size());
    if (is_new) {
      out.l3_groups.push_back({.cpus = {}, .label = 0, .id = l3->id, .size_bytes = l3->size_bytes});
    }
    L3Group& group = out.l3_groups[it->second];
    if (group.id != l3->id) group.id.reset();
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
