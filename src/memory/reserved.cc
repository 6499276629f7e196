// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/reserved.h"

#include <optional>
#include <utility>

#include "base/quantity.h"
#include "base/strings.h"
#include "memory/discovery.h"

namespace dracpu::memory {
namespace {

constexpr std::string_view kShown = "memory.reserved";

// The two sides of the first separator; nothing where there is none.
std::optional<std::pair<std::string_view, std::string_view>> cut(std::string_view text, char separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return std::nullopt;
  return std::pair{trim(text.substr(0, at)), trim(text.substr(at + 1))};
}

Error of_node(NumaNodeId node, std::string_view what) {
  return make_error(Errc::kInvalidInput, "{}: NUMA node {}: {}", kShown, node.get(), what);
}

Error no_memory(std::string_view setting, NumaNodeId node) {
  return make_error(Errc::kInvalidInput, "{}: NUMA node {} has no memory on this machine", setting,
                    node.get());
}

Status read_entry(std::string_view entry, Amounts& out) {
  const Error malformed =
      make_error(Errc::kInvalidInput, "{}: entry \"{}\" is not <numa node>:<type>=<quantity>", kShown, entry);
  const auto sides = cut(entry, ':');
  const std::optional<std::int32_t> id =
      sides ? parse_number<std::int32_t>(sides->first) : std::optional<std::int32_t>();
  if (!id || *id < 0) return malformed;
  const NumaNodeId node(*id);
  for (const std::string_view item : split(sides->second, ',')) {
    const auto assignment = cut(item, '=');
    if (!assignment || assignment->first.empty()) return malformed;
    const auto& [type, text] = *assignment;
    const Result<Quantity> quantity = Quantity::parse(text);
    if (!quantity.ok() || !quantity->is_whole()) return malformed;
    const std::optional<Kind> kind = kind_of_resource(type);
    if (!kind) return of_node(node, fmt::format("unknown type \"{}\"", type));
    if (*quantity <= Quantity(0)) return of_node(node, fmt::format("{} must be greater than zero", type));
    const Bytes amount{static_cast<std::uint64_t>(*quantity->to_int64())};
    if (kind->is_hugepages() && !is_multiple(amount, kind->page())) {
      return of_node(node, fmt::format("{}={} is not a multiple of the page size", type, text_of(amount)));
    }
    if (!out[*kind].emplace(node, amount).second)
      return of_node(node, fmt::format("{} is given twice", type));
  }
  return ok_status();
}

}  // namespace

Result<Amounts> parse_reserved(std::string_view text) {
  Amounts out;
  if (trim(text).empty()) return out;
  for (const std::string_view entry : split(text, ';')) {
    if (Status s = read_entry(trim(entry), out); !s.ok()) return std::move(s).error();
  }
  return out;
}

Result<std::set<NumaNodeId>> parse_nodes(std::string_view text) {
  std::optional<std::set<NumaNodeId>> nodes = nodes_in_list(trim(text));
  if (nodes) return *std::move(nodes);
  return make_error(Errc::kInvalidInput, "memory.nodes: \"{}\" is not a list of NUMA nodes such as 0-1,4",
                    text);
}

Status check_reserved(const Amounts& reserved, const topology::MachineMemory& machine) {
  for (const NumaNodeId node : nodes_of(reserved)) {
    if (!machine.nodes.contains(node)) return no_memory(kShown, node);
  }
  for (const auto& [kind, by_node] : reserved) {
    for (const auto& [node, amount] : by_node) {
      const Result<topology::MemoryAmounts>& amounts = machine.nodes.at(node);
      if (!amounts.ok()) continue;  // taking stock of a node that is offered says so
      const Bytes present = present_of(*amounts, kind);
      if (amount <= present) continue;
      return of_node(node, fmt::format("{}={} exceeds the {} present", resource_name(kind), text_of(amount),
                                       text_of(present)));
    }
  }
  return ok_status();
}

Status check_nodes(const std::set<NumaNodeId>& nodes, const topology::MachineMemory& machine) {
  for (const NumaNodeId node : nodes) {
    if (!machine.nodes.contains(node)) return no_memory("memory.nodes", node);
  }
  return ok_status();
}

}  // namespace dracpu::memory
