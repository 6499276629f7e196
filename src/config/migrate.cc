// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "config/migrate.h"

#include <map>

#include "base/strings.h"
#include "config/parts.h"

namespace dracpu::config {
namespace {

// Comments of a flat file, by the key that they stand above or behind.
struct Comments {
  std::vector<std::string> top;
  std::vector<std::string> end;
  std::map<std::string, std::vector<std::string>, std::less<>> above;
  std::map<std::string, std::string, std::less<>> behind;
  std::vector<std::pair<std::size_t, std::string>> all;  // by line, each with its "#"
};

// The comment behind a value, "#" included; one inside quotes is none.
std::string behind_value(std::string_view line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (quote == '"' && c == '\\') {
        ++i;
      } else if (c == quote) {
        quote = 0;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#' && i > 0 && (line[i - 1] == ' ' || line[i - 1] == '\t')) {
      return std::string(trim(line.substr(i)));
    }
  }
  return {};
}

Comments comments_of(std::string_view text) {
  Comments out;
  std::vector<std::string> waiting;
  bool is_top = true;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::size_t number = 0;
  for (const std::string_view raw : split(text, '\n')) {
    const std::string_view line = trim(raw);
    ++number;
    const std::string comment = line.starts_with('#') ? std::string(line) : behind_value(line);
    if (!comment.empty()) out.all.emplace_back(number, comment);
    if (line.starts_with('#')) {
      waiting.emplace_back(line);
      continue;
    }
    if (line.empty()) {  // a block by itself at the beginning is about the file
      if (is_top) {
        out.top.insert(out.top.end(), waiting.begin(), waiting.end());
        waiting.clear();
      }
      continue;
    }
    const std::size_t colon = line.find(':');
    if (raw.starts_with(' ') || colon == std::string_view::npos) continue;
    const std::size_t begin = line.starts_with('{') ? 1 : 0;  // the first key of a flow mapping
    std::string key(trim(line.substr(begin, colon - begin)));
    if (key.size() > 1 && (key.front() == '"' || key.front() == '\'')) key = key.substr(1, key.size() - 2);
    if (key == "apiVersion") {
      out.top.insert(out.top.end(), waiting.begin(), waiting.end());
    } else if (!waiting.empty()) {
      out.above[key] = waiting;
    }
    waiting.clear();
    is_top = false;
    if (!comment.empty()) out.behind[key] = comment;
  }
  out.end = std::move(waiting);
  return out;
}

std::string write(const Config& config, const Comments& comments) {
  std::string out;
  for (const std::string& line : comments.top) out += line + "\n";
  out += fmt::format("apiVersion: {}\nkind: DriverConfiguration\n", kV1Beta1);
  std::string_view section;
  for (const FieldText& row : fields_of(config)) {
    const auto above = comments.above.find(row.old_key);
    const auto behind = comments.behind.find(row.old_key);
    const bool has_comment =
        !row.old_key.empty() && (above != comments.above.end() || behind != comments.behind.end());
    if (row.value == row.usual && !has_comment) continue;
    if (row.section != section) out += fmt::format("{}:\n", row.section);
    section = row.section;
    if (has_comment && above != comments.above.end()) {
      for (const std::string& line : above->second) out += "  " + line + "\n";
    }
    out += fmt::format("  {}: {}", row.key, row.value);
    if (has_comment && behind != comments.behind.end()) out += "  " + behind->second;
    out += "\n";
  }
  for (const std::string& line : comments.end) out += line + "\n";
  return out;
}

// The lines of comments that are not in the new text.
std::string lost_lines(const Comments& comments, std::string_view text) {
  std::string out;
  for (const auto& [line, comment] : comments.all) {
    if (text.find(comment) == std::string_view::npos)
      out += fmt::format("{}{}", out.empty() ? "" : ", ", line);
  }
  return out;
}

std::string meaning_of(Config config) {
  config.format = Format::kV1Beta1;
  return to_yaml(config);
}

}  // namespace

Result<Migrated> migrate(const Flags& flags, const FileText* file) {
  Flags only = flags;
  only.config.reset();
  only.vmodule.reset();
  if (only.verbosity && (*only.verbosity < 0 || *only.verbosity > kMostVerbose)) {
    return make_error(Errc::kInvalidInput, "flag --v: {} is no level that a file can hold, 0 to {}",
                      *only.verbosity, kMostVerbose);
  }
  Result<Loaded> before = resolve(only, {}, file);
  if (!before.ok()) return std::move(before).error();
  Migrated out;
  if (flags.vmodule) out.notes.emplace_back("--vmodule has no key in the file; keep the flag");
  if (before->config.format == Format::kV1Beta1) {
    if (only != Flags{})
      return make_error(Errc::kInvalidInput,
                        "config file \"{}\" has the new form already; write what the flags say into it",
                        file->name);
    out.notes.emplace_back("the file has the new form already");
    out.text = file->text;
    return out;
  }
  const Comments comments = file == nullptr ? Comments{} : comments_of(file->text);
  out.text = write(before->config, comments);
  if (const std::string lost = lost_lines(comments, out.text); !lost.empty())
    out.notes.push_back(
        fmt::format("comments without a place in the new form are left out, of line {}", lost));
  const FileText again{"the new file", out.text};
  Result<Loaded> after = resolve({}, {}, &again);
  if (!after.ok() || meaning_of(after->config) != meaning_of(before->config)) {
    return make_error(Errc::kInternal, "the new form does not mean the same as the old one: {}",
                      after.ok() ? "values differ" : after.error().text);
  }
  return out;
}

}  // namespace dracpu::config
