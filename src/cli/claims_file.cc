// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/claims_file.h"

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/escape.h"
#include "cli/yaml_form.h"
#include "config/yaml.h"

namespace dracpu::cli {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxValues = 2'000'000;  // some ten thousand claims

json::value* find(json::value* from, std::string_view key) {
  json::object* fields = from == nullptr ? nullptr : from->if_object();
  return fields == nullptr ? nullptr : fields->if_contains(key);
}

std::string text_at(json::value* from, std::string_view key) {
  const json::value* found = find(from, key);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : std::string();
}

// As the API server fills them in.
void set_defaults(json::value& request) {
  json::object* fields = request.if_object();
  if (fields == nullptr) return;
  if (!fields->contains("allocationMode")) (*fields)["allocationMode"] = "ExactCount";
  if (!fields->contains("count") && (*fields)["allocationMode"] == "ExactCount") (*fields)["count"] = 1;
}

// Amounts above what the API counts become the most that it counts, as the server stores them.
class AmountCap {
 public:
  void cap(json::value* amounts, const std::string& where) {
    json::object* fields = amounts == nullptr ? nullptr : amounts->if_object();
    if (fields == nullptr) return;
    for (auto& [key, value] : *fields) {
      if (!value.is_string()) continue;
      const Result<Quantity> amount = Quantity::parse({value.get_string().data(), value.get_string().size()});
      if (amount.ok() || amount.error().code != Errc::kUnsupported) continue;
      if (!fault_) {
        fault_ = make_error(Errc::kInvalidInput, "{}: {} is {}, the API counts to {}", where,
                            printable(std::string_view(key.data(), key.size())),
                            in_quotes({value.get_string().data(), value.get_string().size()}), INT64_MAX);
      }
      value = value.get_string().starts_with('-') ? -INT64_MAX : INT64_MAX;
    }
  }
  const std::optional<Error>& fault() const { return fault_; }

 private:
  std::optional<Error> fault_;
};

// Defaults set and amounts capped; what was above the cap.
std::optional<Error> complete(json::object& claim) {
  AmountCap amounts;
  json::value* requests = find(find(claim.if_contains("spec"), "devices"), "requests");
  if (requests != nullptr && requests->is_array()) {
    for (json::value& request : requests->get_array()) {
      const auto complete_one = [&](json::value& fields, const std::string& name) {
        set_defaults(fields);
        amounts.cap(find(find(&fields, "capacity"), "requests"), fmt::format("request {}", in_quotes(name)));
      };
      const std::string name = text_at(&request, "name");
      if (json::value* exactly = find(&request, "exactly")) complete_one(*exactly, name);
      json::value* first = find(&request, "firstAvailable");
      if (first == nullptr || !first->is_array()) continue;
      for (json::value& sub : first->get_array()) complete_one(sub, name + "/" + text_at(&sub, "name"));
    }
  }
  json::value* results = find(find(find(claim.if_contains("status"), "allocation"), "devices"), "results");
  if (results != nullptr && results->is_array()) {
    for (json::value& result : results->get_array()) {
      amounts.cap(find(&result, "consumedCapacity"),
                  fmt::format("device {}", in_quotes(text_at(&result, "device"))));
    }
  }
  return amounts.fault();
}

// v1 and v1beta2 have the same fields; older forms have them elsewhere. Items of a typed list have none.
Status check_version(const json::object& object) {
  const json::value* version = object.if_contains("apiVersion");
  if (version == nullptr || version->is_null()) return ok_status();
  for (const char* known : {"resource.k8s.io/v1", "resource.k8s.io/v1beta2"}) {
    if (*version == known) return ok_status();
  }
  return make_error(Errc::kInvalidInput,
                    "apiVersion {} is not read here; use resource.k8s.io/v1, which \"kubectl get "
                    "resourceclaims.v1.resource.k8s.io -o yaml\" gives",
                    version->is_string() ? in_quotes(version->get_string()) : json::serialize(*version));
}

class Reader {
 public:
  Status add(const json::value& value) {
    if (!value.is_object()) return make_error(Errc::kInvalidInput, "not an object");
    json::value object = value;
    const std::string kind = text_at(&object, "kind");
    if (kind == "ResourceClaim") return status_of(add_claim(std::move(object.get_object())));
    if (kind == "ResourceClaimTemplate") return add_template(std::move(object));
    if (kind == "Pod") {
      pods_.push_back(std::move(object));
      return ok_status();
    }
    if (kind.ends_with("List")) return add_items(object, kind);
    if (kind.empty()) return make_error(Errc::kInvalidInput, "kind is missing");
    out_.notes.push_back(fmt::format("a {} was left out", in_quotes(kind)));
    return ok_status();
  }

