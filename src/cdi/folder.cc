// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cdi/folder.h"

#include <algorithm>
#include <string_view>
#include <system_error>

namespace dracpu::cdi {
namespace {

namespace fs = std::filesystem;

Error folder_error(std::string_view step, const fs::path& dir, const std::error_code& ec) {
  return make_error(Errc::kUnavailable, "{} folder \"{}\": {}", step, dir.string(), ec.message());
}

}  // namespace

Status make_folder(const fs::path& dir) {
  std::error_code ec;
  const bool made = fs::create_directories(dir, ec);
  if (ec) return folder_error("make", dir, ec);
  if (!made) return ok_status();
  fs::permissions(dir, fs::perms{0755}, ec);
  if (ec) return folder_error("set mode of", dir, ec);
  return ok_status();
}

Result<std::vector<std::string>> names_in(const fs::path& dir) {
  std::error_code ec;
  std::vector<std::string> out;
  fs::directory_iterator it(dir, ec);
  if (ec == std::errc::no_such_file_or_directory) return out;
  for (; !ec && it != fs::directory_iterator(); it.increment(ec)) out.push_back(it->path().filename());
  if (ec) return folder_error("read", dir, ec);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace dracpu::cdi
