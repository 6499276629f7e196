// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/run.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/escape.h"
#include "cli/ask.h"
#include "cli/cleanup.h"
#include "cli/command_line.h"
#include "cli/gatherinfo.h"
#include "cli/introspect.h"
#include "cli/plan.h"
#include "cli/process.h"
#include "cli/state.h"
#include "cli/topology.h"
#include "cli/upgrade.h"
#include "config/load.h"
#include "observe/log.h"
#include "observe/metrics.h"

namespace dracpu::cli {
namespace {

std::vector<observe::MetricInfo> described_metrics(bool include_memory) {
  std::vector<observe::MetricInfo> out = observe::Metrics().described();
  if (!include_memory) return out;
  for (observe::MetricInfo& m : observe::MemoryMetrics().described()) out.push_back(std::move(m));
  return out;
}

int run_daemon(const CommandLine& line, DaemonMain daemon) {
  const config::Env env = environment();
  const Result<config::Loaded> loaded = config::load(line.flags, env);
  if (!loaded) {
    observe::log_error("Configuration refused", loaded.error());
    return kFailed;
  }
  const config::Config& config = loaded->config;
  observe::set_log_level(config.observe.verbosity);
  observe::set_log_format(config.observe.log_format == config::LogFormat::kJson ? observe::LogFormat::kJson
                                                                                : observe::LogFormat::kText);
  if (const Status s = observe::set_log_modules(config.observe.vmodule); !s.ok()) {
    put(stderr, fmt::format("dracpu: flag --vmodule: {}\n", s.error().text));
    return kBadInput;
  }
  const observe::BuildInfo build = observe::build_info();
  observe::log_info(0, "Driver starting", {{"version", build.version}, {"revision", build.revision}});
  for (const config::Warning& w : loaded->warnings) {
    observe::log_warning(w.event, {{"setting", w.setting}, {"advice", w.advice}});
  }
  for (const std::string& name : line.ignored) {
    observe::log_info(6, "Flag has no effect in this driver", {{"flag", "--" + name}});
  }
  observe::log_info(0, "Resolved configuration",
                    {{"file", config.file}, {"format", name_of(config.format)}, {"config", to_yaml(config)}});
  return daemon(config);
}

}  // namespace

int run(int argc, char** argv, DaemonMain daemon) {
  std::vector<std::string> args(argv + std::min(argc, 1), argv + argc);
  // The program name of earlier releases for one subcommand.
  if (argc > 0 && std::string_view(argv[0]).ends_with("dracpu-gatherinfo"))
    args.insert(args.begin(), "gatherinfo");
  const CommandLine line = parse_command_line(args);
  switch (line.kind) {
    case CommandLine::Kind::kDaemon:
      return run_daemon(line, daemon);
    case CommandLine::Kind::kHealth:
      return run_health(line);
    case CommandLine::Kind::kIntrospectMetrics:
      put(stdout, metrics_as_json(described_metrics(line.include_memory)));
      return kOk;
    case CommandLine::Kind::kGatherInfo:
      return run_gatherinfo(line.output_dir, line.to_stdout);
    case CommandLine::Kind::kTopology:
      return run_topology({line.sysfs_root, line.overlay}, line.output);
    case CommandLine::Kind::kDevices:
      return run_devices(line);
    case CommandLine::Kind::kPlan:
      return run_plan(line);
    case CommandLine::Kind::kConfig:
      return run_config(line);
    case CommandLine::Kind::kLogLevel:
      return run_log_level(line);
    case CommandLine::Kind::kState:
      return run_state(line);
    case CommandLine::Kind::kUpgrade:
      return run_upgrade(line);
    case CommandLine::Kind::kCleanup:
      return run_cleanup(line);
    case CommandLine::Kind::kPrint:
      put(stdout, line.text);
      return kOk;
    case CommandLine::Kind::kFailed:
      put(stderr, printable(line.text));
      return line.status;
  }
  return kFailed;
}

}  // namespace dracpu::cli
