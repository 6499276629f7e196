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
#include "observe/metrics.h"

namespace dracpu::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kBadInput = 2;

constexpr std::string_view kUsage =
    "Usage: dracpu [flags]\n"
    "       dracpu health live|ready | topology | devices | plan | state show|verify |\n"
    "              introspect metrics | gatherinfo\n"
    "       dracpu --help\n";

constexpr std::string_view kHealthUsage =
    "Usage: dracpu health live|ready [--address ADDRESS] [--timeout SECONDS]\n"
    "\n"
    "Asks the driver in this container, standby included, for exec probes. Ends with 0 (yes), 3 (no; the\n"
    "reasons are printed), 1 (nobody answered) or 2 (bad command line).\n"
    "\n"
    "  --address ADDRESS   whom to ask: \"unix:/path\", \":8080\", \"127.0.0.1:8080\" (default: the control\n"
    "                      socket, $DRACPU_SOCKET or /run/dracpu/control.sock)\n"
    "  --timeout SECONDS   how long to wait for the answer (default 3)\n";

constexpr std::string_view kIntrospectUsage =
    "Usage: dracpu introspect metrics\n"
    "\n"
    "Prints the metrics of this driver as a JSON array. Needs no cluster. Topics: metrics.\n";

constexpr std::string_view kGatherInfoUsage =
    "Usage: dracpu gatherinfo [--output-dir DIR | --stdout]\n"
    "\n"
    "Reports the CPUs of this node and the configuration of the driver that runs on it, as YAML.\n"
    "\n"
    "  --output-dir DIR   write a new file dracpu-gatherinfo-DATE-TIME-PID.yaml in DIR\n"
    "  --stdout           print the report\n"
    "  neither            write a file in the folder for temporary files, and log its path\n";

constexpr std::string_view kTopologyUsage =
    "Usage: dracpu topology [--sysfs-root DIR] [--overlay FILE] [-o text|json|svg]\n"
    "\n"
    "Shows what the driver sees of a machine: sockets, NUMA nodes, caches, cores, threads, PCIe roots.\n"
    "What was odd is told on standard error. Ends with 0, or 2 if DIR or FILE cannot be used.\n"
    "\n"
    "  --sysfs-root DIR   a folder that holds sys/, for instance an unpacked capture (default: this "
    "machine,\n"
    "                     or $HOST_ROOT)\n"
    "  --overlay FILE     a sysfs overlay, as in sysfsOverlay\n"
    "  -o, --output FORM  text (default, for a terminal), json (for programs), svg (for a page)\n";

constexpr std::string_view kDevicesUsage =
    "Usage: dracpu devices [--sysfs-root DIR] [--config FILE] [-o yaml|json]\n"
    "\n"
    "Prints the ResourceSlices that this node would publish. Needs no cluster. Ends with 0, or 2 if DIR or "
    "FILE\n"
    "cannot be used.\n"
    "\n"
    "  --sysfs-root DIR   a folder that holds sys/ (default: this machine, or $HOST_ROOT)\n"
    "  --config FILE      the driver's configuration (default: none)\n"
    "  -o, --output FORM  yaml (default) or json\n";

constexpr std::string_view kPlanUsage =
    "Usage: dracpu plan --claims FILE [--sysfs-root DIR] [--config FILE] [--free CPULIST] [--state FILE]\n"
    "                   [-o text|json]\n"
    "\n"
    "Shows which CPUs claims would get on this node, or why they would be refused. Needs no cluster.\n"
    "Ends with 0 (every claim fits), 3 (one was refused) or 2 (bad input).\n"
    "\n"
    "  --claims FILE      ResourceClaims and ResourceClaimTemplates, YAML documents or a List; - is "
    "standard\n"
    "                     input. A claim without status.allocation is given devices first-fit; selectors "
    "are\n"
    "                     not evaluated\n"
    "  --sysfs-root DIR   a folder that holds sys/ (default: this machine, or $HOST_ROOT)\n"
    "  --config FILE      the driver's configuration (default: none)\n"
    "  --free CPULIST     only these CPUs are free, for instance 0-3,8\n"
    "  --state FILE       claims of this state file are held already\n"
    "  -o, --output FORM  text (default) or json\n";

