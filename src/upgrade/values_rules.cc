// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Values of the chart: what its schema refuses, and what its template refuses after that.

#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "upgrade/chart_schema.h"
#include "upgrade/rules.h"

namespace dracpu::upgrade {
namespace {

using config::YamlNode;

// args.* of the chart, and the flags that they stand for.
struct OldArgument {
  std::string_view key;
  std::string_view nested;  // in driverConfig of the form dracpu/v1beta1
  std::optional<std::string> config::Flags::*flag;
};
constexpr std::array<OldArgument, 4> kOldArguments = {{
    {"cpuDeviceMode", "cpu.devices", &config::Flags::cpu_device_mode},
    {"groupBy", "cpu.groupBy", &config::Flags::group_by},
    {"reservedCPUs", "node.reservedCPUs", &config::Flags::reserved_cpus},
    {"hostnameOverride", "node.name", &config::Flags::hostname_override},
}};

std::string text_at(const YamlNode& root, std::initializer_list<std::string_view> path) {
  const YamlNode* node = scalar_at(root, path);
  return node == nullptr ? std::string() : node->text;
}

std::string object_of(const ValuesFile& values) { return "file " + values.name; }

// "(^|/)dra-driver-cpu(/|$)", as the template looks for the Go driver's image.
bool is_go_image(const std::string& repository) {
  constexpr std::string_view kName = "dra-driver-cpu";
  for (std::size_t at = repository.find(kName); at != std::string::npos;
       at = repository.find(kName, at + 1)) {
    const std::size_t end = at + kName.size();
    if ((at == 0 || repository[at - 1] == '/') && (end == repository.size() || repository[end] == '/'))
      return true;
  }
  return false;
}

class ValuesCheck {
 public:
  ValuesCheck(const ValuesFile& values, Findings& out)
      : root_(values.root), name_(object_of(values)), settings_(settings_of(values)), out_(out) {}

  void run() {
    for (const WrongValue& wrong : check_against_chart(root_)) add_wrong(wrong);
    check_spelling();
    check_image();
    check_forms();
    check_mode();
    check_surge();
  }

 private:
  void add(std::string_view id, std::string message, std::string fix,
           std::string_view section = section::kValues, Severity severity = Severity::kError) {
    out_.push_back(
        {severity, std::string(id), name_, std::move(message), std::move(fix), std::string(section)});
  }

  // The value of a key that is not known may be anything, so it is not shown.
  void add_wrong(const WrongValue& wrong) {
    if (wrong.kind == WrongValue::Kind::kInvalid) {
      add("chart-value-invalid", fmt::format("{}: value {} {}", to_string(wrong.at), wrong.path, wrong.what),
          fmt::format("correct {}", wrong.path));
    } else if (wrong.what.empty()) {
      add("chart-value-unknown",
          fmt::format("{}: the chart has no value {}, and refuses values that it does not know",
                      to_string(wrong.at), wrong.path),
          fmt::format("take {} out; the values that exist: helm show values CHART", wrong.path));
    } else {
      add("chart-value-unknown",
          fmt::format("{}: the chart has no value {}; it is spelled \"{}\"", to_string(wrong.at), wrong.path,
                      wrong.what),
          fmt::format("spell it {}", wrong.what));
    }
  }

  // The schema lets this one pass, so that the template can say how it is spelled.
  void check_spelling() {
    constexpr std::string_view kRoot = "kubeletRootDir";
    for (const config::YamlKey& key : root_.keys) {
      if (key.text == kRoot || key.text.size() != kRoot.size()) continue;
      std::string lower_key;
      for (const char c : key.text) lower_key += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
      if (lower_key != "kubeletrootdir") continue;
      add_wrong({WrongValue::Kind::kUnknown, key.at, key.text, std::string(kRoot)});
    }
  }

  void check_image() {
    const std::string repository = text_at(root_, {"image", "repository"});
    if (!is_go_image(repository)) return;
    add("go-image", fmt::format("image.repository \"{}\" is the image of the Go driver", repository),
        "image: {repository: REGISTRY/dracpu, tag: TAG}");
  }

  void check_forms() {
    if (!settings_.is_nested) return;
    for (const OldArgument& old : kOldArguments) {
      if (text_at(root_, {"args", old.key}).empty()) continue;
      add("chart-value-conflict",
          fmt::format("args.{} and a driverConfig of dracpu/v1beta1 exclude each other", old.key),
          fmt::format("write it as driverConfig.{}, and take args.{} out", old.nested, old.key));
    }
    if (text_at(root_, {"args", "exposePCIeRoots"}) == "true") {
      add("chart-value-conflict",
          "args.exposePCIeRoots and a driverConfig of dracpu/v1beta1 exclude each other",
          "write it as driverConfig.publish.pcieRoots, and take args.exposePCIeRoots out");
    }
  }

  void check_mode() {
    if (settings_.is_machine() && !settings_.is_external()) {
      add("machine-without-external",
          fmt::format("groupBy \"machine\" with allocator \"{}\": the chart refuses it, and the driver would "
                      "not start",
                      settings_.allocator),
          settings_.is_nested ? "driverConfig: {cpu: {allocator: external}}"
                              : "driverConfig: {allocator: external}",
          section::kMachine);
    }
    if (settings_.devices == "individual") {
      add("individual-mode", "individual mode is deprecated: it works in this release and will be removed",
          settings_.is_nested ? "driverConfig: {cpu: {devices: grouped}}"
                              : "driverConfig: {cpuDeviceMode: grouped}",
          section::kIndividual, Severity::kWarning);
    }
  }

  void check_surge() {
    const std::string surge = text_at(root_, {"updateStrategy", "maxSurge"});
    if (surge.empty() || surge == "0" || surge == "0%") return;
    if (text_at(root_, {"standby", "enabled"}) == "true") return;
    add("surge-without-standby",
        fmt::format("updateStrategy.maxSurge {} without standby.enabled: the chart refuses it", surge),
        "standby: {enabled: true}", section::kSurge);
  }

  const YamlNode& root_;
  std::string name_;
  Settings settings_;
  Findings& out_;
};

}  // namespace

Settings settings_of(const ValuesFile& values) {
  const YamlNode* driver = values.root.find("driverConfig");
  Settings out = read_settings(object_of(values), driver, {});
  if (out.is_nested) return out;
  config::Flags flags;
  for (const OldArgument& old : kOldArguments) {
    if (std::string text = text_at(values.root, {"args", old.key}); !text.empty()) flags.*old.flag = text;
  }
  flags.expose_pcie_roots = text_at(values.root, {"args", "exposePCIeRoots"}) == "true";
  return read_settings(out.object, driver, flags);
}

void check_values(const ValuesFile& values, Findings& out) { ValuesCheck(values, out).run(); }

}  // namespace dracpu::upgrade
