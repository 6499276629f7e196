// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/plan.h"

#include <boost/json.hpp>
#include <map>
#include <set>
#include <utility>

#include "agent/state_codec.h"
#include "base/escape.h"
#include "base/file.h"
#include "cli/process.h"
#include "cli/yaml_form.h"
#include "config/load.h"
#include "device/build.h"
#include "kube/slice_codec.h"
#include "store/state_file.h"

namespace dracpu::cli {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxValues = 2'000'000;  // some ten thousand claims

struct NodeAndMachine {
  agent::Node node;
  std::shared_ptr<const agent::Machine> machine;
};

// As the daemon would read them with this file; warnings go to standard error.
Result<NodeAndMachine> load(const CommandLine& line) {
  Result<config::Loaded> loaded = load_config(line.config_file);
  if (!loaded.ok()) return std::move(loaded).error();
  if (!line.sysfs_root.empty()) loaded->config.node.host_root = line.sysfs_root;
  NodeAndMachine out;
  Result<agent::Node> node = agent::build_node(loaded->config);
  if (!node.ok()) return std::move(node).error();
  out.node = *std::move(node);
  Result<std::shared_ptr<const agent::Machine>> machine = agent::read_machine(out.node);
  if (!machine.ok()) return std::move(machine).error();
  out.machine = *std::move(machine);
  if (Status s = agent::check_memory_settings(out.node, *out.machine); !s.ok()) return std::move(s).error();
  for (const std::string& w : out.machine->warnings) complain(w);
  return out;
}

std::string_view code_of(Errc code) {
  switch (code) {
    case Errc::kNoCapacity:
      return "noCapacity";
    case Errc::kUnavailable:
      return "notAllocated";
    case Errc::kConflict:
      return "conflict";
    case Errc::kUnsupported:
      return "unsupported";
    default:
      return "invalid";
  }
}

template <typename AnyClaim>
std::string full_name(const AnyClaim& claim) {
  return claim.ns.empty() ? claim.name : claim.ns + "/" + claim.name;
}

// As the API server fills them in.
void set_defaults(json::value& request) {
  json::object* fields = request.if_object();
  if (fields == nullptr) return;
  if (!fields->contains("allocationMode")) (*fields)["allocationMode"] = "ExactCount";
  if (!fields->contains("count") && (*fields)["allocationMode"] == "ExactCount") (*fields)["count"] = 1;
}

json::value* find(json::value* from, std::string_view key) {
  json::object* fields = from == nullptr ? nullptr : from->if_object();
  return fields == nullptr ? nullptr : fields->if_contains(key);
}

void set_defaults_of_claim(json::object& claim) {
  json::value* requests = find(find(claim.if_contains("spec"), "devices"), "requests");
  if (requests == nullptr || !requests->is_array()) return;
  for (json::value& request : requests->get_array()) {
    if (json::value* exactly = find(&request, "exactly")) set_defaults(*exactly);
    json::value* first = find(&request, "firstAvailable");
    if (first == nullptr || !first->is_array()) continue;
    for (json::value& sub : first->get_array()) set_defaults(sub);
  }
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

// "2 cores, NUMA node 0": how the CPUs lie.
std::string shape_of(const topology::Topology& t, const CpuSet& cpus) {
  std::set<std::size_t> cores;
  std::set<NumaNodeId> nodes;
  cpus.for_each([&](CpuId id) {
    const auto it = t.cpus.find(id);
    if (it == t.cpus.end()) return;
    cores.insert(it->second.core);
    if (it->second.node) nodes.insert(*it->second.node);
  });
  std::string out = fmt::format("{} CPU{} of {} core{}", cpus.size(), cpus.size() == 1 ? "" : "s",
                                cores.size(), cores.size() == 1 ? "" : "s");
  std::string list;
  for (const NumaNodeId n : nodes) list += fmt::format("{}{}", list.empty() ? "" : ",", n.get());
  return nodes.empty() ? out : out + ", NUMA node " + list;
}

json::value claim_json(const agent::PlannedClaim& claim) {
  json::object out{{"namespace", claim.ns}, {"name", claim.name}, {"uid", claim.uid.get()}};
  out["chosenBy"] = claim.is_first_fit ? "firstFit" : "claim";
  out["devices"] = json::array(claim.devices.begin(), claim.devices.end());
  if (claim.cpus.ok()) {
    out["cpus"] = claim.cpus->to_string();
  } else {
    out["error"] = {{"code", code_of(claim.cpus.error().code)}, {"message", claim.cpus.error().text}};
  }
  return out;
}

std::string kind_of(const json::object& object) {
  const json::value* kind = object.if_contains("kind");
  return kind != nullptr && kind->is_string() ? std::string(kind->get_string()) : std::string();
}

struct ClaimsRead {
  std::vector<kube::Claim> claims;
  std::map<ClaimUid, std::size_t> by_uid;
  std::vector<std::string>& notes;
};

// A claim as the API server would give it.
Status add_claim(json::object object, ClaimsRead& out) {
  if (Status s = check_version(object); !s.ok()) return s;
  set_defaults_of_claim(object);
  json::value& metadata = object["metadata"];
  if (!metadata.is_object()) metadata = json::object();
  json::object& fields = metadata.get_object();
  if (!fields.contains("uid")) fields["uid"] = fmt::format("plan-{}", out.claims.size() + 1);
  Result<kube::Claim> claim = kube::parse_claim(json::serialize(object));
  if (!claim.ok()) return std::move(claim).error();
  const auto [first, is_new] = out.by_uid.emplace(claim->uid, out.claims.size());
  if (!is_new) {
    return make_error(Errc::kInvalidInput, "claims {} and {} have the same metadata.uid {}; take one out",
                      in_quotes(full_name(out.claims[first->second])), in_quotes(full_name(*claim)),
                      in_quotes(claim->uid.get()));
  }
  out.claims.push_back(*std::move(claim));
  return ok_status();
}

Status add_object(const json::value& value, ClaimsRead& out) {
  const json::object* object = value.if_object();
  if (object == nullptr) return make_error(Errc::kInvalidInput, "not an object");
  const std::string kind = kind_of(*object);
  if (kind == "ResourceClaim") return add_claim(*object, out);
  if (kind == "ResourceClaimTemplate") {
    json::object claim = *object;
    const json::value* spec = object->if_contains("spec");
    const json::object* fields = spec == nullptr ? nullptr : spec->if_object();
    const json::value* inner = fields == nullptr ? nullptr : fields->if_contains("spec");
    if (inner == nullptr) return make_error(Errc::kInvalidInput, "spec.spec is missing");
    claim["spec"] = *inner;
    return add_claim(std::move(claim), out);
  }
  if (kind.ends_with("List")) {
    const json::value* items = object->if_contains("items");
    const json::array* list = items == nullptr ? nullptr : items->if_array();
    if (list == nullptr) return make_error(Errc::kInvalidInput, "items is no list");
    for (std::size_t i = 0; i < list->size(); ++i) {
      json::value item = (*list)[i];
      // Items of a typed list lack their kind.
      if (kind == "ResourceClaimList" && item.is_object()) item.get_object()["kind"] = "ResourceClaim";
      if (Status s = add_object(item, out); !s.ok()) {
        return std::move(s).error().while_doing(fmt::format("items[{}]", i));
      }
    }
    return ok_status();
  }
  if (kind.empty()) return make_error(Errc::kInvalidInput, "kind is missing");
  out.notes.push_back(fmt::format("a {} was left out", in_quotes(kind)));
  return ok_status();
}

}  // namespace

Result<std::vector<kube::Claim>> read_claims(std::string_view text, std::vector<std::string>& notes) {
  const Result<std::vector<config::YamlNode>> documents = config::parse_yaml_documents(text, kMaxValues);
  if (!documents.ok()) return documents.error();
  ClaimsRead out{{}, {}, notes};
  for (std::size_t i = 0; i < documents->size(); ++i) {
    const config::YamlNode& document = (*documents)[i];
    if (Status s = add_object(to_json(document), out); !s.ok()) {
      Error error = std::move(s).error().while_doing(
          fmt::format("document {} ({})", i + 1, config::to_string(document.at)));
      error.code = Errc::kInvalidInput;
      return error;
    }
  }
  if (out.claims.empty()) return make_error(Errc::kInvalidInput, "no ResourceClaim in it");
  return std::move(out.claims);
}

void leave_out_other_nodes(const agent::Node& node, std::vector<kube::Claim>& claims,
                           std::vector<std::string>& notes) {
  const std::string& driver = node.config.publish.driver_name;
  std::set<std::string> pools;
  const auto is_elsewhere = [&](const kube::Claim& claim) {
    if (!claim.allocation) return false;
    std::set<std::string> its;
    for (const kube::AllocationResult& r : claim.allocation->results) {
      if (r.driver == driver) its.insert(r.pool);
    }
    if (its.empty() || its.contains(node.name)) return false;
    pools.merge(its);
    return true;
  };
  const std::size_t left_out = std::erase_if(claims, is_elsewhere);
  if (left_out == 0) return;
  std::string names;
  for (const std::string& pool : pools) names += (names.empty() ? "" : ", ") + in_quotes(pool);
  notes.push_back(fmt::format(
      "{} claim{} of other nodes left out ({}); this plan is of node \"{}\", which node.name in the "
      "configuration sets",
      left_out, left_out == 1 ? "" : "s", printable(names, 400), node.name));
}

std::string devices_text(const agent::Node& node, const agent::Machine& machine, std::string_view form) {
  std::optional<kube::AllocatableMapping> mapping;
  const std::string& driver = node.config.publish.driver_name;
  if (node.config.publish.node_allocatable_mapping) {
    mapping = kube::AllocatableMapping{"cpu", device::cpu_capacity_name(driver)};
  }
  json::array items;
  const auto add = [&](const std::string& of, const std::vector<device::Slice>& slices,
                       const std::optional<kube::AllocatableMapping>& mapped) {
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const kube::WireSlice wire = kube::encode_slice(slices[i], {}, mapped);
      json::value body = json::parse(kube::create_body({of, node.name, "", 1, slices.size()}, i, wire));
      body.at("metadata").as_object().erase("ownerReferences");  // the Node object is the cluster's
      items.push_back(std::move(body));
    }
  };
  add(driver, agent::cpu_slices(node, machine, machine.memory ? &machine.memory->inventory : nullptr),
      mapping);
  if (machine.memory && !agent::comes_with_memory(node.config))
    add(std::string(memory::kDriverName), machine.memory->published.slices, {});
  const json::value list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}};
  return form == "json" ? to_pretty_json(list) : to_yaml(list);
}

