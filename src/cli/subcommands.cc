// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/subcommands.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cli/go_flags.h"
#include "cli/parse_parts.h"
#include "cli/usage.h"

namespace dracpu::cli {
namespace {

struct Subcommand {
  std::string_view name;
  CommandLine::Kind kind;
  std::string_view usage;
  std::vector<std::string_view> actions;  // the word after the name; empty: there is none
  std::vector<std::string_view> forms;    // of -o; the first is the default
  std::vector<std::pair<std::string_view, std::string CommandLine::*>> texts;
  std::vector<std::pair<std::string_view, bool CommandLine::*>> switches{};
};

const std::vector<Subcommand>& subcommands() {
  using Kind = CommandLine::Kind;
  static const std::vector<Subcommand> commands = {
      {"topology",
       Kind::kTopology,
       kTopologyUsage,
       {},
       {"text", "json", "svg"},
       {{"sysfs-root", &CommandLine::sysfs_root}, {"overlay", &CommandLine::overlay}}},
      {"devices",
       Kind::kDevices,
       kDevicesUsage,
       {},
       {"yaml", "json"},
       {{"sysfs-root", &CommandLine::sysfs_root}, {"config", &CommandLine::config_file}}},
      {"plan",
       Kind::kPlan,
       kPlanUsage,
       {},
       {"text", "json"},
       {{"sysfs-root", &CommandLine::sysfs_root},
        {"config", &CommandLine::config_file},
        {"claims", &CommandLine::claims_file},
        {"state", &CommandLine::state_file}}},
      {"state",
       Kind::kState,
       kStateUsage,
       {"show", "verify"},
       {"text", "json"},
       {{"file", &CommandLine::state_file}, {"config", &CommandLine::config_file}}},
      {"upgrade",
       Kind::kUpgrade,
       kUpgradeUsage,
       {"check"},
       {"text", "json"},
       {{"kubeconfig", &CommandLine::kubeconfig},
        {"config", &CommandLine::config_file},
        {"values", &CommandLine::values_file},
        {"node", &CommandLine::node_name}}},
      {"upgrade",
       Kind::kUpgrade,
       kUpgradeUsage,
       {"identity"},
       {"text", "json"},
       {{"kubeconfig", &CommandLine::kubeconfig},
        {"from", &CommandLine::from_name},
        {"to", &CommandLine::to_name}},
       {{"apply", &CommandLine::apply}}},
      {"cleanup",
       Kind::kCleanup,
       kCleanupUsage,
       {},
       {"text", "json"},
       {{"kubelet-root-dir", &CommandLine::kubelet_root_dir},
        {"cdi-dir", &CommandLine::cdi_dir},
        {"config", &CommandLine::config_file},
        {"driver", &CommandLine::driver_name}},
       {{"apply", &CommandLine::apply}, {"with-claims", &CommandLine::with_claims}}}};
  return commands;
}

std::string join(const std::vector<std::string_view>& words, std::string_view last) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i != 0) out += i + 1 == words.size() ? last : ", ";
    out += words[i];
  }
  return out;
}

// Empty, or why the flag's value cannot be taken.
std::string take_flag(const Subcommand& command, const GivenFlag& flag, CommandLine& out) {
  if (flag.name == "free") {
    out.free_cpus = flag.value;
    return {};
  }
  if (flag.name == "o" || flag.name == "output") {
    if (std::find(command.forms.begin(), command.forms.end(), flag.value) == command.forms.end())
      return fmt::format("flag -o: \"{}\" is none of {}", flag.value, join(command.forms, ", "));
    out.output = flag.value;
    return {};
  }
  for (const auto& [name, member] : command.switches) {
    if (name != flag.name) continue;
    const std::optional<bool> on = parse_go_bool(flag.value);
    if (!on) return fmt::format("flag --{}: \"{}\" is neither true nor false", flag.name, flag.value);
    out.*member = *on;
    return {};
  }
  if (flag.value.empty()) return fmt::format("flag --{}: no value given", flag.name);
  for (const auto& [name, member] : command.texts) {
    if (name == flag.name) out.*member = flag.value;
  }
  return {};
}

CommandLine parse(const Subcommand& command, std::vector<std::string> args) {
  const std::string action = command.actions.empty() ? "" : take_word(args);
  std::vector<KnownFlag> known = {
      {"o", FlagKind::kValue}, {"output", FlagKind::kValue}, {"free", FlagKind::kValue}};
  if (command.kind != CommandLine::Kind::kPlan) known.pop_back();
  for (const auto& [name, member] : command.texts) known.push_back({name, FlagKind::kValue});
  for (const auto& [name, member] : command.switches) known.push_back({name, FlagKind::kBool});
  const Result<SplitLine> line = split_flags(args, known);
  if (!line) return bad_line(line.error().text, command.usage);
  if (has_help(*line)) return print(command.usage);
  if (!line->rest.empty()) {
    return bad_line(fmt::format("{} takes flags only, \"{}\" is too much", command.name, line->rest[0]),
                    command.usage);
  }
  if (!command.actions.empty() &&
      std::find(command.actions.begin(), command.actions.end(), action) == command.actions.end()) {
    std::vector<std::string_view> words;
    for (const Subcommand& other : subcommands()) {
      if (other.name == command.name) words.insert(words.end(), other.actions.begin(), other.actions.end());
    }
    return bad_line(fmt::format("{} wants one word, {}", command.name, join(words, " or ")), command.usage);
  }
  CommandLine out;
  out.kind = command.kind;
  out.action = action;
  out.output = command.forms[0];
  for (const GivenFlag& flag : line->flags) {
    if (const std::string wrong = take_flag(command, flag, out); !wrong.empty())
      return bad_line(wrong, command.usage);
  }
  if (out.kind == CommandLine::Kind::kPlan && out.claims_file.empty())
    return bad_line("plan wants --claims FILE", command.usage);
  if (action == "identity" && out.to_name.empty())
    return bad_line("upgrade identity wants --to NAME", command.usage);
  return out;
}

}  // namespace

bool is_subcommand(std::string_view word) {
  return std::any_of(subcommands().begin(), subcommands().end(),
                     [&](const Subcommand& c) { return c.name == word; });
}

CommandLine parse_subcommand(std::string_view word, std::vector<std::string> rest) {
  const Subcommand* found = nullptr;
  for (const Subcommand& c : subcommands()) {
    if (c.name != word) continue;
    const bool is_meant =
        !rest.empty() && std::find(c.actions.begin(), c.actions.end(), rest.front()) != c.actions.end();
    if (found == nullptr || is_meant) found = &c;
    if (is_meant) break;
  }
  if (found == nullptr) return bad_line(fmt::format("subcommand \"{}\" is not known", word), kUsage);
  return parse(*found, std::move(rest));
}

}  // namespace dracpu::cli
