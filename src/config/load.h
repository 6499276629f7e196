// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// From defaults, one file and the flags that were really given to the effective Config, or a refusal.
//
// Order   Built-in defaults, then the file, then flags that were given. A flag left alone overrides nothing.
// Input   `flags.config` names the file, the only one that is read. Its form is told by `apiVersion`: none or
//         "v1alpha1" is release 0.3.0's flat form (spec driver-behaviours section 3), "dracpu/v1beta1" the
//         nested one (RULINGS).
// Errors  kInvalidInput with file, line, column, key, value and what would be right; kNotFound and
//         kUnavailable when the file cannot be read. All of them end the process with status 1 before
//         anything is started.
// Result  The configuration and what a person should be told about it: nothing is logged here.
// Threads Any; no state.

#ifndef DRACPU_CONFIG_LOAD_H_
#define DRACPU_CONFIG_LOAD_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/config.h"

namespace dracpu::config {

// Set only if given on the command line.
struct Flags {
  std::optional<std::string> config;
  std::optional<std::string> kubeconfig;
  std::optional<std::string> bind_address;
  std::optional<bool> expose_pcie_roots;
  std::optional<std::string> kubelet_root_dir;
  std::optional<std::string> cpu_device_mode;
  std::optional<std::string> group_by;
  std::optional<std::string> reserved_cpus;
  std::optional<std::string> hostname_override;
  std::optional<std::string> sysfs_overlay;
  std::optional<int> verbosity;
  std::optional<std::string> vmodule;
  friend bool operator==(const Flags&, const Flags&) = default;
};

struct Env {
  std::string host_root;         // $HOST_ROOT
  std::string node_name;         // $NODE_NAME, from the downward API
  std::string control_socket{};  // $DRACPU_SOCKET; empty: the usual place
  std::string standby_ready{};   // $DRACPU_STANDBY_READY: true, false or nothing
};

// To be logged once: an event in plain words, the setting it is about, and what to do.
struct Warning {
  std::string event;
  std::string setting;
  std::string advice;
};

struct Loaded {
  Config config;
  std::vector<Warning> warnings;
};

struct FileText {
  std::string name;
  std::string text;
};

Result<Loaded> load(const Flags& flags, const Env& env);

// The file that --config names.
Result<FileText> read_config_file(const std::string& name);

// The same without reading: `file` is what load() has read, or nullptr.
Result<Loaded> resolve(const Flags& flags, const Env& env, const FileText* file);

// Every field, zero values included, as YAML of the v1beta1 form: the start-up line that users check.
std::string to_yaml(const Config& config);

// Texts of the enumerations, as in the file.
std::string_view name_of(DeviceMode mode);
std::string_view name_of(GroupBy group_by);
std::string_view name_of(Allocator allocator);
std::string_view name_of(GrowPool grow_pool);
std::string_view name_of(LogFormat format);
std::string_view name_of(MemoryMode mode);
std::string_view name_of(HugetlbEnforcement enforcement);
std::string_view name_of(MemoryLimitPolicy policy);
std::string_view name_of(Format format);

// Paths derived from the kubelet's root and a driver's name.
std::filesystem::path registrar_socket(const Config& config, std::string_view driver);
std::filesystem::path state_file(const Config& config);

}  // namespace dracpu::config

#endif  // DRACPU_CONFIG_LOAD_H_
