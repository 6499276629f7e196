// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "topology/overlay.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "topology/files.h"

namespace dracpu::topology {
namespace {

// The lists of a CPU's topology directory that name other CPUs.
constexpr std::array<std::string_view, 6> kSiblingFiles = {
    "core_cpus", "thread_siblings", "package_cpus", "core_siblings", "die_cpus", "cluster_cpus"};
constexpr std::array<std::string_view, 4> kIds = {"physical_package_id", "core_id", "cluster_id", "die_id"};

// "cpu3" and "topology/core_id" of sys/devices/system/cpu/cpu3/topology/core_id.
struct CpuPath {
  std::string_view cpu;
  std::string_view rest;
};
std::optional<CpuPath> cpu_path(std::string_view path) {
  if (!path.starts_with(kCpuDir) || path.size() <= kCpuDir.size() || path[kCpuDir.size()] != '/') return {};
  path.remove_prefix(kCpuDir.size() + 1);
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos || !numbered(path.substr(0, slash), "cpu")) return {};
  return CpuPath{path.substr(0, slash), path.substr(slash + 1)};
}

// The node of "node1" or "node1/cpulist".
std::optional<std::uint32_t> node_entry(std::string_view rest) {
  return numbered(rest.substr(0, rest.find('/')), "node");
}

}  // namespace

OverlaySource::OverlaySource(Source& base, Table files) : base_(base), given_(std::move(files)) {
  for (const auto& [path, content] : given_) files_.add(path, content);
  agree_on_nodes();
  hide_siblings();
}

void OverlaySource::agree_on_nodes() {
  std::map<std::uint32_t, CpuSet> node_cpus;
  CpuSet moved;
  CpuSet nodes;  // node numbers, in the form of CPU numbers
  for (const auto& [path, content] : given_) {
    if (path.starts_with(kNodeDir) && path.size() > kNodeDir.size() + 1) {
      if (const auto node = node_entry(std::string_view(path).substr(kNodeDir.size() + 1))) {
        if (*node <= kMaxCpu) nodes.insert(CpuId(*node));
      }
    }
    const std::optional<CpuPath> in_cpu = cpu_path(path);
    if (!in_cpu) continue;
    const std::optional<std::uint32_t> node = node_entry(in_cpu->rest);
    const std::optional<std::uint32_t> cpu = numbered(in_cpu->cpu, "cpu");
    if (!node || !cpu || *cpu > kMaxCpu || *node > kMaxCpu) continue;
    cpus_with_nodes_.emplace(in_cpu->cpu);
    nodes.insert(CpuId(*node));
    moved.insert(CpuId(*cpu));
    node_cpus[*node].insert(CpuId(*cpu));
  }
  if (nodes.empty()) return;
  std::vector<Warning> ignored;
  Files merged(*this, ignored);
  const std::string online = std::string(kNodeDir) + "/online";
  if (!given_.contains(online)) {
    CpuSet all = nodes;
    if (const std::optional<CpuSet> real = merged.cpus(kNodeDir, {{.list = "online", .mask = {}}}))
      all |= *real;
    files_.add(online, all.to_string());
    nodes = std::move(all);
  }
  if (moved.empty()) return;
  nodes.for_each([&](CpuId node) {
    const std::string dir = fmt::format("{}/node{}", kNodeDir, node.get());
    CpuSet cpus = merged.cpus(dir, {{.list = "cpulist", .mask = "cpumap"}}).value_or(CpuSet());
    cpus -= moved;
    cpus |= node_cpus[node.get()];
    files_.add(dir + "/cpulist", cpus.to_string());
  });
}

void OverlaySource::hide_siblings() {
  for (const auto& [path, content] : given_) {
    const std::optional<CpuPath> in_cpu = cpu_path(path);
    if (!in_cpu || !in_cpu->rest.starts_with("topology/")) continue;
    const std::string_view file = in_cpu->rest.substr(std::string_view("topology/").size());
    if (std::find(kIds.begin(), kIds.end(), file) != kIds.end()) cpus_with_ids_.emplace(in_cpu->cpu);
  }
}

bool OverlaySource::hides(const std::string& path) const {
  const std::optional<CpuPath> in_cpu = cpu_path(path);
  if (!in_cpu) return false;
  if (node_entry(in_cpu->rest) && cpus_with_nodes_.contains(in_cpu->cpu)) return true;
  if (!in_cpu->rest.starts_with("topology/") || !cpus_with_ids_.contains(in_cpu->cpu)) return false;
  std::string_view file = in_cpu->rest.substr(std::string_view("topology/").size());
  if (file.ends_with("_list")) file.remove_suffix(std::string_view("_list").size());
  return std::find(kSiblingFiles.begin(), kSiblingFiles.end(), file) != kSiblingFiles.end();
}

Found OverlaySource::read(const std::string& path, std::string& into) {
  if (files_.read(path, into) == Found::kYes) return Found::kYes;
  return hides(path) ? Found::kAbsent : base_.read(path, into);
}

Found OverlaySource::list(const std::string& path, std::vector<std::string>& into) {
  std::vector<std::string> ours;
  const Found in_overlay = files_.list(path, ours);
  const Found below = base_.list(path, into);
  if (below != Found::kYes) into.clear();
  std::erase_if(into, [&](const std::string& name) { return hides(path + "/" + name); });
  into.insert(into.end(), ours.begin(), ours.end());
  std::sort(into.begin(), into.end());
  into.erase(std::unique(into.begin(), into.end()), into.end());
  return in_overlay == Found::kYes ? Found::kYes : below;
}

Found OverlaySource::link(const std::string& path, std::string& into) {
  if (files_.link(path, into) == Found::kYes) return Found::kYes;
  return hides(path) ? Found::kAbsent : base_.link(path, into);
}

}  // namespace dracpu::topology
