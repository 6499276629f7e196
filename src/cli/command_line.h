// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What was asked for on the command line.
//
// Flags are read as release 0.3.0 (Go's flag package) reads them: one or two dashes, "--name=value" and
// "--name value", the last of several counts, booleans take a value only after "=", and the first word that
// is no flag is the subcommand.
// Errors  Kind::kFailed with the text for standard error and the exit status.
// Threads Any; no state. The only file that sees CLI11 is command_line.cc.

#ifndef DRACPU_CLI_COMMAND_LINE_H_
#define DRACPU_CLI_COMMAND_LINE_H_

#include <optional>
#include <string>
#include <vector>

#include "config/load.h"

namespace dracpu::cli {

struct CommandLine {
  enum class Kind {
    kDaemon,
    kHealth,
    kIntrospectMetrics,
    kGatherInfo,
    kTopology,
    kDevices,
    kPlan,
    kState,
    kUpgrade,
    kCleanup,
    kConfig,
    kLogLevel,
    kPrint,
    kFailed
  };
  Kind kind = Kind::kDaemon;

  config::Flags flags;               // kDaemon, kConfig
  std::vector<std::string> ignored;  // kDaemon: klog flags without a meaning here

  std::string health_path;  // kHealth: "/livez" or "/readyz"
  std::string address;      // kHealth, kConfig, kLogLevel; empty: the control socket
  int timeout_seconds = 0;

  std::string output_dir;  // kGatherInfo
  bool to_stdout = false;
  bool include_memory = false;  // of introspect

  std::string sysfs_root;   // kTopology, kDevices, kPlan; empty: this machine
  std::string output;       // the form: text, json, svg, yaml
  std::string overlay;      // kTopology
  std::string config_file;  // kDevices, kPlan, kState, kUpgrade, kCleanup
  std::string claims_file;  // kPlan; "-" is standard input
  std::optional<std::string> free_cpus;
  std::string state_file;             // kPlan, kState
  std::string kubeconfig;             // kUpgrade; empty: $KUBECONFIG, or the pod's service account
  std::string values_file;            // kUpgrade
  std::string node_name;              // kUpgrade; empty: all nodes
  std::string from_name = "dra.cpu";  // kUpgrade, "identity"
  std::string to_name;
  std::string kubelet_root_dir;  // kCleanup; empty: the configuration's
  std::string cdi_dir;
  std::string driver_name;   // kCleanup; empty: everything of this driver
  bool with_claims = false;  // kCleanup
  bool apply = false;        // kUpgrade, kCleanup
  // kState: "show", "verify"; kUpgrade: "check", "identity"; kConfig: "check", "migrate", "show", "schema",
  // "reference"
  std::string action;
  bool defaults = false;         // kConfig, "show"
  std::optional<int> log_level;  // kLogLevel: to switch to

  std::string text;  // kPrint: for standard output; kFailed: for standard error
  int status = 0;    // kFailed
};

// `args` without the program's name.
CommandLine parse_command_line(const std::vector<std::string>& args);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_COMMAND_LINE_H_
