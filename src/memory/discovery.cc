// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace dracpu::memory {
namespace {

std::uint64_t lasting_pages(const topology::HugepagePool& pool) {
  return pool.total > pool.surplus ? pool.total - pool.surplus : 0;
}

Bytes bytes_of(const topology::HugepagePool& pool) {
  const std::uint64_t pages = lasting_pages(pool);
  if (pages != 0 && pool.page_bytes > UINT64_MAX / pages) return {UINT64_MAX};
  return {pages * pool.page_bytes};
}

Bytes reserved_of(const Amounts& reserved, Kind kind, NumaNodeId node) {
  const auto by_node = reserved.find(kind);
  if (by_node == reserved.end()) return {};
  const auto found = by_node->second.find(node);
  return found == by_node->second.end() ? Bytes() : found->second;
}

NodeFacts facts_of(const topology::Topology& topology, NumaNodeId node, bool has_numa) {
  NodeFacts out;
  if (has_numa) {
    const auto known = topology.nodes.find(node);
    out.has_cpus = known != topology.nodes.end() && !known->second.cpus.empty();
  } else {
    out.has_cpus = !topology.cpus.empty();
  }
  std::set<std::optional<SocketId>> sockets;
  for (const auto& [id, cpu] : topology.cpus) {
    if (!has_numa || cpu.node == node) sockets.insert(cpu.socket);
  }
  if (sockets.size() == 1) out.socket = *sockets.begin();
  return out;
}

class Taker {
 public:
  Taker(const Selection& selection, Inventory& out) : selection_(selection), out_(out) {}

  Status add(NumaNodeId node, const topology::MemoryAmounts& amounts) {
    for (const topology::HugepagePool& pool : amounts.hugepages) {
      const Kind kind = Kind::hugepages({pool.page_bytes});
      if (Status s = check_size(node, kind, present_of(amounts, kind)); !s.ok()) return s;
      if (pool.surplus > 0) warn_of_surplus(node, pool);
      add_span(node, kind, kind.page(), present_of(amounts, kind), Bytes{1});
    }
    if (Status s = check_size(node, Kind(), {amounts.total_bytes}); !s.ok()) return s;
    add_span(node, Kind(), selection_.base_page, present_of(amounts, Kind()),
             least_memory(selection_.base_page));
    return ok_status();
  }

 private:
  static Status check_size(NumaNodeId node, Kind kind, Bytes present) {
    if (present <= kMostBytes) return ok_status();
    return make_error(Errc::kCorrupt, "NUMA node {} is said to have {} bytes of {}", node.get(),
                      present.count, resource_name(kind));
  }

  void add_span(NumaNodeId node, Kind kind, Bytes page, Bytes present, Bytes least) {
    const Bytes reserved = reserved_of(selection_.reserved, kind, node);
    const Bytes left = present - reserved;
    const Bytes capacity = left - Bytes{left.count % page.count};
    if (capacity >= least) {
      out_.spans.push_back({kind, node, page, present, reserved, capacity});
    } else if (present >= least) {
      out_.warnings.push_back({fmt::format("{} on NUMA node {}", resource_name(kind), node.get()),
                               fmt::format("{} of {} are reserved", text_of(reserved), text_of(present)),
                               "it is not offered"});
    }
  }

  void warn_of_surplus(NumaNodeId node, const topology::HugepagePool& pool) {
    out_.warnings.push_back(
        {fmt::format("{} on NUMA node {}", resource_name(Kind::hugepages({pool.page_bytes})), node.get()),
         fmt::format("{} of {} pages are surplus", pool.surplus, pool.total),
         fmt::format("{} pages are counted", lasting_pages(pool))});
  }

  const Selection& selection_;
  Inventory& out_;
};

}  // namespace

Bytes present_of(const topology::MemoryAmounts& amounts, Kind kind) {
  Bytes pools;
  for (const topology::HugepagePool& pool : amounts.hugepages) {
    if (kind.is_hugepages() && kind.page().count == pool.page_bytes) return bytes_of(pool);
    pools += bytes_of(pool);
  }
  return kind.is_hugepages() ? Bytes() : Bytes{amounts.total_bytes} - pools;
}

Result<Inventory> take_inventory(const topology::MachineMemory& machine, const topology::Topology& topology,
                                 const Selection& selection) {
  Inventory out;
  out.has_numa = machine.has_numa;
  Taker taker(selection, out);
  for (const auto& [node, amounts] : machine.nodes) {
    out.nodes_with_memory.insert(node);
    const NodeFacts facts = facts_of(topology, node, machine.has_numa);
    if (selection.nodes.empty() ? !facts.has_cpus : !selection.nodes.contains(node)) continue;
    if (!amounts.ok()) return amounts.error();
    out.nodes.emplace(node, facts);
    if (Status s = taker.add(node, *amounts); !s.ok()) return std::move(s).error();
  }
  std::sort(out.spans.begin(), out.spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.kind, a.node) < std::pair(b.kind, b.node);
  });
  return out;
}

}  // namespace dracpu::memory
