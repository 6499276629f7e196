// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/state_codec.h"

#include <boost/json.hpp>

#include "agent/state_json.h"

namespace dracpu::agent {
namespace json = boost::json;
namespace {

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
  if (Status s = optional_text(object, "shareID", path, out.share_id); !s.ok()) return std::move(s).error();
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
  if (Status s = decode_owner(object, path, claim.owner); !s.ok()) return std::move(s).error();
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

Status decode_memory(const json::object& object, State& out) {
  const json::value* claims = object.if_contains("memoryClaims");
  if (claims == nullptr) return ok_status();
  if (!claims->is_array()) return bad("state.memoryClaims", "expected an array");
  for (std::size_t i = 0; i < claims->get_array().size(); ++i) {
    const std::string path = fmt::format("state.memoryClaims[{}]", i);
    Result<std::pair<ClaimUid, memory::Claim>> claim = decode_memory_claim(claims->get_array()[i], path);
    if (!claim.ok()) return std::move(claim).error();
    const ClaimUid uid = claim->first;
    if (std::string rest = unknown_of_memory_claim(claims->get_array()[i].get_object()); !rest.empty())
      out.unknown.memory.emplace(uid, std::move(rest));
    if (!out.memory.insert(*std::move(claim)).second) return bad(path + ".uid", "the claim is there twice");
  }
  return ok_status();
}

}  // namespace

std::string encode_state(const State& state) {
  json::array claims;
  for (const auto& [uid, claim] : state.claims) {
    json::object object{
        {"uid", uid.get()}, {"namespace", claim.ns}, {"name", claim.name}, {"cpus", claim.cpus.to_string()}};
    encode_owner(claim.owner, object);
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
  if (!state.memory.empty()) {
    json::array memory;
    for (const auto& [uid, claim] : state.memory) {
      json::object object = encode_memory_claim(uid, claim);
      if (const auto kept = state.unknown.memory.find(uid); kept != state.unknown.memory.end())
        put_back(object, kept->second);
      memory.push_back(std::move(object));
    }
    out["memoryClaims"] = std::move(memory);
  }
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
    if (std::string rest = unknown_of(claims->get_array()[i].get_object(),
                                      {"uid", "namespace", "name", "cpus", "owner", "preparedAt", "results"},
                                      {"request", "pool", "device", "shareID", "cpus"});
        !rest.empty())
      out.unknown.claims.emplace(uid, std::move(rest));
    if (!out.claims.insert(*std::move(claim)).second) return bad(path + ".uid", "the claim is there twice");
  }
  if (Status s = decode_memory(object, out); !s.ok()) return std::move(s).error();
  if (const json::object rest = others(object, {"bootID", "node", "driver", "claims", "memoryClaims"});
      !rest.empty())
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
