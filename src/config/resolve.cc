// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include <array>

#include "base/bind_address.h"
#include "base/file.h"
#include "base/strings.h"
#include "config/parts.h"
#include "memory/preflight.h"
#include "memory/reserved.h"
#include "memory/types.h"

namespace dracpu::config {
namespace {

constexpr std::size_t kFileLimit = std::size_t{1} << 20U;
constexpr std::size_t kDriverNameLimit = 63;  // the API server's for driver names

struct DeprecatedFlag {
  std::optional<std::string> Flags::*value;
  std::string_view flag;
  std::string_view field;       // v1alpha1
  std::string_view field_beta;  // v1beta1
  Stated Settings::*target;
};
constexpr std::array<DeprecatedFlag, 4> kDeprecated = {{
    {&Flags::cpu_device_mode, "--cpu-device-mode", "cpuDeviceMode", "cpu.devices", &Settings::device_mode},
    {&Flags::group_by, "--group-by", "groupBy", "cpu.groupBy", &Settings::group_by},
    {&Flags::reserved_cpus, "--reserved-cpus", "reservedCPUs", "node.reservedCPUs", &Settings::reserved_cpus},
    {&Flags::hostname_override, "--hostname-override", "hostnameOverride", "node.name", &Settings::node_name},
}};

Stated from_flag(std::string_view flag, const std::string& value) {
  return {value, std::string(flag), "command line"};
}

void warn_deprecated(Settings& s, std::string_view flag, std::string_view field,
                     std::string_view field_beta) {
  s.warnings.push_back({"Flag is deprecated", std::string(flag),
                        fmt::format("set {} in the config file instead",
                                    s.config.format == Format::kV1Beta1 ? field_beta : field)});
}

void apply_flags(const Flags& flags, Settings& s) {
  for (const DeprecatedFlag& d : kDeprecated) {
    const std::optional<std::string>& value = flags.*d.value;
    if (!value) continue;
    s.*d.target = from_flag(d.flag, *value);
    warn_deprecated(s, d.flag, d.field, d.field_beta);
  }
  if (flags.reserved_cpus) s.reserved_stated = true;
  if (flags.sysfs_overlay) {
    s.config.node.sysfs_overlay = *flags.sysfs_overlay;
    warn_deprecated(s, "--sysfs-overlay", "sysfsOverlay", "node.sysfsOverlay");
  }
  if (flags.kubeconfig) s.config.runtime.kubeconfig = *flags.kubeconfig;
  if (flags.bind_address) s.bind_address = from_flag("--bind-address", *flags.bind_address);
  if (flags.expose_pcie_roots) s.config.publish.pcie_roots = *flags.expose_pcie_roots;
  if (flags.kubelet_root_dir) {
    s.kubelet_root_dir = from_flag("--kubelet-root-dir", *flags.kubelet_root_dir);
  }
  if (flags.verbosity) s.config.observe.verbosity = *flags.verbosity;
  if (flags.vmodule) s.config.observe.vmodule = *flags.vmodule;
}

Status read_text(const FileText& file, Settings& s) {
  Result<YamlNode> root = parse_yaml(file.text);
  if (!root) return std::move(root).error().while_doing(fmt::format("config file \"{}\"", file.name));
  const YamlType type = type_of(*root);
  if (type != YamlType::kMapping && type != YamlType::kNull) {
    return make_error(Errc::kInvalidInput,
                      "config file \"{}\": {}: must be a mapping of keys to values, not {}", file.name,
                      to_string(root->at), describe(type));
  }
  s.config.file = file.name;
  const YamlNode* version = root->find("apiVersion");
  if (version == nullptr) return read_v1alpha1(*root, file.name, s);
  if (type_of(*version) == YamlType::kText && version->text == kV1Alpha1) {
    return read_v1alpha1(*root, file.name, s);
  }
  if (type_of(*version) == YamlType::kText && version->text == kV1Beta1) {
    return read_v1beta1(*root, file.name, s);
  }
  return make_error(Errc::kInvalidInput,
                    "config file \"{}\": {}: apiVersion {} is {}; use \"{}\" (flat) or \"{}\" (nested)",
                    file.name, to_string(version->at), in_quotes(version->text),
                    type_of(*version) == YamlType::kText
                        ? std::string("not known")
                        : fmt::format("no text but {}", describe(type_of(*version))),
                    kV1Alpha1, kV1Beta1);
}

template <typename E>
Status choose(const Stated& stated, std::initializer_list<E> values, E& out) {
  std::vector<std::string_view> names;
  for (const E value : values) {
    names.push_back(name_of(value));
    if (names.back() != stated.value) continue;
    out = value;
    return ok_status();
  }
  return stated.refuse("is not known; use {}", one_of(names));
}

// The table of spec section 3.2.
Status check_cpu(const Settings& s, Config& c) {
  if (Status r = choose(s.device_mode, {DeviceMode::kGrouped, DeviceMode::kIndividual}, c.cpu.devices);
      !r.ok())
    return r;
  const bool grouped = c.cpu.devices == DeviceMode::kGrouped;
  if (grouped) {
    if (Status r =
            choose(s.group_by, {GroupBy::kNumaNode, GroupBy::kSocket, GroupBy::kMachine}, c.cpu.group_by);
        !r.ok())
      return r;
  }
  if (Status r = choose(s.allocator, {Allocator::kCpuManager, Allocator::kExternal}, c.cpu.allocator);
      !r.ok())
    return r;
  if (grouped && c.cpu.group_by == GroupBy::kMachine && c.cpu.allocator != Allocator::kExternal) {
    return s.group_by.refuse(
        "needs {} \"external\", not \"{}\"; groupBy \"machine\" works with allocator \"external\" only",
        s.allocator.name, s.allocator.value);
  }
  return ok_status();
}

Status check_reserved(const Settings& s, Config& c) {
  const bool beta = c.format == Format::kV1Beta1;
  const Stated& r = s.reserved_cpus;
  if (beta && !s.reserved_stated) {
    return make_error(
        Errc::kInvalidInput,
        "config file \"{}\": node.reservedCPUs is missing; state the CPUs that no pod may use, for "
        "example \"0-1\" as in the kubelet's reservedSystemCPUs, or \"none\"",
        c.file);
  }
  if (beta && r.value == "none") return ok_status();
  if (beta && r.value.empty()) return r.refuse("is empty; write \"none\" if no CPU is reserved");
  Result<CpuSet> set = CpuSet::parse(r.value);
  if (!set) return r.refuse("is no list of CPUs such as \"0-1,8\": {}", set.error().text);
  c.node.reserved_cpus = *std::move(set);
  return ok_status();
}

// A DNS subdomain in lower case (spec kubelet-dra-wire section 1.8): it becomes part of paths and of names of
// API objects.
Status check_driver_name(const Stated& stated) {
  const std::string& name = stated.value;
  if (name.empty()) return stated.refuse("is empty; the name of release 0.3.0 is \"dra.cpu\"");
  if (name.size() > kDriverNameLimit) {
    return stated.refuse("has {} characters; at most {} are allowed", name.size(), kDriverNameLimit);
  }
  if (is_dns_subdomain(name)) return ok_status();
  return stated.refuse(
      "is no DNS name: use lower-case letters, digits, \"-\" and \".\", for example \"dra.cpu\"");
}

// As Go's filepath.Clean: no trailing slash, no dots.
std::filesystem::path clean(const std::string& text) {
  std::filesystem::path path = std::filesystem::path(text).lexically_normal();
  return path.has_filename() || path == path.root_path() ? path : path.parent_path();
}

Status check_absolute(const Stated& stated, std::filesystem::path& out) {
  if (stated.value.empty()) return stated.refuse("is empty; give an absolute path");
  if (stated.value.find('\0') != std::string::npos) return stated.refuse("holds a zero byte");
  if (stated.value.front() != '/') return stated.refuse("must be an absolute path, beginning with \"/\"");
  out = clean(stated.value);
  return ok_status();
}

Status check_registrar(const Settings& s, const Config& c, std::string_view driver) {
  const std::size_t root = c.runtime.kubelet_root_dir.string().size();
  const std::size_t socket = registrar_socket(c, driver).string().size();
  if (socket <= kMaxSocketPath) return ok_status();
  return s.kubelet_root_dir.refuse(
      "makes the registration socket's path {} bytes long, {} are allowed; a root for driver \"{}\" may "
      "have "
      "{} bytes, this one has {}",
      socket, kMaxSocketPath, driver, kMaxSocketPath - (socket - root), root);
}

Status check_paths(const Settings& s, Config& c) {
  if (Status r = check_absolute(s.kubelet_root_dir, c.runtime.kubelet_root_dir); !r.ok()) return r;
  if (Status r = check_registrar(s, c, c.publish.driver_name); !r.ok()) return r;
  if (c.memory.enabled) {
    if (Status r = check_registrar(s, c, memory::kDriverName); !r.ok()) return r;
  }
  if (Status r = check_absolute(s.nri_socket, c.runtime.nri_socket); !r.ok()) return r;
  if (c.runtime.nri_socket.string().size() > kMaxSocketPath) {
    return s.nri_socket.refuse("is {} bytes long, {} are allowed for a socket",
                               c.runtime.nri_socket.string().size(), kMaxSocketPath);
  }
  if (Status r = check_absolute(s.cdi_dir, c.runtime.cdi_dir); !r.ok()) return r;
  if (!s.state_file.value.empty()) {
    if (s.state_file.value.back() == '/') return s.state_file.refuse("names a directory; name the file");
    if (Status r = check_absolute(s.state_file, c.state.file); !r.ok()) return r;
  }
  return ok_status();
}

Status check_node_name(const Settings& s, const Env& env, Config& c) {
  Stated stated = s.node_name;
  if (!stated.value.empty() && trim(stated.value).empty())
    return stated.refuse("holds nothing but white space");
  if (stated.value.empty()) stated = {env.node_name, "NODE_NAME", "environment"};
  c.node.name = lower(trim(stated.value));
  // None is given: the caller takes the host name.
  if (c.node.name.empty() || is_dns_subdomain(c.node.name)) return ok_status();
  return stated.refuse(
      "cannot be a node's name: use up to 253 letters, digits, \"-\" and \".\", as \"kubectl get nodes\" "
      "shows it");
}

// Release 0.3.0 starts with an address that does not work and only logs it; the new form is told at once.
Status check_addresses(Settings& s, Config& c) {
  c.observe.bind_address = s.bind_address.value;
  c.observe.status_page = s.status_page.value;
  const auto at = [](const Stated& stated, Error error) {
    return std::move(error).while_doing(fmt::format("{}: {}", stated.from, stated.name));
  };
  const Result<BindAddress> main = parse_bind_address(s.bind_address.value);
  if (!main.ok()) {
    if (c.format == Format::kV1Beta1) return at(s.bind_address, main.error());
    s.warnings.push_back({"Address does not work, so there are no metrics and no health checks",
                          s.bind_address.name, main.error().text});
  }
  if (!s.status_page.value.empty()) {
    const Result<BindAddress> page = parse_bind_address(s.status_page.value);
    if (!page.ok()) return at(s.status_page, page.error());
    if (main.ok() && collide(*main, *page)) {
      return s.status_page.refuse("cannot be had beside {} \"{}\"; give the page a port of its own",
                                  s.bind_address.name, s.bind_address.value);
    }
  }
  for (const Stated* stated : {&s.bind_address, &s.status_page}) {
    if (stated->value == "unix:" + c.observe.control_socket.string())
      return stated->refuse("is the socket that \"dracpu health\" asks; choose another");
  }
  return ok_status();
}

// Settings of the form are judged whether or not memory is on, those of the machine only if it is.
Status check_memory(Settings& s, Config& c) {
  const auto at = [](const Stated& stated, Error error) {
    return std::move(error).while_doing(std::string(stated.from));
  };
  c.memory.nodes = s.memory_nodes.value;
  c.memory.reserved = s.memory_reserved.value;
  if (const auto r = memory::parse_nodes(c.memory.nodes); !r.ok()) return at(s.memory_nodes, r.error());
  if (const auto r = memory::parse_reserved(c.memory.reserved); !r.ok())
    return at(s.memory_reserved, r.error());
  if (Status r = memory::check_rescan_seconds(c.memory.rescan_seconds); !r.ok())
    return at(s.memory_rescan, std::move(r).error());
  if (!c.memory.enabled) {
    if (c.memory != Config::Memory{}) {
      s.warnings.push_back({"Memory is off, so its settings have no effect", "memory",
                            "set memory.enabled to true, or take the section out"});
    }
    return ok_status();
  }
  if (Status r = memory::check_mode(c.memory.mode, c.cpu.devices, c.cpu.group_by); !r.ok())
    return at(s.memory_mode, std::move(r).error());
  if (c.memory.mode == MemoryMode::kCombined) {
    s.warnings.push_back({"Combined memory is alpha and may change in any release", s.memory_mode.name,
                          "use \"separate\" where that matters"});
  }
  if (c.publish.driver_name == memory::kDriverName) {
    return s.driver_name.refuse(
        "is the name of the memory devices' driver, which memory.enabled turns on; choose another");
  }
  return ok_status();
}

// What only the deployment knows, so it comes from the environment.
Status check_deployment(const Env& env, Config& c) {
  if (env.standby_ready == "true") {
    c.observe.standby_ready = true;
  } else if (!env.standby_ready.empty() && env.standby_ready != "false") {
    return make_error(Errc::kInvalidInput,
                      "environment variable DRACPU_STANDBY_READY: {} is neither true nor false",
                      in_quotes(env.standby_ready));
  }
  if (env.control_socket.empty()) return ok_status();
  if (const Result<BindAddress> a = parse_bind_address("unix:" + env.control_socket); !a.ok()) {
    return make_error(
        Errc::kInvalidInput,
        "environment variable DRACPU_SOCKET: {} must be the absolute path of a socket, at most {} bytes long",
        in_quotes(env.control_socket), kMaxSocketPath);
  }
  c.observe.control_socket = env.control_socket;
  return ok_status();
}

// The driver replaces its state file, and keeps one aside that it cannot read.
Status check_state_file(const Settings& s, const FileText* file, const Config& c) {
  const std::filesystem::path state = state_file(c);
  const Stated& stated = s.state_file;
  if (state.parent_path() == c.runtime.cdi_dir) {
    return stated.refuse(
        "lies in {}, where the runtime reads CDI files and the lock is; choose another folder",
        in_quotes(c.runtime.cdi_dir.string()));
  }
  const std::filesystem::path plugins = c.runtime.kubelet_root_dir / "plugins";
  const std::pair<const char*, std::filesystem::path> others[] = {
      {"runtime.kubeconfig", c.runtime.kubeconfig},
      {"node.sysfsOverlay", c.node.sysfs_overlay},
      {"runtime.nriSocket", c.runtime.nri_socket},
      {"the configuration itself", file == nullptr ? "" : file->name},
      {"the socket that \"dracpu health\" asks", c.observe.control_socket},
      {"the registration socket", registrar_socket(c, c.publish.driver_name)},
      {"the registration socket", registrar_socket(c, memory::kDriverName)},
      {"the kubelet's socket", plugins / c.publish.driver_name / "dra.sock"},
      {"the kubelet's socket", plugins / memory::kDriverName / "dra.sock"},
  };
  for (const auto& [what, path] : others) {
    if (path == state) return stated.refuse("is {}, too; the driver would replace it: choose another", what);
  }
  return ok_status();
}

}  // namespace

Result<Loaded> resolve(const Flags& flags, const Env& env, const FileText* file) {
  Settings s;
  if (file != nullptr) {
    if (Status r = read_text(*file, s); !r.ok()) return std::move(r).error();
  }
  apply_flags(flags, s);
  Config& c = s.config;
  c.publish.driver_name = s.driver_name.value;
  c.node.host_root = env.host_root;
  if (Status r = check_cpu(s, c); !r.ok()) return std::move(r).error();
  if (Status r = check_driver_name(s.driver_name); !r.ok()) return std::move(r).error();
  if (Status r = check_paths(s, c); !r.ok()) return std::move(r).error();
  if (Status r = check_node_name(s, env, c); !r.ok()) return std::move(r).error();
  if (Status r = check_reserved(s, c); !r.ok()) return std::move(r).error();
  if (Status r = check_deployment(env, c); !r.ok()) return std::move(r).error();
  if (Status r = check_addresses(s, c); !r.ok()) return std::move(r).error();
  if (!c.state.file.empty()) {
    if (Status r = check_state_file(s, file, c); !r.ok()) return std::move(r).error();
  }
  if (Status r = check_memory(s, c); !r.ok()) return std::move(r).error();
  if (c.cpu.devices == DeviceMode::kIndividual) {
    s.warnings.push_back({"Device mode is deprecated", s.device_mode.name, "use \"grouped\""});
  }
  if (c.format != Format::kV1Beta1 && c.node.reserved_cpus.empty()) {
    s.warnings.push_back(
        {"No CPU is reserved, all are published", s.reserved_cpus.name,
         "name the CPUs of the kubelet's reservedSystemCPUs, so that the system keeps some"});
  }
  return Loaded{std::move(c), std::move(s.warnings)};
}

Result<FileText> read_config_file(const std::string& name) {
  Result<std::string> text = read_file(name, kFileLimit);
  if (!text) return std::move(text).error().while_doing(fmt::format("config file \"{}\"", name));
  return FileText{name, *std::move(text)};
}

Result<Loaded> load(const Flags& flags, const Env& env) {
  if (!flags.config || flags.config->empty()) return resolve(flags, env, nullptr);
  const Result<FileText> file = read_config_file(*flags.config);
  if (!file) return file.error();
  return resolve(flags, env, &*file);
}

}  // namespace dracpu::config
