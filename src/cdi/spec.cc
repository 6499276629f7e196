// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cdi/spec.h"

#include <algorithm>
#include <boost/json.hpp>
#include <exception>

#include "cdi/directory.h"

namespace dracpu::cdi {
namespace {

namespace json = boost::json;

constexpr std::string_view kDevicePrefix = "claim-";
constexpr std::string_view kVersion = "0.8.0";  // spec driver-behaviours section 12
constexpr std::size_t kMaxDepth = 16;           // the format itself needs 5

std::string_view view(const json::string& s) { return {s.data(), s.size()}; }

Result<json::value> parse_json(std::string_view text) {
  try {
    json::parse_options options;
    options.max_depth = kMaxDepth;
    json::error_code ec;
    json::value v = json::parse(json::string_view(text.data(), text.size()), ec, {}, options);
    if (ec) return make_error(Errc::kCorrupt, "not JSON: {}", ec.message());
    return v;
  } catch (const std::exception& e) {
    return make_error(Errc::kCorrupt, "not JSON: {}", e.what());
  }
}

// The file's device list, after its kind was checked.
Result<json::array*> devices_of(json::value& file, std::string_view wanted) {
  json::object* const top = file.if_object();
  if (top == nullptr) return make_error(Errc::kCorrupt, "not a JSON object");
  const json::value* const kind = top->if_contains("kind");
  const json::string* const text = kind != nullptr ? kind->if_string() : nullptr;
  if (text == nullptr || view(*text) != wanted)
    return make_error(Errc::kCorrupt, "kind is not \"{}\"", wanted);
  json::value* const devices = top->if_contains("devices");
  json::array* const list = devices != nullptr ? devices->if_array() : nullptr;
  if (list == nullptr) return make_error(Errc::kCorrupt, "no list of devices");
  return list;
}

Result<ClaimUid> uid_of(const json::value& device) {
  const json::object* const object = device.if_object();
  const json::value* const name = object != nullptr ? object->if_contains("name") : nullptr;
  const json::string* const text = name != nullptr ? name->if_string() : nullptr;
  if (text == nullptr || !view(*text).starts_with(kDevicePrefix)) {
    return make_error(Errc::kCorrupt, "a device that is not named \"{}<UID>\"", kDevicePrefix);
  }
  ClaimUid uid{std::string(view(*text).substr(kDevicePrefix.size()))};
  if (Status s = check_uid(uid); !s.ok()) return Error{Errc::kCorrupt, s.error().text};
  return uid;
}

std::vector<std::string> env_of(const json::object& device) {
  const json::value* const edits = device.if_contains("containerEdits");
  const json::object* const object = edits != nullptr ? edits->if_object() : nullptr;
  const json::value* const env = object != nullptr ? object->if_contains("env") : nullptr;
  const json::array* const list = env != nullptr ? env->if_array() : nullptr;
  std::vector<std::string> out;
  if (list == nullptr) return out;
  for (const json::value& item : *list) {
    if (const json::string* const text = item.if_string()) out.emplace_back(view(*text));
  }
  return out;
}

bool needs_escaping(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; });
}

}  // namespace

Result<std::string> variables_spec(std::string_view kind, const ClaimUid& uid,
                                   const std::vector<std::string>& env) {
  std::string list;
  for (const std::string& entry : env) {
    if (needs_escaping(entry))
      return make_error(Errc::kInvalidInput, "variable {:?} cannot be written", entry);
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ",", entry);
  }
  return fmt::format(
      R"({{"cdiVersion":"{}","kind":"{}","devices":[{{"name":"{}{}","containerEdits":{{"env":[{}]}}}}],)"
      R"("containerEdits":{{}}}})",
      kVersion, kind, kDevicePrefix, uid.get(), list);
}

Result<std::vector<SpecVariables>> parse_variables(std::string_view text, std::string_view kind) {
  Result<json::value> file = parse_json(text);
  if (!file.ok()) return std::move(file).error();
  const Result<json::array*> devices = devices_of(*file, kind);
  if (!devices.ok()) return devices.error();
  std::vector<SpecVariables> out;
  for (const json::value& device : **devices) {
    Result<ClaimUid> uid = uid_of(device);
    if (!uid.ok()) return std::move(uid).error();
    out.push_back({std::move(uid).value(), env_of(*device.if_object())});
  }
  return out;
}

Result<std::string> without_claim(std::string_view text, std::string_view kind, const ClaimUid& uid) {
  Result<json::value> file = parse_json(text);
  if (!file.ok()) return std::move(file).error();
  const Result<json::array*> devices = devices_of(*file, kind);
  if (!devices.ok()) return devices.error();
  json::array& list = **devices;
  for (auto it = list.begin(); it != list.end();) {
    const Result<ClaimUid> holder = uid_of(*it);
    it = holder.ok() && *holder == uid ? list.erase(it) : it + 1;
  }
  if (list.empty()) return std::string();
  try {
    return json::serialize(*file);
  } catch (const std::exception& e) {
    return make_error(Errc::kInternal, "writing JSON: {}", e.what());
  }
}

Result<CpuSet> cpus_in(const ClaimUid& uid, const std::vector<std::string>& env) {
  const std::string start = env_name(uid) + "=";
  std::string_view value;
  int found = 0;
  for (const std::string& text : env) {
    if (!text.starts_with(start)) continue;
    value = std::string_view(text).substr(start.size());
    ++found;
  }
  if (found != 1) return make_error(Errc::kCorrupt, "variable {} occurs {} times", env_name(uid), found);
  Result<CpuSet> cpus = CpuSet::parse(value);
  if (!cpus.ok()) return make_error(Errc::kCorrupt, "variable {}: {}", env_name(uid), cpus.error().text);
  if (cpus->empty()) return make_error(Errc::kCorrupt, "variable {} is empty", env_name(uid));
  return cpus;
}

std::string claim_spec(const ClaimUid& uid, const CpuSet& cpus) {
  return variables_spec(kCpuFiles.kind, uid, {fmt::format("{}={}", env_name(uid), cpus.to_string())}).value();
}

Result<std::vector<SpecDevice>> parse_spec(std::string_view text) {
  Result<std::vector<SpecVariables>> devices = parse_variables(text, kCpuFiles.kind);
  if (!devices.ok()) return std::move(devices).error();
  std::vector<SpecDevice> out;
  for (const SpecVariables& d : *devices) out.push_back({d.uid, cpus_in(d.uid, d.env)});
  return out;
}

Result<std::string> without_claim(std::string_view text, const ClaimUid& uid) {
  return without_claim(text, kCpuFiles.kind, uid);
}

}  // namespace dracpu::cdi
