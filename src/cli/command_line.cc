// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/command_line.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "base/strings.h"
#include "cli/go_flags.h"
#include "cli/parse_parts.h"
#include "cli/process.h"
#include "cli/subcommands.h"
#include "cli/usage.h"
#include "observe/metrics.h"

namespace dracpu::cli {
namespace {

// klog flags that have a meaning for Go's logger only. Accepted, so that old manifests start.
constexpr std::array<KnownFlag, 12> kIgnored = {{{"add_dir_header", FlagKind::kBool},
                                                 {"alsologtostderr", FlagKind::kBool},
                                                 {"legacy_stderr_threshold_behavior", FlagKind::kBool},
                                                 {"log_backtrace_at", FlagKind::kValue},
                                                 {"log_dir", FlagKind::kValue},
                                                 {"log_file", FlagKind::kValue},
                                                 {"log_file_max_size", FlagKind::kValue},
                                                 {"logtostderr", FlagKind::kBool},
                                                 {"one_output", FlagKind::kBool},
                                                 {"skip_headers", FlagKind::kBool},
                                                 {"skip_log_headers", FlagKind::kBool},
                                                 {"stderrthreshold", FlagKind::kValue}}};

std::string version_text() {
  const observe::BuildInfo build = observe::build_info();
  return fmt::format("dracpu {} (revision {}, GCC or Clang {})\n", build.version, build.revision,
                     build.compiler);
}

// The daemon's flags, where they go, and how they are shown.
class RootFlags {
 public:
  RootFlags()
      : app_("CPU driver for Kubernetes dynamic resource allocation (DRA), one process a node.", "dracpu") {
    app_.set_help_flag();
    app_.get_formatter()->column_width(36);
    app_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app_.footer(
        "Subcommands:\n"
        "  health live|ready                 ask the running driver, for probes\n"
        "  topology                          show this machine: text, JSON or SVG\n"
        "  devices                           show what this node would publish\n"
        "  plan --claims FILE                show which CPUs claims would get here\n"
        "  state show|verify                 read the driver's state file\n"
        "  upgrade check|identity            find what breaks on the move to this driver; rename it\n"
        "  cleanup                           remove what this node keeps after the last uninstall\n"
        "  config check|migrate|show         the configuration: a file's, in the new form, the running "
        "one's\n"
        "  log-level [LEVEL]                 show or switch the running driver's log level\n"
        "  introspect metrics                list the metrics, as JSON\n"
        "  gatherinfo                        report CPUs and configuration of this node, as YAML\n"
        "\n"
        "One or two dashes, --name=value and --name value all work; a boolean takes its value after \"=\".\n"
        "Order: defaults, then the file, then flags that are given. 0.4.0 keeps the deprecated flags.");
    constexpr const char* kUsual = "Flags";
    constexpr const char* kOld = "Deprecated flags (use the config file)";
    value("config", "FILE", "configuration file, v1alpha1 or dracpu/v1beta1", kUsual, &config::Flags::config);
    value("kubeconfig", "FILE", "how to reach the API server (default: in-cluster)", kUsual,
          &config::Flags::kubeconfig);
    value("bind-address", "ADDRESS", "metrics and health endpoint (default \":8080\")", kUsual,
          &config::Flags::bind_address);
    value("kubelet-root-dir", "DIR", "the kubelet's root directory (default \"/var/lib/kubelet\")", kUsual,
          &config::Flags::kubelet_root_dir);
    boolean("expose-pcie-roots", "publish the PCIe roots near each device (default false)", kUsual);
    boolean("version", "print the version and end", kUsual);
    value("v", "LEVEL", "log level: 0 important, 2 decisions, 4 allocation, 6 debug (default 0)", kUsual,
          nullptr);
    value("vmodule", "FILE=LEVEL,..", "log level for single source files, * and ? allowed", kUsual,
          &config::Flags::vmodule);
    value("cpu-device-mode", "MODE", "grouped or individual (default grouped)", kOld,
          &config::Flags::cpu_device_mode)
        ->check(CLI::IsMember({"grouped", "individual"}).description(""));
    value("group-by", "KEY", "numanode, socket or machine (default numanode)", kOld, &config::Flags::group_by)
        ->check(CLI::IsMember({"numanode", "socket", "machine"}).description(""));
    value("reserved-cpus", "CPUS", "CPUs that no pod may use, for example 0-1 (default none)", kOld,
          &config::Flags::reserved_cpus);
    value("hostname-override", "NAME", "this node's name (default: the host name)", kOld,
          &config::Flags::hostname_override);
    value("sysfs-overlay", "FILE", "replaces files of /sys, for tests", kOld, &config::Flags::sysfs_overlay);
    for (const KnownFlag& flag : kIgnored) known_.push_back(flag);
  }