  Result<ClaimsFile> finish() {
    for (json::value& pod : pods_) {
      if (Status s = add_pod(pod); !s.ok()) {
        return std::move(s).error().while_doing(
            fmt::format("pod {}", in_quotes(text_at(find(&pod, "metadata"), "name"))));
      }
    }
    for (Template& t : templates_) {
      if (t.is_used) continue;
      if (Status s = status_of(add_claim(std::move(t.claim))); !s.ok()) return std::move(s).error();
    }
    if (out_.claims.empty()) {
      std::string notes;
      for (const std::string& note : out_.notes) notes += "; " + note;
      return make_error(Errc::kInvalidInput, "no ResourceClaim in it{}", notes);
    }
    return std::move(out_);
  }

 private:
  struct Template {
    std::string ns;
    std::string name;
    json::object claim;
    bool is_used = false;
  };

  static Status status_of(const Result<std::size_t>& added) {
    return added.ok() ? ok_status() : Status(added.error());
  }

  // A claim as the API server would give it; where it stands.
  Result<std::size_t> add_claim(json::object object) {
    if (Status s = check_version(object); !s.ok()) return std::move(s).error();
    const std::optional<Error> too_much = complete(object);
    json::value& metadata = object["metadata"];
    if (!metadata.is_object()) metadata = json::object();
    json::object& fields = metadata.get_object();
    if (!fields.contains("uid")) fields["uid"] = fmt::format("plan-{}", out_.claims.size() + 1);
    Result<kube::Claim> claim = kube::parse_claim(json::serialize(object));
    if (!claim.ok()) return std::move(claim).error();
    const auto [first, is_new] = by_uid_.emplace(claim->uid, out_.claims.size());
    if (!is_new) {
      return make_error(Errc::kInvalidInput, "claims {} and {} have the same metadata.uid {}; take one out",
                        in_quotes(full_name(out_.claims[first->second])), in_quotes(full_name(*claim)),
                        in_quotes(claim->uid.get()));
    }
    if (too_much) out_.refused.emplace(claim->uid, *too_much);
    out_.claims.push_back(*std::move(claim));
    return first->second;
  }

  Status add_template(json::value object) {
    json::value* inner = find(find(&object, "spec"), "spec");
    if (inner == nullptr) return make_error(Errc::kInvalidInput, "spec.spec is missing");
    json::value claim = *inner;
    Template out{text_at(find(&object, "metadata"), "namespace"), text_at(find(&object, "metadata"), "name"),
                 std::move(object.get_object())};
    out.claim["spec"] = std::move(claim);
    // What is wrong with it is told here, with its place, and once.
    Reader trial;
    if (Status s = status_of(trial.add_claim(out.claim)); !s.ok()) return s;
    templates_.push_back(std::move(out));
    return ok_status();
  }

  Status add_items(json::value& object, const std::string& kind) {
    json::value* items = find(&object, "items");
    const json::array* list = items == nullptr ? nullptr : items->if_array();
    if (list == nullptr) return make_error(Errc::kInvalidInput, "items is no list");
    for (std::size_t i = 0; i < list->size(); ++i) {
      json::value item = (*list)[i];
      // Items of a typed list lack their kind.
      for (const char* known : {"ResourceClaim", "ResourceClaimTemplate", "Pod"}) {
        if (kind == std::string(known) + "List" && item.is_object()) item.get_object()["kind"] = known;
      }
      if (Status s = add(item); !s.ok()) {
        return std::move(s).error().while_doing(fmt::format("items[{}]", i));
      }
    }
    return ok_status();
  }

