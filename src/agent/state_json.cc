// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/state_json.h"

#include <algorithm>

namespace dracpu::agent {
namespace json = boost::json;

Error bad(std::string_view path, std::string_view what) {
  return make_error(Errc::kCorrupt, "{}: {}", path, what);
}

Result<std::string> text(const json::object& object, std::string_view key, std::string_view path) {
  const json::value* v = object.if_contains(key);
  if (v == nullptr || !v->is_string()) return bad(fmt::format("{}.{}", path, key), "expected a string");
  return std::string(v->get_string().c_str(), v->get_string().size());
}

// The members of `object` that are not in `known`.
json::object others(const json::object& object, std::initializer_list<std::string_view> known) {
  json::object out;
  for (const json::key_value_pair& member : object) {
    if (std::find(known.begin(), known.end(), std::string_view(member.key())) == known.end())
      out.emplace(member.key(), member.value());
  }
  return out;
}

Status optional_text(const json::object& object, std::string_view key, std::string_view path,
                     std::optional<std::string>& out) {
  if (!object.contains(key)) return ok_status();
  Result<std::string> got = text(object, key, path);
  if (!got.ok()) return std::move(got).error();
  out = *std::move(got);
  return ok_status();
}

Status decode_owner(const json::object& claim, const std::string& path, std::optional<Owner>& out) {
  const json::value* owner = claim.if_contains("owner");
  if (owner == nullptr) return ok_status();
  if (!owner->is_object()) return bad(path + ".owner", "expected an object");
  Result<std::string> pod = text(owner->get_object(), "podUID", path + ".owner");
  if (!pod.ok()) return std::move(pod).error();
  Result<std::string> container = text(owner->get_object(), "container", path + ".owner");
  if (!container.ok()) return std::move(container).error();
  out = Owner{PodUid(*std::move(pod)), *std::move(container)};
  return ok_status();
}

void encode_owner(const std::optional<Owner>& owner, json::object& claim) {
  if (owner) claim["owner"] = json::object{{"podUID", owner->pod.get()}, {"container", owner->container}};
}

// What is not known of a claim; of its results by place, with the names that tell whether the place is still
// of the same result.
std::string unknown_of(const json::object& claim, std::initializer_list<std::string_view> fields,
                       std::initializer_list<std::string_view> result_fields) {
  json::object out = others(claim, fields);
  const json::value* results = claim.if_contains("results");
  json::array kept;
  bool any = false;
  if (results != nullptr) {
    for (const json::value& r : results->get_array()) {
      json::object rest = others(r.get_object(), result_fields);
      any = any || !rest.empty();
      rest["request"] = r.at("request");
      rest["device"] = r.at("device");
      kept.emplace_back(std::move(rest));
    }
  }
  if (any) out["results"] = std::move(kept);
  return out.empty() ? "" : json::serialize(out);
}

void add_missing(json::object& to, const json::object& from) {
  for (const json::key_value_pair& member : from) {
    if (!to.contains(member.key())) to.emplace(member.key(), member.value());
  }
}

// Puts back what unknown_of() kept.
void put_back(json::object& claim, const std::string& text) {
  json::error_code ec;
  const json::value kept = json::parse(text, ec);
  if (ec || !kept.is_object()) return;
  const json::value* old = kept.get_object().if_contains("results");
  json::array& results = claim["results"].get_array();
  if (old != nullptr && old->get_array().size() == results.size()) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      const json::object& from = old->get_array()[i].get_object();
      json::object& to = results[i].get_object();
      if (from.at("request") == to.at("request") && from.at("device") == to.at("device"))
        add_missing(to, from);
    }
  }
  add_missing(claim, kept.get_object());
}

}  // namespace dracpu::agent
