// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The flat form of release 0.3.0 (spec driver-behaviours section 3), key by key as it was.

#include <array>

#include "config/parts.h"

namespace dracpu::config {
namespace {

constexpr std::array<std::string_view, 9> kKnown = {"allocator",
                                                    "apiVersion",
                                                    "cpuDeviceMode",
                                                    "groupBy",
                                                    "hostnameOverride",
                                                    "kubeconfig",
                                                    "publishNodeAllocatableResourceMapping",
                                                    "reservedCPUs",
                                                    "sysfsOverlay"};

struct Excluded {
  std::string_view key;
  std::string_view pointer;
};
constexpr std::array<Excluded, 3> kExcluded = {{
    {"bindAddress", "set the chart's value healthzPort, or the flag --bind-address"},
    {"exposePCIeRoots", "set the chart's value args.exposePCIeRoots, or the flag --expose-pcie-roots"},
    {"kubeletRootDir", "set the chart's value kubeletRootDir, or the flag --kubelet-root-dir"},
}};

// A known key in other letters, all of them at once, sorted by what was written.
Status check_spelling(const YamlNode& root, const std::string& file) {
  std::vector<std::string> found;
  for (const YamlKey& key : root.keys) {
    for (const std::string_view known : kKnown) {
      if (key.text != known && lower(key.text) == lower(known)) {
        found.push_back(
            fmt::format("key \"{}\" ({}) must be spelled \"{}\"", key.text, to_string(key.at), known));
      }
    }
  }
  if (found.empty()) return ok_status();
  std::sort(found.begin(), found.end());
  std::string text;
  for (const std::string& f : found) text += (text.empty() ? "" : "; ") + f;
  return make_error(Errc::kInvalidInput, "config file \"{}\": {}", file, text);
}

Status check_excluded(const YamlNode& root, const std::string& file) {
  Problems problems(file);
  for (const YamlKey& key : root.keys) {
    for (const Excluded& excluded : kExcluded) {
      if (lower(key.text) == lower(excluded.key)) {
        problems.add(key.at,
                     fmt::format("\"{}\" cannot be set in this file; {}", key.text, excluded.pointer));
      }
    }
  }
  if (problems.empty()) return ok_status();
  return problems.to_error();
}

// Somebody wrote the nested form and left its version out, or stated the other one.
Status check_form(const YamlNode& root, const std::string& file) {
  const std::vector<FieldText> nested = fields_of(Config{});
  for (const YamlKey& key : root.keys) {
    const bool is_nested =
        key.text == "kind" ||
        std::any_of(nested.begin(), nested.end(), [&](const FieldText& f) { return f.section == key.text; });
    if (!is_nested) continue;
    return make_error(Errc::kInvalidInput,
                      "config file \"{}\": {}: key \"{}\" belongs to the nested form, but {}; state "
                      "\"apiVersion: {}\" and \"kind: DriverConfiguration\"",
                      file, to_string(key.at), key.text,
                      root.find("apiVersion") == nullptr ? "apiVersion is missing, which means the flat one"
                                                         : "apiVersion says the flat one",
                      kV1Beta1);
  }
  return ok_status();
}

}  // namespace

Status read_v1alpha1(const YamlNode& root, const std::string& file, Settings& out) {
  out.config.format = Format::kV1Alpha1;
  if (Status s = check_spelling(root, file); !s.ok()) return s;
  if (Status s = check_excluded(root, file); !s.ok()) return s;
  if (Status s = check_form(root, file); !s.ok()) return s;
  Problems problems(file);
  Section top(root, "", Section::Rules::kFlat, problems, out.warnings);
  std::string path;
  top.find("apiVersion");
  top.text("cpuDeviceMode", out.device_mode);
  top.text("groupBy", out.group_by);
  top.text("allocator", out.allocator);
  out.reserved_stated = top.text("reservedCPUs", out.reserved_cpus);
  top.text("hostnameOverride", out.node_name);
  if (top.text("kubeconfig", path)) out.config.runtime.kubeconfig = path;
  if (top.text("sysfsOverlay", path)) out.config.node.sysfs_overlay = path;
  top.boolean("publishNodeAllocatableResourceMapping", out.config.publish.node_allocatable_mapping);
  top.finish();
  if (problems.empty()) return ok_status();
  return problems.to_error();
}

}  // namespace dracpu::config
