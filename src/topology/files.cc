// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "topology/files.h"

#include <algorithm>
#include <utility>

#include "base/escape.h"
#include "base/strings.h"

namespace dracpu::topology {
namespace {

std::string shortened(std::string_view text) {
  constexpr std::size_t kShown = 60;
  if (text.size() <= kShown) return std::string(text);
  return std::string(text.substr(0, kShown)) + "…";
}

}  // namespace

std::optional<std::uint32_t> numbered(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  return parse_number<std::uint32_t>(name.substr(prefix.size()));
}

std::string_view clean(std::string_view text) {
  text = trim(text.substr(0, text.find('\0')));
  return text == "(null)" ? std::string_view() : text;  // printed for a mask that was never set up
}

const std::string& Files::join(std::string_view dir, std::string_view name) {
  path_.assign(dir);
  path_ += '/';
  path_ += name;
  return path_;
}

std::optional<std::string_view> Files::text(std::string_view dir, std::string_view name) {
  switch (source_.read(join(dir, name), buffer_)) {
    case Found::kYes:
      return clean(buffer_);
    case Found::kAbsent:
      return std::nullopt;
    case Found::kUnreadable:
      warn(path_, "cannot be read", "not told");
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::int64_t> Files::number(std::string_view dir, std::string_view name) {
  const std::optional<std::string_view> found = text(dir, name);
  if (!found) return std::nullopt;
  if (found->empty()) {
    warn(path_, "empty", "not told");
    return std::nullopt;
  }
  const std::optional<std::int64_t> value = parse_number<std::int64_t>(*found);
  if (!value) warn(path_, shortened(*found), "not told");
  return value;
}

std::optional<CpuSet> Files::parse(std::string_view dir, std::string_view name, bool is_mask) {
  if (name.empty()) return std::nullopt;
  const std::optional<std::string_view> found = text(dir, name);
  if (!found) return std::nullopt;
  Result<CpuSet> set = is_mask ? CpuSet::parse_mask(*found) : CpuSet::parse(*found);
  if (set.ok()) return std::move(set).value();
  warn(path_, shortened(*found), "not told");
  return std::nullopt;
}

std::optional<CpuSet> Files::cpus(std::string_view dir, std::initializer_list<SetFiles> names) {
  for (const SetFiles& file : names) {
    std::optional<CpuSet> set = parse(dir, file.list, false);
    if (!set) continue;
    const std::optional<CpuSet> mask = parse(dir, file.mask, true);
    if (mask && *mask != *set) {
      warn_once(file.mask, path_, shortened(mask->to_string()), "the list: " + shortened(set->to_string()));
    }
    return set;
  }
  for (const SetFiles& file : names) {
    if (std::optional<CpuSet> set = parse(dir, file.mask, true)) return set;
  }
  return std::nullopt;
}

Result<CpuSet> Files::list_file(std::string_view dir, std::string_view name) {
  switch (source_.read(join(dir, name), buffer_)) {
    case Found::kAbsent:
      return make_error(Errc::kNotFound, "\"{}\" is not there", path_);
    case Found::kUnreadable:
      return make_error(Errc::kUnavailable, "\"{}\" cannot be read", path_);
    case Found::kYes:
      break;
  }
  Result<CpuSet> set = CpuSet::parse(clean(buffer_));
  if (set.ok()) return set;
  Error error = std::move(set).error();
  error.code = Errc::kCorrupt;
  return std::move(error).while_doing("reading \"" + path_ + "\"");
}

std::optional<std::vector<std::string>> Files::names(const std::string& dir) {
  std::vector<std::string> out;
  switch (source_.list(dir, out)) {
    case Found::kYes:
      return out;
    case Found::kAbsent:
      return std::nullopt;
    case Found::kUnreadable:
      warn(dir, "cannot be read", "not told");
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::string> Files::link(const std::string& path) {
  std::string out;
  if (source_.link(path, out) != Found::kYes) return std::nullopt;
  return out;
}

void Files::warn(std::string path, std::string found, std::string assumed) {
  // What was found may be any bytes, and is shown on one line of text and in JSON.
  std::string shown = printable(found, 200);
  std::replace(shown.begin(), shown.end(), '\n', ' ');
  warnings_.push_back({std::move(path), std::move(shown), std::move(assumed)});
}

void Files::warn_once(std::string_view kind, std::string path, std::string found, std::string assumed) {
  if (said_.emplace(kind).second) warn(std::move(path), std::move(found), std::move(assumed));
}

}  // namespace dracpu::topology