  std::span<const KnownFlag> known() const { return known_; }
  std::string help() const {
    std::string text = app_.help();
    // CLI11 puts two empty lines between groups.
    for (std::size_t at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n", at)) {
      text.erase(at, 1);
    }
    return text;
  }

  CommandLine read(const std::vector<GivenFlag>& given) {
    CommandLine out;
    std::vector<std::string> words;
    for (const GivenFlag& flag : given) {
      if (std::any_of(kIgnored.begin(), kIgnored.end(),
                      [&](const KnownFlag& k) { return k.name == flag.name; })) {
        out.ignored.push_back(flag.name);
      } else if (is_boolean(flag.name)) {
        const std::optional<bool> on = parse_go_bool(flag.value);
        if (!on)
          return bad_line(fmt::format("flag --{}: \"{}\" is neither true nor false", flag.name, flag.value),
                          kUsage);
        if (flag.name == "version" && *on) return print(version_text());
        if (flag.name == "expose-pcie-roots") out.flags.expose_pcie_roots = *on;
      } else if (flag.value.empty()) {
        // CLI11 takes the next word after an empty "--name=".
        words.push_back("--" + flag.name);
        words.emplace_back();
      } else {
        words.push_back(fmt::format("--{}={}", flag.name, flag.value));
      }
    }
    std::reverse(words.begin(), words.end());
    try {
      app_.parse(std::move(words));
    } catch (const CLI::ParseError& e) {
      return bad_line(e.what(), kUsage);
    }
    for (const Target& target : targets_) {
      if (target.option->count() == 0) continue;
      const std::string value = target.option->as<std::string>();
      if (target.member != nullptr) out.flags.*target.member = value;
    }
    const CLI::Option* level = app_.get_option("--v");
    if (level->count() != 0) {
      const std::optional<int> number = parse_number<int>(level->as<std::string>());
      if (!number) return bad_line("flag --v: the level is not a whole number", kUsage);
      out.flags.verbosity = *number;
    }
    return out;
  }

 private:
  using Member = std::optional<std::string> config::Flags::*;
  struct Target {
    CLI::Option* option;  // owned by app_
    Member member;
  };

  CLI::Option* value(const char* name, const char* type, const char* help, const char* group, Member member) {
    known_.push_back({name, FlagKind::kValue});
    const std::string description = help;
    CLI::Option* option = app_.add_option(std::string("--") + name, description);
    option->type_name(type)->group(group)->expected(1);
    targets_.push_back({option, member});
    return option;
  }

  void boolean(const char* name, const char* help, const char* group) {
    known_.push_back({name, FlagKind::kBool});
    const std::string description = help;
    app_.add_flag(std::string("--") + name, description)->group(group);
  }

  bool is_boolean(std::string_view name) const {
    return std::any_of(known_.begin(), known_.end(),
                       [&](const KnownFlag& k) { return k.name == name && k.kind == FlagKind::kBool; });
  }

