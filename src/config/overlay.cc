// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "config/overlay.h"

#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "base/strings.h"
#include "config/parts.h"

namespace dracpu::config {
namespace {

constexpr std::size_t kFileLimit = std::size_t{4} << 20U;
constexpr std::size_t kMaxValues = 40'000;  // 20,000 files: 1,500 CPUs with all that is read of each

bool is_clean(std::string_view path) {
  if (!path.starts_with("/sys/")) return false;
  for (const std::string_view part : split(path.substr(1), '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

bool is_numbered(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && parse_number<std::uint32_t>(name.substr(prefix.size())).has_value();
}

// "cpu3" and "node1" of /sys/devices/system/cpu/cpu3/node1 and of what lies below it.
std::optional<std::pair<std::string_view, std::string_view>> node_of_cpu(std::string_view path) {
  const std::vector<std::string_view> parts = split(path, '/');
  if (parts.size() < 7 || !path.starts_with("/sys/devices/system/cpu/")) return std::nullopt;
  if (!is_numbered(parts[5], "cpu") || !is_numbered(parts[6], "node")) return std::nullopt;
  return std::pair{parts[5], parts[6]};
}

// A part like "node99999999999" that no kernel can have, and that the reader would not see. Empty: none.
std::string_view bad_number(std::string_view path) {
  for (const std::string_view part : split(path, '/')) {
    for (const std::string_view prefix : {"cpu", "node"}) {
      if (!part.starts_with(prefix) || part.size() == prefix.size()) continue;
      const std::string_view number = part.substr(prefix.size());
      if (number.find_first_not_of("0123456789") == std::string_view::npos &&
          !parse_number<std::uint32_t>(number))
        return part;
    }
  }
  return {};
}

}  // namespace

Result<OverlayFiles> parse_overlay(const FileText& file) {
  Result<YamlNode> root = parse_yaml(file.text, kMaxValues);
  if (!root) return std::move(root).error().while_doing(fmt::format("sysfs overlay \"{}\"", file.name));
  const YamlType type = type_of(*root);
  if (type != YamlType::kMapping) {
    return make_error(Errc::kInvalidInput,
                      "sysfs overlay \"{}\": {}: must be a mapping of paths below /sys to texts, not {}",
                      file.name, to_string(root->at), describe(type));
  }
  Problems problems(file.name, "sysfs overlay");
  OverlayFiles out;
  std::map<std::string_view, std::string_view> nodes;
  for (std::size_t i = 0; i < root->keys.size(); ++i) {
    const YamlKey& key = root->keys[i];
    const YamlNode& value = root->items[i];
    if (!is_clean(key.text)) {
      problems.add(key.at, fmt::format("{} is no clean absolute path below /sys", in_quotes(key.text)));
      continue;
    }
    if (type_of(value) != YamlType::kText) {
      problems.add(value.at, fmt::format("the content of {} must be a text, not {}; put it in quotes",
                                         key.text, describe(type_of(value))));
      continue;
    }
    if (const std::string_view part = bad_number(key.text); !part.empty()) {
      problems.add(key.at, fmt::format("{}: the number in \"{}\" is too large", in_quotes(key.text), part));
      continue;
    }
    if (const auto node = node_of_cpu(key.text)) {
      const auto [it, is_new] = nodes.emplace(node->first, node->second);
      if (!is_new && it->second != node->second) {
        problems.add(key.at, fmt::format("{} is in {} already, and a CPU has one NUMA node; keep one of them",
                                         node->first, it->second));
      }
    }
    out.emplace(key.text.substr(1), value.text);
  }
  // In order of paths, what lies below a file follows it, with names like "online-2" perhaps between.
  for (const YamlKey& key : root->keys) {
    const std::string below = key.text + "/";
    const auto it = out.lower_bound(below.substr(1));
    if (it != out.end() && it->first.starts_with(std::string_view(below).substr(1))) {
      problems.add(key.at, fmt::format("{} is a file here and a directory of /{}", key.text, it->first));
    }
  }
  if (!problems.empty()) return problems.to_error();
  return out;
}

Result<OverlayFiles> read_overlay(const std::filesystem::path& file) {
  Result<std::string> text = read_file(file, kFileLimit);
  if (!text) return std::move(text).error().while_doing(fmt::format("sysfs overlay \"{}\"", file.string()));
  return parse_overlay({file.string(), *std::move(text)});
}

}  // namespace dracpu::config
