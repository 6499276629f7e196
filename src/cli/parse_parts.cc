// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/parse_parts.h"

#include <algorithm>
#include <utility>

#include "cli/process.h"

namespace dracpu::cli {

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

CommandLine bad_line(std::string_view error, std::string_view usage) {
  return failed(kBadInput, fmt::format("dracpu: {}\n{}", error, usage));
}

bool has_help(const SplitLine& line) {
  return std::any_of(line.flags.begin(), line.flags.end(),
                     [](const GivenFlag& f) { return f.name == "help"; });
}

std::string take_word(std::vector<std::string>& args) {
  if (args.empty() || (args.front().starts_with('-') && args.front() != "-")) return {};
  std::string word = args.front();
  args.erase(args.begin());
  return word;
}

}  // namespace dracpu::cli
