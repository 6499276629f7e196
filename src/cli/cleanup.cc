// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/cleanup.h"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "agent/cleanup.h"
#include "agent/state_codec.h"
#include "base/escape.h"
#include "cli/process.h"
#include "config/load.h"
#include "kubelet/server.h"
#include "memory/types.h"
#include "store/state_file.h"

namespace dracpu::cli {
namespace {

namespace json = boost::json;
using agent::Trace;

// Names become part of paths.
Status check_name(const std::filesystem::path& kubelet_root, const std::string& driver) {
  kubelet::ServerOptions options;
  options.kubelet_root_dir = kubelet_root;
  options.driver_name = driver;
  return kubelet::check_options(options);
}

Result<agent::CleanupPlace> place_of(const CommandLine& line) {
  config::Flags flags;
  if (!line.config_file.empty()) flags.config = line.config_file;
  if (!line.kubelet_root_dir.empty()) flags.kubelet_root_dir = line.kubelet_root_dir;
  const Result<config::Loaded> loaded = config::load(flags, environment());
  if (!loaded.ok()) return loaded.error();
  const config::Config& config = loaded->config;
  agent::CleanupPlace out;
  out.kubelet_root = config.runtime.kubelet_root_dir;
  out.cdi_dir = line.cdi_dir.empty() ? config.runtime.cdi_dir : std::filesystem::path(line.cdi_dir);
  if (!out.cdi_dir.is_absolute())
    return make_error(Errc::kInvalidInput, "flag --cdi-dir: \"{}\" must be an absolute path", line.cdi_dir);
  if (std::error_code ec; !std::filesystem::is_directory(out.kubelet_root, ec)) {
    return make_error(Errc::kInvalidInput,
                      "the kubelet's root \"{}\" is no folder here; give the right one with "
                      "--kubelet-root-dir, below /host in a debugging pod",
                      out.kubelet_root.string());
  }
  out.state_file = config::state_file(config);
  out.is_names_only = !line.driver_name.empty();
  if (out.is_names_only) {
    out.drivers = {line.driver_name};
  } else {
    out.drivers = {config.publish.driver_name, "dra.cpu", std::string(memory::kDriverName)};
    store::StateFile file(out.state_file);
    const Result<agent::State> state = agent::load_state(file);
    if (state.ok() && check_name(out.kubelet_root, state->driver).ok()) out.drivers.push_back(state->driver);
    std::sort(out.drivers.begin(), out.drivers.end());
    out.drivers.erase(std::unique(out.drivers.begin(), out.drivers.end()), out.drivers.end());
  }
  for (const std::string& driver : out.drivers) {
    if (Status s = check_name(out.kubelet_root, driver); !s.ok()) return std::move(s).error();
  }
  return out;
}

std::string one_line(std::string_view text) {
  std::string out = printable(text);
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

std::string_view name_of(Trace::Outcome outcome) {
  switch (outcome) {
    case Trace::Outcome::kPlanned:
      return "planned";
    case Trace::Outcome::kRemoved:
      return "removed";
    case Trace::Outcome::kGone:
      return "gone";
    case Trace::Outcome::kFailed:
      return "failed";
  }
  return "";
}

struct Outcome {
  const agent::CleanupPlan& plan;
  bool is_refused = false;
  bool is_applied = false;
  bool are_claims_in_the_way = false;
};

std::string first_line(const Outcome& o) {
  if (o.is_refused) return "Refused; nothing was changed.\n";
  if (o.is_applied) return "Removed what the driver left on this node:\n";
  if (o.plan.traces.empty()) return "The driver left nothing on this node.\n";
  return "Left by the driver on this node; --apply removes it, nothing was changed:\n";
}

std::string as_text(const Outcome& o) {
  std::string out = first_line(o);
  for (const std::string& sign : o.plan.alive)
    out += fmt::format("  a driver works here: {}\n", one_line(sign));
  if (!o.plan.alive.empty()) out += "  uninstall it first: helm uninstall RELEASE -n NAMESPACE\n";
  if (!o.plan.claims.empty()) {
    out += fmt::format("\nClaims on record here{}:\n",
                       o.are_claims_in_the_way ? "; end their pods first, or give --with-claims" : "");
    for (const std::string& claim : o.plan.claims) out += fmt::format("  {}\n", one_line(claim));
    out += "\n";
  }
  if (o.is_refused && !o.plan.traces.empty()) out += "What would be removed:\n";
  for (const Trace& t : o.plan.traces) {
    out += fmt::format("  {}  {}", one_line(t.path.string()), t.what);
    if (t.outcome == Trace::Outcome::kGone) out += ": gone already";
    if (t.outcome == Trace::Outcome::kFailed) out += ": NOT removed: " + one_line(t.why);
    out += "\n";
  }
  if (!o.plan.kept.empty()) out += "\nKept:\n";
  for (const agent::KeptPath& k : o.plan.kept)
    out += fmt::format("  {}  {}\n", one_line(k.path.string()), one_line(k.why));
  return out;
}

// File names need not be UTF-8.
json::value json_text(std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  return json::parse(quoted);
}

std::string as_json(const Outcome& o) {
  json::array remove;
  for (const Trace& t : o.plan.traces) {
    json::object one{{"path", json_text(t.path.string())}, {"what", t.what}, {"outcome", name_of(t.outcome)}};
    if (!t.why.empty()) one["why"] = t.why;
    remove.push_back(std::move(one));
  }
  json::array kept;
  for (const agent::KeptPath& k : o.plan.kept)
    kept.push_back({{"path", json_text(k.path.string())}, {"why", k.why}});
  return json::serialize(json::object{{"applied", o.is_applied},
                                      {"refused", o.is_refused},
                                      {"alive", json::value_from(o.plan.alive)},
                                      {"claims", json::value_from(o.plan.claims)},
                                      {"remove", std::move(remove)},
                                      {"kept", std::move(kept)}}) +
         "\n";
}

}  // namespace

int run_cleanup(const CommandLine& line) {
  Result<agent::CleanupPlace> place = place_of(line);
  if (!place.ok()) return bad_input(place.error());
  agent::Cleanup cleanup(*std::move(place));
  if (const Status s = cleanup.look(line.apply); !s.ok()) {
    complain(s.error().text);
    return kFailed;
  }
  Outcome outcome{cleanup.plan()};
  outcome.are_claims_in_the_way = !outcome.plan.claims.empty() && !line.with_claims;
  outcome.is_refused = !outcome.plan.alive.empty() || outcome.are_claims_in_the_way;
  if (line.apply && !outcome.is_refused) {
    cleanup.remove();
    outcome.is_applied = true;
  }
  const bool has_failed = std::any_of(outcome.plan.traces.begin(), outcome.plan.traces.end(),
                                      [](const Trace& t) { return t.outcome == Trace::Outcome::kFailed; });
  int status = has_failed ? kFailed : kOk;
  if (outcome.is_refused) status = kRefused;
  return print_result(line.output == "json" ? as_json(outcome) : as_text(outcome), status);
}

}  // namespace dracpu::cli
