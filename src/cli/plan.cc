// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/plan.h"

#include <boost/json.hpp>
#include <set>
#include <utility>

#include "agent/state_codec.h"
#include "base/escape.h"
#include "base/file.h"
#include "cli/claims_file.h"
#include "cli/process.h"
#include "cli/yaml_form.h"
#include "config/load.h"
#include "device/build.h"
#include "kube/slice_codec.h"
#include "store/state_file.h"

namespace dracpu::cli {
namespace {

namespace json = boost::json;

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

// "CPUs 0,4; memory 512Mi of NUMA node 1".
std::string what_it_gets(const agent::Planned& gets) {
  std::string out;
  if (!gets.cpus.empty()) out = "CPUs " + gets.cpus.to_string();
  for (const auto& [kind, by_node] : gets.memory) {
    for (const auto& [node, bytes] : by_node) {
      out += fmt::format("{}{} {} of NUMA node {}", out.empty() ? "" : "; ", memory::resource_name(kind),
                         memory::text_of(bytes), node.get());
    }
  }
  return out;
}

json::value memory_json(memory::Kind kind, NumaNodeId node, memory::Bytes bytes) {
  return {{"resource", memory::resource_name(kind)}, {"numaNode", node.get()}, {"bytes", bytes.count}};
}

json::value claim_json(const agent::PlannedClaim& claim) {
  json::object out{{"namespace", claim.ns}, {"name", claim.name}, {"uid", claim.uid.get()}};
  out["chosenBy"] = claim.is_first_fit ? "firstFit" : "claim";
  out["devices"] = json::array(claim.devices.begin(), claim.devices.end());
  if (!claim.gets.ok()) {
    out["error"] = {{"code", code_of(claim.gets.error().code)}, {"message", claim.gets.error().text}};
    return out;
  }
  out["cpus"] = claim.gets->cpus.to_string();
  json::array amounts;
  for (const auto& [kind, by_node] : claim.gets->memory) {
    for (const auto& [node, bytes] : by_node) amounts.push_back(memory_json(kind, node, bytes));
  }
  if (!amounts.empty()) out["memory"] = std::move(amounts);
  return out;
}

}  // namespace

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
    json::object out{{"claims", std::move(claims)}, {"sharedCPUs", plan.shared.to_string()}};
    if (plan.memory) {
      json::array left;
      for (const memory::Standing& s : *plan.memory) left.push_back(memory_json(s.kind, s.node, s.left()));
      out["memoryLeft"] = std::move(left);
    }
    return to_pretty_json(out);
  }
  std::string out;
  for (const agent::PlannedClaim& claim : plan.claims) {
    std::string by = claim.is_first_fit ? "device chosen here, first-fit" : "device from its allocation";
    if (!claim.gets.ok()) {
      out += fmt::format("{}: refused ({}): {}\n", full_name(claim), code_of(claim.gets.error().code),
                         claim.gets.error().text);
      continue;
    }
    const std::string what = what_it_gets(*claim.gets);
    if (what.empty()) {
      out += fmt::format("{}: nothing of this driver\n", full_name(claim));
      continue;
    }
    if (!claim.gets->cpus.empty())
      by = fmt::format("{}; {}", shape_of(machine.topology, claim.gets->cpus), by);
    out += fmt::format("{}: {} ({})\n", full_name(claim), what, by);
  }
  out += fmt::format("shared pool: {}\n", plan.shared.empty() ? "none" : plan.shared.to_string());
  if (plan.memory) {
    std::string left;
    for (const memory::Standing& s : *plan.memory) {
      left += fmt::format("{}{} {}", left.empty() ? "" : ", ", memory::device_name(s.kind, s.node),
                          memory::text_of(s.left()));
    }
    out += fmt::format("memory left: {}\n", left.empty() ? "none" : left);
  }
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
  Result<ClaimsFile> file = read_claims(*text);
  if (!file.ok()) return bad_input(std::move(file).error().while_doing("\"" + line.claims_file + "\""));
  leave_out_other_nodes(loaded->node, *file);
  for (const std::string& note : file->notes) complain(note);
  input.claims = std::move(file->claims);
  input.refused = std::move(file->refused);
  if (line.free_cpus) {
    Result<CpuSet> free = CpuSet::parse(*line.free_cpus);
    if (!free.ok()) return bad_input(std::move(free).error().while_doing("flag --free"));
    input.free = *std::move(free);
  }
  if (!line.state_file.empty()) {
    store::StateFile state_file(line.state_file);
    Result<agent::State> state = agent::load_state(state_file);
    if (!state.ok()) return bad_input(std::move(state).error().while_doing("flag --state"));
    const std::string& driver = loaded->node.config.publish.driver_name;
    if (state->node != loaded->node.name || state->driver != driver) {
      complain(fmt::format(
          "flag --state: \"{}\" is of node \"{}\" and driver \"{}\", this plan of \"{}\" and \"{}\"",
          line.state_file, state->node, state->driver, loaded->node.name, driver));
    }
    input.held = std::move(state->claims);
    input.held_memory = std::move(state->memory);
  }
  Result<agent::Plan> plan = agent::make_plan(loaded->node, *loaded->machine, input);
  if (!plan.ok()) {
    return bad_input(
        std::move(plan).error().while_doing(fmt::format("flag --state: \"{}\"", line.state_file)));
  }
  bool is_refused = false;
  for (const agent::PlannedClaim& claim : plan->claims) is_refused = is_refused || !claim.gets.ok();
  return print_result(plan_text(*plan, *loaded->machine, line.output), is_refused ? kRefused : kOk);
}

}  // namespace dracpu::cli