std::string plan_text(const agent::Plan& plan, const agent::Machine& machine, std::string_view form) {
  if (form == "json") {
    json::array claims;
    for (const agent::PlannedClaim& claim : plan.claims) claims.push_back(claim_json(claim));
    return to_pretty_json({{"claims", std::move(claims)}, {"sharedCPUs", plan.shared.to_string()}});
  }
  std::string out;
  for (const agent::PlannedClaim& claim : plan.claims) {
    const std::string by =
        claim.is_first_fit ? "device chosen here, first-fit" : "device from its allocation";
    if (!claim.cpus.ok()) {
      out += fmt::format("{}: refused ({}): {}\n", full_name(claim), code_of(claim.cpus.error().code),
                         claim.cpus.error().text);
    } else if (claim.cpus->empty()) {
      out += fmt::format("{}: nothing of this driver\n", full_name(claim));
    } else {
      out += fmt::format("{}: CPUs {} ({}; {})\n", full_name(claim), claim.cpus->to_string(),
                         shape_of(machine.topology, *claim.cpus), by);
    }
  }
  out += fmt::format("shared pool: {}\n", plan.shared.empty() ? "none" : plan.shared.to_string());
  return printable(out);
}

int run_devices(const CommandLine& line) {
  const Result<NodeAndMachine> loaded = load(line);
  if (!loaded.ok()) return bad_input(loaded.error());
  if (loaded->machine->devices.empty())
    complain("no CPU is left to publish: every one is reserved, offline or left out");
  return print_result(devices_text(loaded->node, *loaded->machine, line.output), kOk);
}

