// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cdi_view.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <utility>

#include "base/file.h"

namespace dracpu::chaos {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

using Found = std::map<std::string, std::vector<CpuSet>>;

void read_device(const json::value& device, Found& out) {
  const std::string name(device.at("name").as_string());
  if (!name.starts_with("claim-")) return;
  const std::string uid = name.substr(6);
  for (const json::value& e : device.at("containerEdits").at("env").as_array()) {
    const std::string text(e.as_string());
    const std::string key = "DRA_CPUSET_" + uid + "=";
    if (!text.starts_with(key)) continue;
    Result<CpuSet> cpus = CpuSet::parse(text.substr(key.size()));
    if (cpus.ok()) out[uid].push_back(*std::move(cpus));
  }
}

Found read_spec(const fs::path& path) {
  json::error_code bad;
  const json::value root = json::parse(slurp(path).value_or(""), bad);
  if (bad) return {};
  Found out;
  try {
    if (root.at("kind").as_string() != "dra.k8s.io/cpu") return {};
    for (const json::value& device : root.at("devices").as_array()) read_device(device, out);
  } catch (const std::exception&) {  // not of the form
    return {};
  }
  return out;
}

}  // namespace

std::optional<std::string> slurp(const fs::path& path) {
  Result<std::string> text = read_file(path);
  if (!text.ok()) return std::nullopt;
  return *std::move(text);
}

Found claims_in_cdi(const fs::path& folder) {
  Found out;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(folder, ec)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".json") || name.starts_with(".")) continue;
    for (auto& [uid, sets] : read_spec(entry.path()))
      out[uid].insert(out[uid].end(), sets.begin(), sets.end());
  }
  return out;
}

std::optional<CpuSet> claim_in_cdi(const fs::path& folder, const std::string& uid) {
  const Found found = read_spec(folder / ("dra.k8s.io-cpu_claim-" + uid + ".json"));
  const auto it = found.find(uid);
  if (it == found.end() || it->second.size() != 1) return std::nullopt;
  return it->second.front();
}

std::optional<std::map<std::string, CpuSet>> claims_in_state(const fs::path& file) {
  const std::optional<std::string> text = slurp(file);
  if (!text) return std::nullopt;
  const std::size_t line = text->find('\n');
  if (line == std::string::npos) return std::nullopt;
  json::error_code bad;
  const json::value root = json::parse(std::string_view(*text).substr(line + 1), bad);
  if (bad) return std::nullopt;
  std::map<std::string, CpuSet> out;
  try {
    for (const json::value& claim : root.at("claims").as_array()) {
      Result<CpuSet> cpus = CpuSet::parse(std::string_view(claim.at("cpus").as_string()));
      if (cpus.ok()) out[std::string(claim.at("uid").as_string())] = *std::move(cpus);
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return out;
}

std::string cdi_text(const std::map<std::string, CpuSet>& claims) {
  json::array devices;
  for (const auto& [uid, cpus] : claims) {
    const std::string variable = fmt::format("DRA_CPUSET_{}={}", uid, cpus.to_string());
    devices.push_back(json::object{{"name", "claim-" + uid},
                                   {"containerEdits", json::object{{"env", json::array{variable}}}}});
  }
  return json::serialize(json::object{{"cdiVersion", "0.8.0"},
                                      {"kind", "dra.k8s.io/cpu"},
                                      {"devices", devices},
                                      {"containerEdits", json::object{}}});
}

}  // namespace dracpu::chaos
