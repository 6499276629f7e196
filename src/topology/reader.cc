// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "topology/reader.h"

#include <string>
#include <utility>

#include "topology/files.h"
#include "topology/parts.h"

namespace dracpu::topology {
namespace {

// Kernels before 2009 and some captures have no list: then a CPU with a topology directory is on line, unless
// its own file says otherwise.
CpuSet cpus_with_topology(Files& files) {
  CpuSet out;
  const auto names = files.names(std::string(kCpuDir));
  if (!names) return out;
  for (const std::string& name : *names) {
    const std::optional<std::uint32_t> cpu = numbered(name, "cpu");
    if (!cpu || *cpu > kMaxCpu) continue;
    const std::string dir = std::string(kCpuDir) + "/" + name;
    const auto topology = files.names(dir + "/topology");
    if (!topology || topology->empty()) continue;
    if (files.number(dir, "online").value_or(1) != 0) out.insert(CpuId(*cpu));
  }
  return out;
}

Result<CpuSet> online_now(Files& files) {
  Result<CpuSet> online = files.list_file(kCpuDir, "online");
  if (!online.ok()) {
    if (online.error().code != Errc::kNotFound) return online;
    online = cpus_with_topology(files);
  }
  if (online->empty()) {
    return make_error(Errc::kNotFound,
                      "no CPU found: \"{}/online\" names none, or no CPU has a topology directory", kCpuDir);
  }
  return online;
}

Topology read_once(Source& source, const CpuSet& online) {
  Topology out;
  Files files(source, out.warnings);
  out.online = online;
  read_lists(files, out);
  read_nodes(files, out);
  read_cpus(files, out);
  read_caches(files, out);
  read_core_types(files, out);
  read_pcie_roots(files, out);

  // driver-behaviours section 4: the state as 0.3.0 reports it. Placement counts siblings instead.
  const bool is_known_off = out.smt_control == "off" || out.smt_control == "forceoff" ||
                            out.smt_control == "notsupported" || out.smt_control == "notimplemented";
  out.smt_enabled = out.smt_control == "on" || (!is_known_off && out.cpus.size() > out.cores.size());
  return out;
}

// Calls `read` with the files below the root, behind the overlay if there is one.
template <typename T, typename Read>
Result<T> with_files(const ReadOptions& options, Read read) {
  Result<DirectorySource> below = DirectorySource::open(options.root);
  if (!below.ok()) return std::move(below).error();
  if (options.overlay.empty()) return read(*below);
  OverlaySource overlaid(*below, options.overlay);
  return read(overlaid);
}

}  // namespace

Result<Topology> read_topology(Source& source, int rounds) {
  std::vector<Warning> ignored;  // those of the list are told again by the read itself
  for (int round = 1;; ++round) {
    Files files(source, ignored);
    const Result<CpuSet> before = online_now(files);
    if (!before.ok()) return before.error();
    Topology out = read_once(source, *before);
    const Result<CpuSet> after = online_now(files);
    if (after.ok() && *after == *before) return out;
    if (round < rounds) continue;

    const CpuSet both = after.ok() ? *before & *after : *before;
    if (both.empty())
      return make_error(Errc::kUnavailable, "the online CPUs change faster than they can be read");
    out = read_once(source, both);
    out.warnings.push_back({std::string(kCpuDir) + "/online", "changed during every read",
                            "only the CPUs that two reads name: " + both.to_string()});
    return out;
  }
}

Result<CpuSet> read_online(const ReadOptions& options) {
  return with_files<CpuSet>(options, [](Source& source) {
    std::vector<Warning> ignored;
    Files files(source, ignored);
    return online_now(files);
  });
}

Result<Topology> read_topology(const ReadOptions& options) {
  Result<Topology> out =
      with_files<Topology>(options, [&](Source& source) { return read_topology(source, options.rounds); });
  if (!out.ok()) return std::move(out).error().while_doing("reading the machine's topology");
  return out;
}

}  // namespace dracpu::topology
