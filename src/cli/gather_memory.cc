// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/gather_memory.h"

#include <fmt/format.h>

#include "config/yaml.h"

namespace dracpu::cli {
namespace {

using memory::Bytes;

Bytes amount_in(const memory::Amounts& amounts, memory::Kind kind, NumaNodeId node) {
  const auto by_node = amounts.find(kind);
  if (by_node == amounts.end()) return {};
  const auto found = by_node->second.find(node);
  return found == by_node->second.end() ? Bytes() : found->second;
}

std::string pools_part(const topology::MemoryAmounts& amounts) {
  std::string out = amounts.hugepages.empty() ? "      hugepages: []\n" : "      hugepages:\n";
  for (const topology::HugepagePool& pool : amounts.hugepages) {
    out += fmt::format(
        "        - pageSize: {}\n          pages: {}\n          freePages: {}\n          surplusPages: {}\n",
        config::yaml_quoted(memory::text_of({pool.page_bytes})), pool.total, pool.free, pool.surplus);
  }
  return out;
}

// What is held without being offered stands beside the published kinds.
std::map<memory::Kind, memory::Span> spans_of(const memory::Inventory& inventory, NumaNodeId node,
                                              const std::optional<memory::Amounts>& prepared) {
  std::map<memory::Kind, memory::Span> out;
  for (const memory::Span& span : inventory.spans) {
    if (span.node == node) out.emplace(span.kind, span);
  }
  if (!prepared) return out;
  for (const auto& [kind, by_node] : *prepared) {
    if (by_node.contains(node)) out.try_emplace(kind, memory::Span{kind, node, {}, {}, {}, {}});
  }
  return out;
}

}  // namespace

std::string memory_part(const agent::MemoryView& view, const std::optional<memory::Amounts>& prepared) {
  std::string out = "memoryDetails:\n";
  out += view.machine.nodes.empty() ? "  numaNodes: []\n" : "  numaNodes:\n";
  for (const auto& [node, amounts] : view.machine.nodes) {
    out += fmt::format("    - numaNodeID: {}\n", node.get());
    if (!amounts.ok()) {
      out += fmt::format("      error: {}\n", config::yaml_quoted(amounts.error().text));
      continue;
    }
    out += fmt::format("      total: {}\n", amounts->total_bytes);
    out += pools_part(*amounts);
    const std::map<memory::Kind, memory::Span> spans = spans_of(view.inventory, node, prepared);
    out += spans.empty() ? "      resources: []\n" : "      resources:\n";
    for (const auto& [kind, span] : spans) {
      out += fmt::format("        - name: {}\n          reserved: {}\n          published: {}\n",
                         memory::resource_name(kind), span.reserved.count, span.capacity.count);
      if (prepared) out += fmt::format("          prepared: {}\n", amount_in(*prepared, kind, node).count);
    }
  }
  return out;
}

}  // namespace dracpu::cli
