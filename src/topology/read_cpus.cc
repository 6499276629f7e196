// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// CPUs and the sets they form: spec topology-sysfs sections 2 to 4.

#include <array>
#include <limits>
#include <string>
#include <utility>

#include "base/strings.h"
#include "topology/parts.h"

namespace dracpu::topology {
namespace {

// What identifies a core where sibling files are missing, outermost first.
using IdTuple = std::array<std::int64_t, 6>;  // drawer, book, package, die, cluster, core

struct RawCpu {
  Cpu cpu;
  std::optional<CpuSet> siblings;  // as the files say, offline ones included
  IdTuple ids{};
};

std::optional<int> as_int(std::optional<std::int64_t> value) {
  if (!value || *value < std::numeric_limits<int>::min() || *value > std::numeric_limits<int>::max()) {
    return std::nullopt;
  }
  return static_cast<int>(*value);
}

// -1 and its 16-bit form say that there is no such level.
std::optional<int> level_id(std::optional<std::int64_t> value) {
  constexpr std::int64_t kMinusOneIn16Bits = 65535;
  if (!value || *value < 0 || *value == kMinusOneIn16Bits) return std::nullopt;
  return as_int(value);
}

// Nothing if the CPU's directory tells nothing at all: it went away between two reads.
std::optional<RawCpu> read_cpu(Files& files, CpuId id) {
  const std::string dir = fmt::format("{}/cpu{}/topology", kCpuDir, id.get());
  RawCpu out;
  out.cpu.id = id;
  out.siblings = files.cpus(dir, {{.list = "core_cpus_list", .mask = "core_cpus"},
                                  {.list = "thread_siblings_list", .mask = "thread_siblings"}});
  const std::optional<std::int64_t> package = files.number(dir, "physical_package_id");
  const std::optional<std::int64_t> die = files.number(dir, "die_id");
  const std::optional<std::int64_t> cluster = files.number(dir, "cluster_id");
  const std::optional<std::int64_t> core = files.number(dir, "core_id");
  if (!out.siblings && !package && !die && !cluster && !core) return std::nullopt;

  if (const std::optional<int> socket = as_int(package); socket && *socket >= 0) {
    out.cpu.socket = SocketId(*socket);
  } else {
    files.warn_once("package", dir + "/physical_package_id", package ? std::to_string(*package) : "not there",
                    "socket not told");
  }
  out.cpu.die = level_id(die);
  out.cpu.cluster = level_id(cluster);
  out.cpu.core_label = as_int(core);
  out.ids = {0, 0, package.value_or(-1), die.value_or(-1), cluster.value_or(-1), core.value_or(-1)};
  return out;
}

// Levels above the package exist on s390 only; ids are needed only where siblings are missing, or to compare.
void add_upper_levels(Files& files, std::vector<RawCpu>& cpus) {
  if (cpus.empty()) return;
  const std::string first = fmt::format("{}/cpu{}/topology", kCpuDir, cpus.front().cpu.id.get());
  if (!files.text(first, "book_id") && !files.text(first, "drawer_id")) return;
  for (RawCpu& raw : cpus) {
    const std::string dir = fmt::format("{}/cpu{}/topology", kCpuDir, raw.cpu.id.get());
    raw.ids[0] = files.number(dir, "drawer_id").value_or(-1);
    raw.ids[1] = files.number(dir, "book_id").value_or(-1);
  }
}

std::string topology_path(CpuId cpu, std::string_view file) {
  return fmt::format("{}/cpu{}/topology/{}", kCpuDir, cpu.get(), file);
}

// A core is the set of threads that its lowest CPU names. What other members say is only compared.
void make_cores(Files& files, std::vector<RawCpu>& raw, Topology& out) {
  std::map<CpuId, std::size_t> core_of;
  std::map<IdTuple, CpuSet> by_ids;
  for (const RawCpu& r : raw) by_ids[r.ids].insert(r.cpu.id);

  CpuSet placed;
  bool do_ids_differ = false;
  for (RawCpu& r : raw) {
    const CpuId id = r.cpu.id;
    CpuSet named;
    if (r.siblings) {
      named = *r.siblings & out.usable;
      if (!r.siblings->contains(id)) {
        files.warn_once("self", topology_path(id, "core_cpus_list"), "the CPU itself is missing",
                        "it is one of its siblings");
      }
    } else if (r.ids.back() >= 0) {
      named = by_ids[r.ids];
    }
    named.insert(id);
    if (const auto it = core_of.find(id); it != core_of.end()) {
      if (out.cores[it->second].cpus != named) {
        files.warn_once("siblings", topology_path(id, "core_cpus_list"), named.to_string(),
                        "what the lowest sibling says: " + out.cores[it->second].cpus.to_string());
      }
      r.cpu.core = it->second;
      continue;
    }
    named -= placed;
    if (r.siblings && r.ids.back() >= 0 && by_ids[r.ids] != named) do_ids_differ = true;
    r.cpu.core = out.cores.size();
    named.for_each([&](CpuId sibling) { core_of.emplace(sibling, r.cpu.core); });
    placed |= named;
    out.cores.push_back({std::move(named)});
  }
  if (do_ids_differ) {
    files.warn_once("ids", topology_path(raw.front().cpu.id, "core_id"),
                    "core numbers group CPUs differently from sibling lists", "the sibling lists");
  }
}

void make_groups(Topology& out) {
  using Key = std::pair<std::optional<SocketId>, int>;
  std::map<Key, CpuSet> dies;
  std::map<Key, CpuSet> clusters;
  for (const auto& [id, cpu] : out.cpus) {
    if (cpu.socket) out.sockets[*cpu.socket].insert(id);
    if (cpu.die) dies[{cpu.socket, *cpu.die}].insert(id);
    if (cpu.cluster) clusters[{cpu.socket, *cpu.cluster}].insert(id);
  }
  for (auto& [key, cpus] : dies) out.dies.push_back({key.first, key.second, std::move(cpus)});
  for (auto& [key, cpus] : clusters) out.clusters.push_back({key.first, key.second, std::move(cpus)});
}

// The lowest node that lists a CPU has it.
void place_in_nodes(Files& files, Topology& out) {
  for (const auto& [id, node] : out.nodes) {
    node.cpus.for_each([&, node_id = id](CpuId cpu) {
      const auto it = out.cpus.find(cpu);
      if (it == out.cpus.end()) return;
      if (!it->second.node) {
        it->second.node = node_id;
        return;
      }
      files.warn_once("nodes", fmt::format("{}/node{}/cpulist", kNodeDir, node_id.get()),
                      fmt::format("CPU {} is in node {} too", cpu.get(), it->second.node->get()),
                      "the lowest node");
    });
  }
}

}  // namespace

void read_lists(Files& files, Topology& out) {
  CpuSet present = files.cpus(kCpuDir, {{.list = "present", .mask = {}}}).value_or(CpuSet());
  if (const auto names = files.names(std::string(kCpuDir))) {
    for (const std::string& name : *names) {
      const std::optional<std::uint32_t> cpu = numbered(name, "cpu");
      if (cpu && *cpu <= kMaxCpu) present.insert(CpuId(*cpu));
    }
  }
  out.offline = present - out.online;
  out.isolated = files.cpus(kCpuDir, {{.list = "isolated", .mask = {}}}).value_or(CpuSet()) & out.online;
  out.nohz_full = files.cpus(kCpuDir, {{.list = "nohz_full", .mask = {}}}).value_or(CpuSet()) & out.online;

  const std::string smt = std::string(kCpuDir) + "/smt";
  out.smt_control = files.text(smt, "control").value_or("");
  constexpr std::array<std::string_view, 6> kKnown = {"",         "on",           "off",
                                                      "forceoff", "notsupported", "notimplemented"};
  bool is_known = parse_number<unsigned>(out.smt_control).has_value();  // threads per core, on newer kernels
  for (const std::string_view known : kKnown) is_known = is_known || out.smt_control == known;
  if (!is_known) files.warn(smt + "/control", out.smt_control, "threads are counted");
  if (const std::optional<std::int64_t> active = files.number(smt, "active")) out.smt_active = *active != 0;
}

void read_cpus(Files& files, Topology& out) {
  std::vector<RawCpu> raw;
  raw.reserve(out.online.size());
  out.online.for_each([&](CpuId id) {
    if (std::optional<RawCpu> cpu = read_cpu(files, id)) {
      out.usable.insert(id);
      raw.push_back(std::move(*cpu));
    } else {
      files.warn(fmt::format("{}/cpu{}/topology", kCpuDir, id.get()),
                 "cannot be read, though the CPU is online", "the CPU is left out");
    }
  });
  add_upper_levels(files, raw);
  make_cores(files, raw, out);
  for (RawCpu& r : raw) {
    r.cpu.isolated = out.isolated.contains(r.cpu.id);
    r.cpu.nohz_full = out.nohz_full.contains(r.cpu.id);
    out.cpus.emplace_hint(out.cpus.end(), r.cpu.id, r.cpu);
  }
  make_groups(out);
  place_in_nodes(files, out);
}

}  // namespace dracpu::topology
