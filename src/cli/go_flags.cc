// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/go_flags.h"

#include <algorithm>
#include <initializer_list>

namespace dracpu::cli {
namespace {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

}  // namespace

std::optional<bool> parse_go_bool(std::string_view text) {
  if (is_one_of(text, {"1", "t", "T", "true", "TRUE", "True"})) return true;
  if (is_one_of(text, {"0", "f", "F", "false", "FALSE", "False"})) return false;
  return std::nullopt;
}

Result<SplitLine> split_flags(const std::vector<std::string>& args, std::span<const KnownFlag> known) {
  SplitLine out;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string_view arg = args[i];
    if (arg.size() < 2 || arg[0] != '-') {
      out.rest.assign(args.begin() + static_cast<std::ptrdiff_t>(i), args.end());
      return out;
    }
    if (arg == "--") {
      out.rest.assign(args.begin() + static_cast<std::ptrdiff_t>(i) + 1, args.end());
      return out;
    }
    const std::string_view body = arg.substr(arg[1] == '-' ? 2 : 1);
    const std::size_t equals = body.find('=');
    const std::string_view name = body.substr(0, equals);
    if (name == "h" || name == "help") {
      out.flags.push_back({"help", "true"});
      continue;
    }
    const auto flag =
        std::find_if(known.begin(), known.end(), [&](const KnownFlag& k) { return k.name == name; });
    if (flag == known.end()) {
      return make_error(Errc::kInvalidInput, "flag \"{}\" is not known; see --help",
                        arg.substr(0, arg.find('=')));
    }
    if (equals != std::string_view::npos) {
      out.flags.push_back({std::string(name), std::string(body.substr(equals + 1))});
    } else if (flag->kind == FlagKind::kBool) {
      out.flags.push_back({std::string(name), "true"});
    } else if (i + 1 < args.size()) {
      out.flags.push_back({std::string(name), args[++i]});
    } else {
      return make_error(Errc::kInvalidInput, "flag \"--{}\" needs a value: --{}=VALUE", name, name);
    }
  }
  return out;
}

}  // namespace dracpu::cli