  CLI::App app_;
  std::vector<KnownFlag> known_;
  std::vector<Target> targets_;
};

CommandLine parse_health(std::vector<std::string> args) {
  constexpr std::array<KnownFlag, 2> kFlags = {
      {{"address", FlagKind::kValue}, {"timeout", FlagKind::kValue}}};
  CommandLine out;
  out.kind = CommandLine::Kind::kHealth;
  out.timeout_seconds = 3;
  const std::string question = take_word(args);
  const Result<SplitLine> line = split_flags(args, kFlags);
  if (!line) return bad_line(line.error().text, kHealthUsage);
  if (has_help(*line)) return print(kHealthUsage);
  if (!line->rest.empty() || (question != "live" && question != "ready")) {
    return bad_line("health wants one word, live or ready", kHealthUsage);
  }
  out.health_path = question == "live" ? "/livez" : "/readyz";
  for (const GivenFlag& flag : line->flags) {
    if (flag.name == "address") {
      out.address = flag.value;
      continue;
    }
    const std::optional<int> seconds = parse_number<int>(flag.value);
    if (!seconds || *seconds < 1 || *seconds > 3600) {
      return bad_line(
          fmt::format("flag --timeout: \"{}\" is no number of seconds from 1 to 3600", flag.value),
          kHealthUsage);
    }
    out.timeout_seconds = *seconds;
  }
  return out;
}

CommandLine parse_introspect(const std::vector<std::string>& args) {
  const Result<SplitLine> line = split_flags(args, {});
  if (!line) return bad_line(line.error().text, kIntrospectUsage);
  if (has_help(*line)) return print(kIntrospectUsage);
  if (line->rest.empty()) {
    return failed(kFailed,
                  fmt::format("dracpu: introspect wants a topic; there is: metrics\n{}", kIntrospectUsage));
  }
  if (line->rest.front() != "metrics") {
    return failed(kFailed, fmt::format("dracpu: introspect topic \"{}\" is not known; there is: metrics\n",
                                       line->rest.front()));
  }
  const Result<SplitLine> after = split_flags({line->rest.begin() + 1, line->rest.end()}, {});
  if (after.ok() && has_help(*after)) return print(kIntrospectUsage);
  const bool with_memory = line->rest.size() == 2 && line->rest[1] == "--include-memory";
  if (line->rest.size() > 1 && !with_memory) {
    return bad_line(
        fmt::format("introspect metrics takes --include-memory and nothing more, \"{}\" is too much",
                    line->rest[1]),
        kIntrospectUsage);
  }
  CommandLine out;
  out.include_memory = with_memory;
  out.kind = CommandLine::Kind::kIntrospectMetrics;
  return out;
}

CommandLine parse_gatherinfo(const std::vector<std::string>& args) {
  constexpr std::array<KnownFlag, 2> kFlags = {
      {{"output-dir", FlagKind::kValue}, {"stdout", FlagKind::kBool}}};
  const auto refuse = [](std::string_view error) { return bad_line(error, kGatherInfoUsage); };
  const Result<SplitLine> line = split_flags(args, kFlags);
  if (!line) return refuse(line.error().text);
  if (has_help(*line)) return print(kGatherInfoUsage);
  if (!line->rest.empty())
    return refuse(fmt::format("gatherinfo takes flags only, \"{}\" is too much", line->rest[0]));
  CommandLine out;
  out.kind = CommandLine::Kind::kGatherInfo;
  for (const GivenFlag& flag : line->flags) {
    if (flag.name == "output-dir") {
      out.output_dir = flag.value;
      continue;
    }
    const std::optional<bool> on = parse_go_bool(flag.value);
    if (!on) return refuse(fmt::format("flag --stdout: \"{}\" is neither true nor false", flag.value));
    out.to_stdout = *on;
  }
  if (out.to_stdout && !out.output_dir.empty()) return refuse("--stdout and --output-dir exclude each other");
  return out;
}

CommandLine parse_config(std::vector<std::string> args) {
  const std::string action = take_word(args);
  const std::string file = action == "check" || action == "migrate" ? take_word(args) : "";
  CommandLine out;
  if (action == "migrate") {
    RootFlags root;
    const Result<SplitLine> line = split_flags(args, root.known());
    if (!line) return bad_line(line.error().text, kConfigUsage);
    if (has_help(*line)) return print(kConfigUsage);
    if (!line->rest.empty()) {
      return bad_line(fmt::format("config migrate takes one FILE, before the flags; \"{}\" is too much",
                                  line->rest.front()),
                      kConfigUsage);
    }
    out = root.read(line->flags);
    if (out.kind != CommandLine::Kind::kDaemon) return out;
    if (!file.empty() && out.flags.config) {
      return bad_line("config migrate takes the FILE or --config, not both", kConfigUsage);
    }
    if (!file.empty()) out.flags.config = input_name(file);
  } else {
    constexpr std::array<KnownFlag, 3> kFlags = {
        {{"address", FlagKind::kValue}, {"defaults", FlagKind::kBool}, {"sysfs-overlay", FlagKind::kValue}}};
    const Result<SplitLine> line = split_flags(args, kFlags);
    if (!line) return bad_line(line.error().text, kConfigUsage);
    if (has_help(*line)) return print(kConfigUsage);
    if (action != "check" && action != "show" && action != "schema" && action != "reference")
      return bad_line("config wants one word, check, migrate, show, schema or reference", kConfigUsage);
    if (!line->rest.empty())
      return bad_line(fmt::format("\"{}\" is too much", line->rest.front()), kConfigUsage);
    if (action == "check" && file.empty()) return bad_line("config check wants a FILE", kConfigUsage);
    for (const GivenFlag& flag : line->flags) {
      const bool is_overlay = flag.name == "sysfs-overlay";
      if (action != (is_overlay ? "check" : "show"))
        return bad_line(fmt::format("config {} takes no flag --{}", action, flag.name), kConfigUsage);
      if (is_overlay) {
        if (flag.value.empty()) return bad_line("flag --sysfs-overlay: no value given", kConfigUsage);
        out.overlay = flag.value;
        continue;
      }
      if (flag.name == "address") {
        out.address = flag.value;
        continue;
      }
      const std::optional<bool> on = parse_go_bool(flag.value);
      if (!on)
        return bad_line(fmt::format("flag --defaults: \"{}\" is no boolean", flag.value), kConfigUsage);
      out.defaults = *on;
    }
    if (action == "check") out.flags.config = input_name(file);
  }
  out.kind = CommandLine::Kind::kConfig;
  out.action = action;
  return out;
}

CommandLine parse_log_level(std::vector<std::string> args) {
  const std::string level = take_word(args);
  constexpr std::array<KnownFlag, 1> kFlags = {{{"address", FlagKind::kValue}}};
  const Result<SplitLine> line = split_flags(args, kFlags);
  if (!line) return bad_line(line.error().text, kLogLevelUsage);
  if (has_help(*line)) return print(kLogLevelUsage);
  if (!line->rest.empty())
    return bad_line(fmt::format("\"{}\" is too much", line->rest.front()), kLogLevelUsage);
  CommandLine out;
  out.kind = CommandLine::Kind::kLogLevel;
  if (!level.empty()) {
    out.log_level = parse_number<int>(level);
    const bool is_octal = level.size() > 1 && level.front() == '0';  // or so some read it
    if (!out.log_level || is_octal || *out.log_level < 0 || *out.log_level > config::kMostVerbose) {
      return bad_line(
          fmt::format("level \"{}\" must be a whole number from 0 to {}", level, config::kMostVerbose),
          kLogLevelUsage);
    }
  }
  for (const GivenFlag& flag : line->flags) out.address = flag.value;
  return out;
}

CommandLine stray_flag(const SplitLine& line) {
  return failed(kFailed,
                fmt::format("dracpu: flag --{} belongs to the driver and cannot stand before \"{}\"\n",
                            line.flags.front().name, line.rest.front()));
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& args) {
  RootFlags root;
  const Result<SplitLine> line = split_flags(args, root.known());
  if (!line) return bad_line(line.error().text, kUsage);
  if (has_help(*line)) return print(root.help());
  if (line->rest.empty()) return root.read(line->flags);
  const std::string& word = line->rest.front();
  const std::vector<std::string> rest(line->rest.begin() + 1, line->rest.end());
  if (word == "config") return line->flags.empty() ? parse_config(rest) : stray_flag(*line);
  if (word == "log-level") return line->flags.empty() ? parse_log_level(rest) : stray_flag(*line);
  if (word != "health" && word != "introspect" && word != "gatherinfo" && !is_subcommand(word)) {
    return failed(kBadInput,
                  fmt::format("dracpu: subcommand \"{}\" is not known; there are: cleanup, config, devices, "
                              "gatherinfo, health, introspect, log-level, plan, state, topology, upgrade\n",
                              word));
  }
  if (!line->flags.empty()) return stray_flag(*line);
  if (word == "health") return parse_health(rest);
  if (word == "introspect") return parse_introspect(rest);
  if (word == "gatherinfo") return parse_gatherinfo(rest);
  return parse_subcommand(word, rest);
}

}  // namespace dracpu::cli
