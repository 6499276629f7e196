// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/pod_limits.h"

#include <fmt/format.h>

#include <vector>

#include "base/strings.h"

namespace dracpu::memory {

std::optional<Bytes> pod_limit(const PodNote& note) {
  if (!note.baseline) return std::nullopt;
  Bytes out = *note.baseline;
  for (const auto& [name, share] : note.containers) out += share.claimed - share.own_limit;
  return out;
}

std::string format_note(const PodNote& note) {
  std::string out = note.baseline ? std::to_string(note.baseline->count) : "max";
  for (const auto& [name, share] : note.containers)
    out += fmt::format(" {}={}/{}", name, share.claimed.count, share.own_limit.count);
  return out;
}

Result<std::optional<Bytes>> parse_limit(std::string_view text) {
  if (trim(text) == "max") return std::optional<Bytes>();
  const std::optional<std::uint64_t> count = parse_number<std::uint64_t>(trim(text));
  if (count) return std::optional<Bytes>(Bytes{*count});
  return make_error(Errc::kCorrupt, "\"{}\" is no limit", trim(text).substr(0, 80));
}

Result<PodNote> parse_note(std::string_view text) {
  PodNote out;
  const std::vector<std::string_view> words = split(text, ' ');
  const Result<std::optional<Bytes>> baseline = parse_limit(words.front());
  if (!baseline.ok()) return baseline.error();
  out.baseline = *baseline;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::size_t slash = words[i].find('/');
    std::optional<std::uint64_t> claimed;
    std::optional<std::uint64_t> own;
    if (equals != std::string_view::npos && slash != std::string_view::npos && equals > 0 && slash > equals) {
      claimed = parse_number<std::uint64_t>(words[i].substr(equals + 1, slash - equals - 1));
      own = parse_number<std::uint64_t>(words[i].substr(slash + 1));
    }
    if (!claimed || !own)
      return make_error(Errc::kCorrupt, "\"{}\" is no container's share", words[i].substr(0, 80));
    out.containers.insert_or_assign(std::string(words[i].substr(0, equals)),
                                    ContainerShare{{*claimed}, {*own}});
  }
  return out;
}

Result<std::string> path_below_mount(std::string_view cgroup_parent) {
  std::string out;
  for (const std::string_view part : split(cgroup_parent, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == ".." || part.find('\0') != std::string_view::npos) {
      return make_error(Errc::kInvalidInput, "cgroup parent \"{}\" leads out of the cgroup mount",
                        cgroup_parent);
    }
    if (!out.empty()) out += '/';
    out += part;
  }
  if (out.empty()) return make_error(Errc::kInvalidInput, "the pod has no cgroup parent");
  return out;
}

}  // namespace dracpu::memory
