// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/gatherinfo.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "agent/state_codec.h"
#include "base/file.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "cli/command_line.h"
#include "cli/gather_memory.h"
#include "cli/process.h"
#include "config/yaml.h"
#include "device/build.h"
#include "observe/log.h"
#include "observe/metrics.h"
#include "store/state_file.h"
#include "topology/reader.h"

namespace dracpu::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kProgram = "dracpu";

// "/proc/PID/cmdline" and "environ": texts that end with a zero byte each.
std::vector<std::string> zero_ended(const std::string& text) {
  std::vector<std::string> out;
  for (const std::string_view part : split(text, '\0')) out.emplace_back(part);
  if (!out.empty() && out.back().empty()) out.pop_back();
  return out;
}

// A file as the driver sees it.
fs::path as_seen_by(const FoundDriver& driver, const fs::path& proc, const fs::path& file) {
  const fs::path process = proc / std::to_string(driver.pid);
  return file.is_absolute() ? process / "root" / file.relative_path() : process / "cwd" / file;
}

fs::path host_root() {
  const std::string root = environment().host_root;
  return root.empty() ? fs::path("/") : fs::path(root);
}

// Where the machine is as the driver sees it.
topology::ReadOptions files_of(const FoundDriver& driver, const config::Config& config, const fs::path& proc,
                               std::vector<std::string>& notes) {
  const fs::path root = config.node.host_root.empty() ? host_root() : config.node.host_root;
  fs::path overlay = config.node.sysfs_overlay;
  if (!overlay.empty()) overlay = as_seen_by(driver, proc, overlay);
  Result<topology::ReadOptions> files = agent::machine_files(root, overlay);
  if (!files.ok()) {
    notes.push_back(files.error().text);
    files = agent::machine_files(root, {});
  }
  return *std::move(files);
}

// What all claims hold, from the driver's state file.
std::optional<memory::Amounts> prepared_memory(const fs::path& path, std::vector<std::string>& notes) {
  memory::Amounts out;
  store::StateFile file(path);
  const Result<agent::State> state = agent::load_state(file);
  if (!state.ok() && state.error().code == Errc::kNotFound) return out;  // no claim was prepared yet
  if (!state.ok()) {
    notes.push_back(state.error().text);
    return std::nullopt;
  }
  for (const auto& [uid, claim] : state->memory) {
    for (const memory::Grant& grant : claim.grants) out[grant.kind][grant.node] += grant.bytes;
  }
  return out;
}

// The text of an optional setting, left out when it is the zero value.
void add_text(std::string& out, std::string_view key, std::string_view value) {
  if (!value.empty()) out += fmt::format("  {}: {}\n", key, config::yaml_quoted(value));
}
void add_bool(std::string& out, std::string_view key, bool value) {
  if (value) out += fmt::format("  {}: true\n", key);
}

std::string config_part(const config::Config& c) {
  std::string out = "driverConfig:\n";
  add_text(out, "allocator", name_of(c.cpu.allocator));
  add_text(out, "bindAddress", c.observe.bind_address);
  add_text(out, "cpuDeviceMode", name_of(c.cpu.devices));
  add_bool(out, "exposePCIeRoots", c.publish.pcie_roots);
  add_text(out, "groupBy", name_of(c.cpu.group_by));
  add_text(out, "hostnameOverride", c.node.name);
  add_text(out, "kubeletRootDir", c.runtime.kubelet_root_dir.string());
  add_bool(out, "publishNodeAllocatableResourceMapping", c.publish.node_allocatable_mapping);
  add_text(out, "reservedCPUs", c.node.reserved_cpus.to_string());
  add_text(out, "sysfsOverlay", c.node.sysfs_overlay.string());
  return out;
}

std::string cpu_part(const topology::Topology& t, const topology::Cpu& c) {
  const CpuSet& siblings = t.siblings(c.id);
  CpuSet others = siblings;
  others.erase(c.id);
  std::string out = fmt::format("    - cpuID: {}\n", c.id.get());
  const auto number = [&out](std::string_view key, std::int64_t value) {
    out += fmt::format("      {}: {}\n", key, value);
  };
  const auto words = [&out](std::string_view key, const std::string& value) {
    out += fmt::format("      {}: {}\n", key, config::yaml_quoted(value));
  };
  number("coreID", c.core_label.value_or(-1));
  number("socketID", c.socket ? c.socket->get() : -1);
  number("clusterID", c.cluster.value_or(-1));
  number("numaNodeID", c.node ? c.node->get() : -1);
  words("numaNodeCPUSet", c.node ? t.nodes.at(*c.node).cpus.to_string() : std::string());
  number("sibling", others.size() == 1 ? static_cast<std::int64_t>(others.first()->get()) : -1);
  words("siblings", siblings.to_string());
  words("coreType", std::string(device::public_core_type(t, c)));
  number("uncoreCacheID", c.l3 ? t.l3_groups[*c.l3].label : -1);
  return out;
}

Result<std::string> write_report(const std::string& output_dir, const std::string& text) {
  const bool is_temporary = output_dir.empty();
  const fs::path dir = is_temporary ? fs::temp_directory_path() : fs::path(output_dir);
  if (!is_temporary) {
    std::error_code failed;
    fs::create_directories(dir, failed);
    if (failed)
      return make_error(Errc::kUnavailable, "make folder \"{}\": {}", dir.string(), failed.message());
  }
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  const std::string name =
      fmt::format("dracpu-gatherinfo-{:04}{:02}{:02}-{:02}{:02}{:02}-{}.yaml", utc.tm_year + 1900,
                  utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ::getpid());
  const fs::path path = dir / name;
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid())
    return make_error(Errc::kUnavailable, "create \"{}\": {}", path.string(), errno_text(errno));
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd.get(), rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return make_error(Errc::kUnavailable, "write \"{}\": {}", path.string(), errno_text(errno));
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  return path.string();
}

}  // namespace