  Status add_pod(json::value& pod) {
    json::value* metadata = find(&pod, "metadata");
    const std::string ns = text_at(metadata, "namespace");
    const std::string name = text_at(metadata, "name");
    std::string uid = text_at(metadata, "uid");
    if (uid.empty()) uid = fmt::format("pod-{}/{}", ns, name);
    const kube::Consumer user{"", "pods", name, uid};
    // Claims that were made from a template have names of their own.
    std::set<std::string> made;
    json::value* statuses = find(find(&pod, "status"), "resourceClaimStatuses");
    if (statuses != nullptr && statuses->is_array()) {
      for (json::value& s : statuses->get_array()) made.insert(text_at(&s, "name"));
    }
    json::value* entries = find(find(&pod, "spec"), "resourceClaims");
    if (entries == nullptr || !entries->is_array()) return ok_status();
    for (json::value& entry : entries->get_array()) {
      const std::string its = text_at(&entry, "name");
      if (made.contains(its)) continue;
      const std::string claim = text_at(&entry, "resourceClaimName");
      if (Status s = claim.empty()
                         ? make_for(ns, name, its, text_at(&entry, "resourceClaimTemplateName"), user)
                         : use(ns, claim, user);
          !s.ok())
        return s;
    }
    return ok_status();
  }

  Status make_for(const std::string& ns, const std::string& pod, const std::string& entry,
                  const std::string& from, const kube::Consumer& user) {
    const auto found = std::find_if(templates_.begin(), templates_.end(),
                                    [&](const Template& t) { return t.ns == ns && t.name == from; });
    if (found == templates_.end()) return not_there("ResourceClaimTemplate", ns, from, pod);
    found->is_used = true;
    json::object claim = found->claim;
    claim["metadata"] = {{"namespace", ns}, {"name", fmt::format("{}-{}", pod, entry)}};
    const Result<std::size_t> at = add_claim(std::move(claim));
    if (!at.ok()) return at.error();
    out_.claims[*at].reserved_for.push_back(user);
    return ok_status();
  }

  Status use(const std::string& ns, const std::string& name, const kube::Consumer& user) {
    const auto found = std::find_if(out_.claims.begin(), out_.claims.end(),
                                    [&](const kube::Claim& c) { return c.ns == ns && c.name == name; });
    if (found == out_.claims.end()) return not_there("ResourceClaim", ns, name, user.name);
    const auto is_user = [&](const kube::Consumer& c) { return c.uid == user.uid; };
    if (std::none_of(found->reserved_for.begin(), found->reserved_for.end(), is_user))
      found->reserved_for.push_back(user);
    return ok_status();
  }

  Status not_there(std::string_view kind, const std::string& ns, const std::string& name,
                   const std::string& pod) {
    out_.notes.push_back(fmt::format("pod {} names {} {}, which is not in the file", in_quotes(pod), kind,
                                     in_quotes(ns.empty() ? name : ns + "/" + name)));
    return ok_status();
  }

  ClaimsFile out_;
  std::map<ClaimUid, std::size_t> by_uid_;
  std::vector<Template> templates_;
  std::vector<json::value> pods_;
};

}  // namespace

Result<ClaimsFile> read_claims(std::string_view text) {
  const Result<std::vector<config::YamlNode>> documents = config::parse_yaml_documents(text, kMaxValues);
  if (!documents.ok()) return documents.error();
  Reader reader;
  for (std::size_t i = 0; i < documents->size(); ++i) {
    const config::YamlNode& document = (*documents)[i];
    if (Status s = reader.add(to_json(document)); !s.ok()) {
      Error error = std::move(s).error().while_doing(
          fmt::format("document {} ({})", i + 1, config::to_string(document.at)));
      error.code = Errc::kInvalidInput;
      return error;
    }
  }
  return reader.finish();
}

void leave_out_other_nodes(const agent::Node& node, ClaimsFile& file) {
  const std::string& driver = node.config.publish.driver_name;
  const bool has_memory = node.config.memory.enabled;
  std::set<std::string> pools;
  const auto is_elsewhere = [&](const kube::Claim& claim) {
    if (!claim.allocation) return false;
    std::set<std::string> its;
    for (const kube::AllocationResult& r : claim.allocation->results) {
      if (r.driver == driver || (has_memory && r.driver == memory::kDriverName)) its.insert(r.pool);
    }
    if (its.empty() || its.contains(node.name)) return false;
    pools.merge(its);
    return true;
  };
  const std::size_t left_out = std::erase_if(file.claims, is_elsewhere);
  if (left_out == 0) return;
  std::string names;
  for (const std::string& pool : pools) names += (names.empty() ? "" : ", ") + in_quotes(pool);
  file.notes.push_back(fmt::format(
      "{} claim{} of other nodes left out ({}); this plan is of node \"{}\", which node.name in the "
      "configuration sets",
      left_out, left_out == 1 ? "" : "s", printable(names, 400), node.name));
}

}  // namespace dracpu::cli
