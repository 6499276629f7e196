// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/opaque_config.h"

#include <boost/json.hpp>
#include <string>

#include "base/strings.h"

namespace dracpu::agent {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxParameters = std::size_t{10} << 10U;  // the API's own limit

Error wrong(std::string text) { return Error{Errc::kInvalidInput, std::move(text)}; }

// The text at a key; empty if it is not there.
Result<std::string> text_at(const json::object& object, std::string_view key, std::string_view path) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || value->is_null()) return std::string();
  if (!value->is_string()) return wrong(fmt::format("{} is {}, not a text", path, json::serialize(*value)));
  return std::string(value->as_string());
}

}  // namespace

Result<CpuSet> parse_chosen_cpus(std::string_view parameters) {
  if (trim(parameters).empty()) return wrong("the parameters are empty: no cpuset found");
  if (parameters.size() > kMaxParameters)
    return wrong(fmt::format("the parameters have {} bytes", parameters.size()));
  json::error_code failed;
  const json::value root = json::parse(parameters, failed);
  if (failed) return wrong("the parameters are not JSON: " + failed.message());
  const json::object* object = root.if_object();
  if (object == nullptr) return wrong("the parameters are no JSON object");
  if (object->empty()) return wrong("the parameters are empty: no cpuset found");

  const Result<std::string> kind = text_at(*object, "kind", "kind");
  if (!kind.ok()) return kind.error();
  if (!kind->empty()) {
    return make_error(Errc::kUnsupported, "kind \"{}\" is not known; leave it out and use cpuConfig.cpuset",
                      *kind);
  }
  const Result<std::string> version = text_at(*object, "apiVersion", "apiVersion");
  if (!version.ok()) return version.error();
  if (*version != "v1alpha1")
    return wrong(fmt::format("apiVersion is \"{}\", it must be \"v1alpha1\"", *version));

  const json::value* config = object->if_contains("cpuConfig");
  const json::object* inner = config == nullptr ? nullptr : config->if_object();
  if (inner == nullptr) return wrong("cpuConfig.cpuset is missing");
  const Result<std::string> text = text_at(*inner, "cpuset", "cpuConfig.cpuset");
  if (!text.ok()) return text.error();
  if (trim(*text).empty()) return wrong("cpuConfig.cpuset is missing or empty");
  Result<CpuSet> cpus = CpuSet::parse(*text);
  if (!cpus.ok()) return wrong(fmt::format("cpuConfig.cpuset \"{}\": {}", *text, cpus.error().text));
  return cpus;
}

}  // namespace dracpu::agent