int run_plan(const CommandLine& line) {
  const Result<NodeAndMachine> loaded = load(line);
  if (!loaded.ok()) return bad_input(loaded.error());
  Result<std::string> text = read_file(input_name(line.claims_file));
  if (!text.ok()) return bad_input(text.error());
  agent::PlanInput input;
  std::vector<std::string> notes;
  Result<std::vector<kube::Claim>> claims = read_claims(*text, notes);
  if (!claims.ok()) return bad_input(std::move(claims).error().while_doing("\"" + line.claims_file + "\""));
  leave_out_other_nodes(loaded->node, *claims, notes);
  for (const std::string& note : notes) complain(note);
  input.claims = *std::move(claims);
  if (line.free_cpus) {
    Result<CpuSet> free = CpuSet::parse(*line.free_cpus);
    if (!free.ok()) return bad_input(std::move(free).error().while_doing("flag --free"));
    input.free = *std::move(free);
  }
  if (!line.state_file.empty()) {
    store::StateFile file(line.state_file);
    Result<agent::State> state = agent::load_state(file);
    if (!state.ok()) return bad_input(std::move(state).error().while_doing("flag --state"));
    const std::string& driver = loaded->node.config.publish.driver_name;
    if (state->node != loaded->node.name || state->driver != driver) {
      complain(fmt::format(
          "flag --state: \"{}\" is of node \"{}\" and driver \"{}\", this plan of \"{}\" and \"{}\"",
          line.state_file, state->node, state->driver, loaded->node.name, driver));
    }
    input.held = std::move(state->claims);
  }
  Result<agent::Plan> plan = agent::make_plan(loaded->node, *loaded->machine, input);
  if (!plan.ok()) {
    return bad_input(
        std::move(plan).error().while_doing(fmt::format("flag --state: \"{}\"", line.state_file)));
  }
  bool is_refused = false;
  for (const agent::PlannedClaim& claim : plan->claims) is_refused = is_refused || !claim.cpus.ok();
  return print_result(plan_text(*plan, *loaded->machine, line.output), is_refused ? kRefused : kOk);
}

}  // namespace dracpu::cli
