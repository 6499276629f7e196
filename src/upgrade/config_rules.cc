// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The driver's configuration, and how the rules fit together.

#include <algorithm>
#include <utility>

#include "upgrade/rules.h"

namespace dracpu::upgrade {
namespace {

bool has_any(const std::vector<Settings>& all, bool (Settings::*is)() const) {
  return std::any_of(all.begin(), all.end(), [is](const Settings& s) { return (s.*is)(); });
}

void add_name(std::vector<std::string>& names, const std::string& name) {
  if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

constexpr std::string_view kNeedsConfig =
    "the configuration of the driver is not known; give it with --config FILE";

}  // namespace

std::vector<std::string> driver_names(const Given& given, const std::vector<StatedConfig>& configs) {
  std::vector<std::string> out{"dra.cpu"};
  if (given.config) add_name(out, read_settings(*given.config).driver_name);
  if (given.values) add_name(out, settings_of(*given.values).driver_name);
  for (const StatedConfig& stated : configs) add_name(out, read_settings(stated).driver_name);
  return out;
}

bool Target::has_machine() const { return has_any(settings, &Settings::is_machine); }
bool Target::has_grouped() const { return has_any(settings, &Settings::is_grouped); }
bool Target::has_external() const { return has_any(settings, &Settings::is_external); }
bool Target::has_memory() const {
  return std::any_of(settings.begin(), settings.end(), [](const Settings& s) { return s.memory; });
}

Target target_of(const Given& given, const Facts& facts) {
  Target out;
  if (given.config) {
    out.settings = {read_settings(*given.config)};
    out.is_given = true;
  } else if (given.values) {
    out.settings = {settings_of(*given.values)};
    out.is_given = true;
  } else if (!facts.configs.empty()) {
    for (const StatedConfig& stated : facts.configs) out.settings.push_back(read_settings(stated));
  } else if (facts.drivers && facts.drivers->empty()) {
    out.settings = {read_settings("defaults", nullptr, {})};
  }
  if (!out.settings.empty()) out.driver_name = out.settings.front().driver_name;
  return out;
}

void check_config(const StatedConfig& stated, Findings& out) {
  const Settings s = read_settings(stated);
  if (s.is_machine() && !s.is_external()) {
    out.push_back(
        {Severity::kError, "machine-without-external", s.object,
         fmt::format("groupBy \"machine\" with allocator \"{}\": the driver does not start; machine "
                     "grouping works with an external allocator only",
                     s.allocator),
         s.is_nested ? "cpu: {allocator: external}" : "allocator: external", std::string(section::kMachine)});
  } else if (s.misplaced.empty()) {  // check_memory() speaks of those
    const Result<config::Loaded> loaded =
        config::resolve(stated.flags, {}, stated.file ? &*stated.file : nullptr);
    if (!loaded.ok()) {
      out.push_back({Severity::kError, "config-refused", s.object,
                     fmt::format("the driver does not start with it: {}", loaded.error().text),
                     "correct it, then: dracpu config check FILE", std::string(section::kConfiguration)});
    }
  }
  if (s.devices == "individual") {
    out.push_back({Severity::kWarning, "individual-mode", s.object,
                   "individual mode is deprecated: it works in this release and will be removed",
                   s.is_nested ? "cpu: {devices: grouped}" : "cpuDeviceMode: grouped",
                   std::string(section::kIndividual)});
  }
}

void check_published_mode(const Facts& facts, Findings& out) {
  for (const SliceObject& slice : facts.slices) {
    if (!slice.has_individual) continue;
    out.push_back({Severity::kWarning, "individual-mode", slice.object(),
                   "single CPUs are published as devices (individual mode), which is deprecated: it works in "
                   "this release and will be removed",
                   "cpuDeviceMode: grouped", std::string(section::kIndividual)});
  }
}

Report run_rules(const Given& given, const Facts& facts) {
  Report out;
  out.checked = facts.checked;
  out.not_checked = facts.not_checked;
  const Target target = target_of(given, facts);
  if (given.config) {
    check_config(*given.config, out.findings);
    out.checked.push_back({"configuration given", given.config->object});
  }
  if (given.values) {
    check_values(*given.values, out.findings);
    out.checked.push_back({"chart values", given.values->name});
  }
  for (const StatedConfig& stated : facts.configs) check_config(stated, out.findings);
  check_published_mode(facts, out.findings);
  check_drivers(facts, out.findings);
  check_cluster(facts, target, out.findings, out.not_checked);
  check_claims(facts, target, out.findings);
  check_memory(given, facts, target, out.findings, out.not_checked);
  check_identity(given, facts, target, out.findings);
  if (target.settings.empty())
    out.not_checked.push_back(
        {"opaque configurations and counts of claims, against the device mode", std::string(kNeedsConfig)});
  sort_findings(out.findings);
  return out;
}

}  // namespace dracpu::upgrade