constexpr std::string_view kStateUsage =
    "Usage: dracpu state show|verify [--file FILE | --config FILE] [-o text|json]\n"
    "\n"
    "Reads the driver's state file, without the driver, and changes nothing. show prints the claims and who\n"
    "holds them; verify checks the file. Ends with 0 (fine), 3 (damaged, or something was found) or 2 (no\n"
    "such file, bad command line).\n"
    "\n"
    "  --file FILE        the state file (default: where the configuration puts it)\n"
    "  --config FILE      the driver's configuration (default: none)\n"
    "  -o, --output FORM  text (default) or json\n";

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

CommandLine failed(int status, std::string text) {
  CommandLine out;
  out.kind = CommandLine::Kind::kFailed;
  out.status = status;
  out.text = std::move(text);
  return out;
}

CommandLine print(std::string_view text) {
  CommandLine out;
  out.kind = CommandLine::Kind::kPrint;
  out.text = text;
  return out;
}

CommandLine bad_line(std::string_view error, std::string_view usage = kUsage) {
  return failed(kBadInput, fmt::format("dracpu: {}\n{}", error, usage));
}

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
          return bad_line(fmt::format("flag --{}: \"{}\" is neither true nor false", flag.name, flag.value));
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
      return bad_line(e.what());
    }
    for (const Target& target : targets_) {
      if (target.option->count() == 0) continue;
      const std::string value = target.option->as<std::string>();
      if (target.member != nullptr) out.flags.*target.member = value;
    }
    const CLI::Option* level = app_.get_option("--v");
    if (level->count() != 0) {
      const std::optional<int> number = parse_number<int>(level->as<std::string>());
      if (!number) return bad_line("flag --v: the level is not a whole number");
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

bool has_help(const SplitLine& line) {
  return std::any_of(line.flags.begin(), line.flags.end(),
                     [](const GivenFlag& f) { return f.name == "help"; });
}

CommandLine parse_health(std::vector<std::string> args) {
  constexpr std::array<KnownFlag, 2> kFlags = {
      {{"address", FlagKind::kValue}, {"timeout", FlagKind::kValue}}};
  CommandLine out;
  out.kind = CommandLine::Kind::kHealth;
  out.timeout_seconds = 3;
  std::string question;
  if (!args.empty() && !args.front().starts_with('-')) {
    question = args.front();
    args.erase(args.begin());
  }
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
  if (!line) return failed(kFailed, fmt::format("dracpu: {}\n{}", line.error().text, kIntrospectUsage));
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
  if (line->rest.size() > 1) {
    return failed(kFailed, fmt::format("dracpu: introspect metrics takes nothing more, \"{}\" is too much\n",
                                       line->rest[1]));
  }
  CommandLine out;
  out.kind = CommandLine::Kind::kIntrospectMetrics;
  return out;
}

CommandLine parse_gatherinfo(const std::vector<std::string>& args) {
  constexpr std::array<KnownFlag, 2> kFlags = {
      {{"output-dir", FlagKind::kValue}, {"stdout", FlagKind::kBool}}};
  const auto refuse = [](std::string_view error) {
    return failed(kFailed, fmt::format("dracpu: {}\n{}", error, kGatherInfoUsage));
  };
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

// A read-only subcommand whose flags all take a value.
struct ReadOnly {
  std::string_view name;
  CommandLine::Kind kind;
  std::string_view usage;
  std::vector<std::string_view> forms;  // of -o; the first is the default
  std::vector<std::pair<std::string_view, std::string CommandLine::*>> texts;
};

CommandLine parse_read_only(const ReadOnly& command, std::vector<std::string> args) {
  std::string action;
  if (command.kind == CommandLine::Kind::kState && !args.empty() && !args.front().starts_with('-')) {
    action = args.front();
    args.erase(args.begin());
  }
  std::vector<KnownFlag> known = {
      {"o", FlagKind::kValue}, {"output", FlagKind::kValue}, {"free", FlagKind::kValue}};
  if (command.kind != CommandLine::Kind::kPlan) known.pop_back();
  for (const auto& [name, member] : command.texts) known.push_back({name, FlagKind::kValue});
  const Result<SplitLine> line = split_flags(args, known);
  if (!line) return bad_line(line.error().text, command.usage);
  if (has_help(*line)) return print(command.usage);
  if (!line->rest.empty()) {
    return bad_line(fmt::format("{} takes flags only, \"{}\" is too much", command.name, line->rest[0]),
                    command.usage);
  }
  if (command.kind == CommandLine::Kind::kState && action != "show" && action != "verify")
    return bad_line("state wants one word, show or verify", command.usage);
  CommandLine out;
  out.kind = command.kind;
  out.state_action = action;
  out.output = command.forms[0];
  for (const GivenFlag& flag : line->flags) {
    if (flag.name == "free") {
      out.free_cpus = flag.value;
      continue;
    }
    if (flag.name == "o" || flag.name == "output") {
      if (std::find(command.forms.begin(), command.forms.end(), flag.value) == command.forms.end()) {
        std::string forms;
        for (const std::string_view form : command.forms)
          forms += fmt::format("{}{}", forms.empty() ? "" : ", ", form);
        return bad_line(fmt::format("flag -o: \"{}\" is none of {}", flag.value, forms), command.usage);
      }
      out.output = flag.value;
      continue;
    }
    if (flag.value.empty())
      return bad_line(fmt::format("flag --{}: no value given", flag.name), command.usage);
    for (const auto& [name, member] : command.texts) {
      if (name == flag.name) out.*member = flag.value;
    }
  }
  if (command.kind == CommandLine::Kind::kPlan && out.claims_file.empty()) {
    return bad_line("plan wants --claims FILE", command.usage);
  }
  return out;
}

const std::vector<ReadOnly>& read_only_commands() {
  using Kind = CommandLine::Kind;
  static const std::vector<ReadOnly> commands = {
      {"topology",
       Kind::kTopology,
       kTopologyUsage,
       {"text", "json", "svg"},
       {{"sysfs-root", &CommandLine::sysfs_root}, {"overlay", &CommandLine::overlay}}},
      {"devices",
       Kind::kDevices,
       kDevicesUsage,
       {"yaml", "json"},
       {{"sysfs-root", &CommandLine::sysfs_root}, {"config", &CommandLine::config_file}}},
      {"plan",
       Kind::kPlan,
       kPlanUsage,
       {"text", "json"},
       {{"sysfs-root", &CommandLine::sysfs_root},
        {"config", &CommandLine::config_file},
        {"claims", &CommandLine::claims_file},
        {"state", &CommandLine::state_file}}},
      {"state",
       Kind::kState,
       kStateUsage,
       {"text", "json"},
       {{"file", &CommandLine::state_file}, {"config", &CommandLine::config_file}}}};
  return commands;
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& args) {
  RootFlags root;
  const Result<SplitLine> line = split_flags(args, root.known());
  if (!line) return bad_line(line.error().text);
  if (has_help(*line)) return print(root.help());
  if (line->rest.empty()) return root.read(line->flags);
  const std::string& word = line->rest.front();
  const std::vector<std::string> rest(line->rest.begin() + 1, line->rest.end());
  const auto read_only = std::find_if(read_only_commands().begin(), read_only_commands().end(),
                                      [&](const ReadOnly& c) { return c.name == word; });
  const bool is_read_only = read_only != read_only_commands().end();
  if (word != "health" && word != "introspect" && word != "gatherinfo" && !is_read_only) {
    return failed(kFailed,
                  fmt::format("dracpu: subcommand \"{}\" is not known; there are: devices, gatherinfo, "
                              "health, introspect, plan, state, topology\n",
                              word));
  }
  if (!line->flags.empty()) {
    return failed(kFailed,
                  fmt::format("dracpu: flag --{} belongs to the driver and cannot stand before \"{}\"\n",
                              line->flags.front().name, word));
  }
  if (word == "health") return parse_health(rest);
  if (word == "introspect") return parse_introspect(rest);
  if (is_read_only) return parse_read_only(*read_only, rest);
  return parse_gatherinfo(rest);
}

}  // namespace dracpu::cli
