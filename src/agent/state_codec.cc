// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/state_codec.h"

#include <algorithm>
#include <boost/json.hpp>
#include <initializer_list>

namespace dracpu::agent {
namespace json = boost::json;
namespace {

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

// What is not known of a claim; of its results by place, with the names that tell whether the place is still
// of the same result.
std::string unknown_of(const json::object& claim) {
  json::object out = others(claim, {"uid", "namespace", "name", "cpus", "owner", "preparedAt", "results"});
  const json::value* results = claim.if_contains("results");
  json::array kept;
  bool any = false;
  if (results != nullptr) {
    for (const json::value& r : results->get_array()) {
      json::object rest = others(r.get_object(), {"request", "pool", "device", "shareID", "cpus"});
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

Result<ledger::Grant> decode_grant(const json::value& value, std::string_view path) {
  if (!value.is_object()) return bad(path, "expected an object");
  const json::object& object = value.get_object();
  ledger::Grant out;
  for (const auto& [key, to] :
       {std::pair{"request", &out.request}, {"pool", &out.pool}, {"device", &out.device}}) {
    Result<std::string> got = text(object, key, path);
    if (!got.ok()) return std::move(got).error();
    *to = *std::move(got);
  }
  if (object.contains("shareID")) {
    Result<std::string> share = text(object, "shareID", path);
    if (!share.ok()) return std::move(share).error();
    out.share_id = *std::move(share);
  }
  const json::value* cpus = object.if_contains("cpus");
  if (cpus == nullptr || !cpus->is_int64() || cpus->get_int64() < 0) {
    return bad(fmt::format("{}.cpus", path), "expected a number");
  }
  out.cpus = static_cast<std::size_t>(cpus->get_int64());
  return out;
}

Result<std::pair<ClaimUid, ledger::Claim>> decode_claim(const json::value& value, const std::string& path) {
  if (!value.is_object()) return bad(path, "expected an object");
  const json::object& object = value.get_object();
  ledger::Claim claim;
  Result<std::string> uid = text(object, "uid", path);
  if (!uid.ok()) return std::move(uid).error();
  Result<std::string> ns = text(object, "namespace", path);
  if (!ns.ok()) return std::move(ns).error();
  Result<std::string> name = text(object, "name", path);
  if (!name.ok()) return std::move(name).error();
  Result<std::string> list = text(object, "cpus", path);
  if (!list.ok()) return std::move(list).error();
  Result<CpuSet> cpus = CpuSet::parse(*list);
  if (!cpus.ok()) return bad(path + ".cpus", cpus.error().text);
  claim.ns = *std::move(ns);
  claim.name = *std::move(name);
  claim.cpus = *std::move(cpus);
  claim.committed = true;
  if (const json::value* owner = object.if_contains("owner"); owner != nullptr) {
    if (!owner->is_object()) return bad(path + ".owner", "expected an object");
    Result<std::string> pod = text(owner->get_object(), "podUID", path + ".owner");
    if (!pod.ok()) return std::move(pod).error();
    Result<std::string> container = text(owner->get_object(), "container", path + ".owner");
    if (!container.ok()) return std::move(container).error();
    claim.owner = ledger::Owner{PodUid(*std::move(pod)), *std::move(container)};
  }
  if (const json::value* at = object.if_contains("preparedAt"); at != nullptr) {
    if (!at->is_int64()) return bad(path + ".preparedAt", "expected a number");
    claim.prepared_at = at->get_int64();
  }
  if (const json::value* results = object.if_contains("results"); results != nullptr) {
    if (!results->is_array()) return bad(path + ".results", "expected an array");
    for (std::size_t i = 0; i < results->get_array().size(); ++i) {
      Result<ledger::Grant> grant =
          decode_grant(results->get_array()[i], fmt::format("{}.results[{}]", path, i));
      if (!grant.ok()) return std::move(grant).error();
      claim.grants.push_back(*std::move(grant));
    }
  }
  return std::pair{ClaimUid(*std::move(uid)), std::move(claim)};
}

}  // namespace

std::string encode_state(const State& state) {
  json::array claims;
  for (const auto& [uid, claim] : state.claims) {
    json::object object{
        {"uid", uid.get()}, {"namespace", claim.ns}, {"name", claim.name}, {"cpus", claim.cpus.to_string()}};
    if (claim.owner) {
      object["owner"] =
          json::object{{"podUID", claim.owner->pod.get()}, {"container", claim.owner->container}};
    }
    if (claim.prepared_at != 0) object["preparedAt"] = claim.prepared_at;
    json::array results;
    for (const ledger::Grant& g : claim.grants) {
      json::object result{{"request", g.request}, {"pool", g.pool}, {"device", g.device}, {"cpus", g.cpus}};
      if (g.share_id) result["shareID"] = *g.share_id;
      results.push_back(std::move(result));
    }
    object["results"] = std::move(results);
    if (const auto kept = state.unknown.claims.find(uid); kept != state.unknown.claims.end())
      put_back(object, kept->second);
    claims.push_back(std::move(object));
  }
  json::object out{{"bootID", state.boot_id},
                   {"node", state.node},
                   {"driver", state.driver},
                   {"claims", std::move(claims)}};
  if (!state.unknown.top.empty()) {
    json::error_code ec;
    const json::value kept = json::parse(state.unknown.top, ec);
    if (!ec && kept.is_object()) add_missing(out, kept.get_object());
  }
  return json::serialize(out) + "\n";
}

Result<State> decode_state(std::string_view text_in) {
  json::error_code ec;
  const json::value root = json::parse(text_in, ec);
  if (ec) return bad("state", ec.message());
  if (!root.is_object()) return bad("state", "expected an object");
  const json::object& object = root.get_object();
  State out;
  for (const auto& [key, to] :
       {std::pair{"bootID", &out.boot_id}, {"node", &out.node}, {"driver", &out.driver}}) {
    Result<std::string> got = text(object, key, "state");
    if (!got.ok()) return std::move(got).error();
    *to = *std::move(got);
  }
  const json::value* claims = object.if_contains("claims");
  if (claims == nullptr || !claims->is_array()) return bad("state.claims", "expected an array");
  for (std::size_t i = 0; i < claims->get_array().size(); ++i) {
    const std::string path = fmt::format("state.claims[{}]", i);
    Result<std::pair<ClaimUid, ledger::Claim>> claim = decode_claim(claims->get_array()[i], path);
    if (!claim.ok()) return std::move(claim).error();
    const ClaimUid uid = claim->first;
    if (std::string rest = unknown_of(claims->get_array()[i].get_object()); !rest.empty())
      out.unknown.claims.emplace(uid, std::move(rest));
    if (!out.claims.insert(*std::move(claim)).second) return bad(path + ".uid", "the claim is there twice");
  }
  if (const json::object rest = others(object, {"bootID", "node", "driver", "claims"}); !rest.empty())
    out.unknown.top = json::serialize(rest);
  return out;
}

Result<State> load_state(store::StateFile& file) {
  const Result<std::string> payload = file.load();
  if (!payload.ok()) return payload.error();
  Result<State> state = decode_state(*payload);
  if (!state.ok())
    return std::move(state).error().while_doing(fmt::format("state file \"{}\"", file.path().string()));
  return state;
}

}  // namespace dracpu::agent