std::optional<FoundDriver> find_driver(const fs::path& proc, int self) {
  std::vector<int> pids;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(proc, failed)) {
    const std::optional<int> pid = parse_number<int>(entry.path().filename().string());
    if (pid && *pid != self) pids.push_back(*pid);
  }
  std::sort(pids.begin(), pids.end());
  for (const int pid : pids) {
    const fs::path dir = proc / std::to_string(pid);
    const Result<std::string> name = read_file(dir / "comm");
    if (!name || trim(*name) != kProgram) continue;
    const Result<std::string> line = read_file(dir / "cmdline");
    if (!line || line->empty()) continue;
    std::vector<std::string> args = zero_ended(*line);
    if (args.empty() || args[0].ends_with("dracpu-gatherinfo")) continue;
    args.erase(args.begin());
    CommandLine parsed = parse_command_line(args);
    if (parsed.kind != CommandLine::Kind::kDaemon) continue;
    FoundDriver out{pid, std::move(parsed.flags), {}};
    const Result<std::string> environment = read_file(dir / "environ");
    if (environment.ok()) {
      for (const std::string& entry : zero_ended(*environment)) {
        if (entry.starts_with("HOST_ROOT=")) out.env.host_root = entry.substr(10);
        if (entry.starts_with("NODE_NAME=")) out.env.node_name = entry.substr(10);
      }
    }
    return out;
  }
  return std::nullopt;
}

config::Config config_of(const FoundDriver& driver, const fs::path& proc, std::vector<std::string>& notes) {
  std::optional<config::FileText> file;
  config::Flags flags = driver.flags;
  if (flags.config && !flags.config->empty()) {
    Result<std::string> text = read_file(as_seen_by(driver, proc, *flags.config));
    if (text.ok()) {
      file = config::FileText{*flags.config, *std::move(text)};
    } else {
      notes.push_back(text.error().text);
      flags.config.reset();
    }
  }
  Result<config::Loaded> loaded = config::resolve(flags, driver.env, file ? &*file : nullptr);
  if (loaded.ok()) return std::move(loaded)->config;
  notes.push_back(loaded.error().text);
  return {};
}

std::string memory_of(const FoundDriver& driver, const agent::Node& node, const fs::path& proc,
                      std::vector<std::string>& notes) {
  if (!node.config.memory.enabled) return {};
  const Result<std::shared_ptr<const agent::Machine>> machine = agent::read_machine(node);
  if (!machine.ok()) {
    notes.push_back(machine.error().text);
    return {};
  }
  return memory_part(*(*machine)->memory,
                     prepared_memory(as_seen_by(driver, proc, config::state_file(node.config)), notes));
}

std::string report(const topology::Topology& t, const config::Config& config, const std::string& memory) {
  const observe::BuildInfo build = observe::build_info();
  std::string out = "---\ntoolVersion:\n";
  out += fmt::format("  version: {}\n", config::yaml_quoted(build.version));
  out += fmt::format("  vcsRevision: {}\n", config::yaml_quoted(build.revision));
  out += "layoutVersion: v1\ncpuDetails:\n  topology:\n";
  out += fmt::format(
      "    numCPUs: {}\n    numCores: {}\n    numUncoreCache: {}\n    numSockets: {}\n    numNUMANodes: {}\n"
      "    smtEnabled: {}\n",
      t.usable.size(), t.cores.size(), t.l3_groups.size(), t.sockets.size(), t.nodes.size(), t.smt_enabled);
  out += t.cpus.empty() ? "  cpus: []\n" : "  cpus:\n";
  for (const auto& [id, cpu] : t.cpus) out += cpu_part(t, cpu);
  out += memory;
  out += config_part(config);
  return out;
}

int run_gatherinfo(const std::string& output_dir, bool to_stdout) {
  const fs::path proc = host_root() / "proc";
  const std::optional<FoundDriver> driver = find_driver(proc, ::getpid());
  if (!driver) {
    observe::log_error(
        "No report written",
        make_error(Errc::kNotFound, "no process named \"{}\" in {}; run this where the driver runs", kProgram,
                   proc.string()));
    return 1;
  }
  std::vector<std::string> notes;
  agent::Node node;
  node.config = config_of(*driver, proc, notes);
  node.files = files_of(*driver, node.config, proc, notes);
  const Result<topology::Topology> machine = topology::read_topology(node.files);
  const std::string memory = machine.ok() ? memory_of(*driver, node, proc, notes) : "";
  for (const std::string& note : notes) {
    observe::log_warning("Part of what the driver has cannot be read; defaults or nothing are reported",
                         {{"pid", driver->pid}, {"err", note}});
  }
  if (!machine) {
    observe::log_error("No report written", machine.error());
    return 1;
  }
  const std::string text = report(*machine, node.config, memory);
  if (to_stdout) {
    return print_result(text, kOk);
  }
  const Result<std::string> path = write_report(output_dir, text);
  if (!path) {
    observe::log_error("No report written", path.error());
    return 1;
  }
  observe::log_info(0, "Report written", {{"path", *path}});
  return 0;
}

}  // namespace dracpu::cli
