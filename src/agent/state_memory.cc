// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/state_json.h"
#include "memory/types.h"

namespace dracpu::agent {
namespace json = boost::json;
namespace {

Result<std::int64_t> number(const json::object& object, std::string_view key, std::string_view path) {
  const json::value* v = object.if_contains(key);
  if (v == nullptr || !v->is_int64() || v->get_int64() < 0)
    return bad(fmt::format("{}.{}", path, key), "expected a number");
  return v->get_int64();
}

Result<memory::Grant> decode_grant(const json::value& value, std::string_view path) {
  if (!value.is_object()) return bad(path, "expected an object");
  const json::object& object = value.get_object();
  memory::Grant out;
  for (const auto& [key, to] :
       {std::pair{"request", &out.request}, {"pool", &out.pool}, {"device", &out.device}}) {
    Result<std::string> got = text(object, key, path);
    if (!got.ok()) return std::move(got).error();
    *to = *std::move(got);
  }
  if (Status s = optional_text(object, "shareID", path, out.share_id); !s.ok()) return std::move(s).error();
  Result<std::string> name = text(object, "kind", path);
  if (!name.ok()) return std::move(name).error();
  const std::optional<memory::Kind> kind = memory::kind_of_resource(*name);
  if (!kind) return bad(fmt::format("{}.kind", path), "expected \"memory\" or \"hugepages-<size>\"");
  out.kind = *kind;
  const Result<std::int64_t> node = number(object, "node", path);
  if (!node.ok()) return node.error();
  if (*node > INT32_MAX) return bad(fmt::format("{}.node", path), "expected the number of a NUMA node");
  out.node = NumaNodeId(static_cast<std::int32_t>(*node));
  const Result<std::int64_t> bytes = number(object, "bytes", path);
  if (!bytes.ok()) return bytes.error();
  out.bytes = {static_cast<std::uint64_t>(*bytes)};
  return out;
}

}  // namespace

json::object encode_memory_claim(const ClaimUid& uid, const memory::Claim& claim) {
  json::object out{{"uid", uid.get()}, {"namespace", claim.ns}, {"name", claim.name}};
  if (!claim.pod.get().empty()) out["podUID"] = claim.pod.get();
  encode_owner(claim.owner, out);
  json::array results;
  for (const memory::Grant& g : claim.grants) {
    json::object result{{"request", g.request}, {"pool", g.pool},
                        {"device", g.device},   {"kind", memory::resource_name(g.kind)},
                        {"node", g.node.get()}, {"bytes", g.bytes.count}};
    if (g.share_id) result["shareID"] = *g.share_id;
    results.push_back(std::move(result));
  }
  out["results"] = std::move(results);
  return out;
}

Result<std::pair<ClaimUid, memory::Claim>> decode_memory_claim(const json::value& value,
                                                               const std::string& path) {
  if (!value.is_object()) return bad(path, "expected an object");
  const json::object& object = value.get_object();
  memory::Claim claim;
  claim.committed = true;
  Result<std::string> uid = text(object, "uid", path);
  if (!uid.ok()) return std::move(uid).error();
  for (const auto& [key, to] : {std::pair{"namespace", &claim.ns}, {"name", &claim.name}}) {
    Result<std::string> got = text(object, key, path);
    if (!got.ok()) return std::move(got).error();
    *to = *std::move(got);
  }
  std::optional<std::string> pod;
  if (Status s = optional_text(object, "podUID", path, pod); !s.ok()) return std::move(s).error();
  if (pod) claim.pod = PodUid(*std::move(pod));
  if (Status s = decode_owner(object, path, claim.owner); !s.ok()) return std::move(s).error();
  const json::value* results = object.if_contains("results");
  if (results == nullptr || !results->is_array()) return bad(path + ".results", "expected an array");
  for (std::size_t i = 0; i < results->get_array().size(); ++i) {
    Result<memory::Grant> grant =
        decode_grant(results->get_array()[i], fmt::format("{}.results[{}]", path, i));
    if (!grant.ok()) return std::move(grant).error();
    claim.grants.push_back(*std::move(grant));
  }
  return std::pair{ClaimUid(*std::move(uid)), std::move(claim)};
}

std::string unknown_of_memory_claim(const json::object& claim) {
  return unknown_of(claim, {"uid", "namespace", "name", "podUID", "owner", "results"},
                    {"request", "pool", "device", "shareID", "kind", "node", "bytes"});
}

}  // namespace dracpu::agent
