// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cdi_files.h"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <set>

#include "base/file.h"

namespace dracpu::sandbox {
namespace {

namespace json = boost::json;
using Env = std::vector<std::string>;

void collect_env(const json::object& holder, Env& out) {
  const json::value* edits = holder.if_contains("containerEdits");
  if (edits == nullptr || !edits->is_object()) return;
  const json::value* env = edits->get_object().if_contains("env");
  if (env == nullptr || !env->is_array()) return;
  for (const json::value& e : env->get_array()) {
    if (e.is_string()) out.emplace_back(e.get_string());
  }
}

Status read_spec(const std::filesystem::path& path, std::map<std::string, Env>& devices,
                 std::set<std::string>& twice) {
  Result<std::string> text = read_file(path);
  if (!text.ok()) return std::move(text).error();
  boost::system::error_code ec;
  const json::value v = json::parse(*text, ec);
  const auto bad = [&](std::string_view what) {
    return make_error(Errc::kCorrupt, "CDI file \"{}\": {}", path.string(), what);
  };
  if (ec || !v.is_object()) return bad("not a JSON object");
  const json::object& spec = v.get_object();
  const json::value* kind = spec.if_contains("kind");
  const json::value* version = spec.if_contains("cdiVersion");
  const json::value* list = spec.if_contains("devices");
  if (kind == nullptr || !kind->is_string()) return bad("no kind");
  if (version == nullptr || !version->is_string()) return bad("no cdiVersion");
  if (list == nullptr || !list->is_array() || list->get_array().empty()) return bad("no devices");
  Env common;
  collect_env(spec, common);
  for (const json::value& d : list->get_array()) {
    const json::value* name = d.is_object() ? d.get_object().if_contains("name") : nullptr;
    if (name == nullptr || !name->is_string()) return bad("a device without name");
    Env env = common;
    collect_env(d.get_object(), env);
    const std::string full =
        fmt::format("{}={}", std::string_view(kind->get_string()), std::string_view(name->get_string()));
    if (!devices.emplace(full, std::move(env)).second) twice.insert(full);
  }
  return ok_status();
}

}  // namespace

Result<std::vector<std::string>> cdi_env(const std::filesystem::path& dir,
                                         const std::vector<std::string>& devices) {
  Env out;
  if (devices.empty()) return out;
  std::map<std::string, Env> known;
  std::set<std::string> twice;
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(dir, ec)) {
    if (entry.path().extension() != ".json") continue;
    if (Status s = read_spec(entry.path(), known, twice); !s.ok() && s.error().code != Errc::kNotFound) {
      return std::move(s).error();
    }
  }
  for (const std::string& device : devices) {
    if (twice.contains(device))
      return make_error(Errc::kConflict, "CDI device \"{}\" is in two files", device);
    const auto it = known.find(device);
    if (it == known.end()) return make_error(Errc::kNotFound, "unresolvable CDI device \"{}\"", device);
    out.insert(out.end(), it->second.begin(), it->second.end());
  }
  return out;
}

}  // namespace dracpu::sandbox
