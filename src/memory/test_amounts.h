// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Short forms for tests of this folder.

#ifndef DRACPU_MEMORY_TEST_AMOUNTS_H_
#define DRACPU_MEMORY_TEST_AMOUNTS_H_

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "memory/types.h"
#include "topology/memory.h"
#include "topology/topology.h"

namespace dracpu::memory {

constexpr Bytes operator""_KiB(unsigned long long n) { return {n << 10U}; }
constexpr Bytes operator""_MiB(unsigned long long n) { return {n << 20U}; }
constexpr Bytes operator""_GiB(unsigned long long n) { return {n << 30U}; }

inline Kind kind(Bytes page) { return Kind::hugepages(page); }

struct Amount {
  Kind kind;
  std::int32_t node;
  Bytes bytes;
};
inline Amounts amounts_on(const std::vector<Amount>& list) {
  Amounts out;
  for (const Amount& a : list) out[a.kind][NumaNodeId(a.node)] += a.bytes;
  return out;
}

inline topology::HugepagePool pool(Bytes page, std::uint64_t pages, std::uint64_t surplus = 0) {
  return {.page_bytes = page.count, .total = pages, .free = pages, .surplus = surplus};
}

// The node of the worked example: 1024 pages of 2 MiB and 4 of 1 GiB.
inline topology::MemoryAmounts worked_node() {
  return {.total_bytes = std::uint64_t{65843200} * 1024, .hugepages = {pool(2_MiB, 1024), pool(1_GiB, 4)}};
}

inline topology::MachineMemory machine_of(const std::map<std::int32_t, topology::MemoryAmounts>& nodes) {
  topology::MachineMemory out;
  out.has_numa = true;
  for (const auto& [id, amounts] : nodes) out.nodes.emplace(NumaNodeId(id), amounts);
  return out;
}

// One CPU per node named, each in a socket of its own number.
inline topology::Topology cpus_on(const std::vector<std::int32_t>& nodes) {
  topology::Topology out;
  for (const std::int32_t id : nodes) {
    const CpuId cpu(static_cast<std::uint32_t>(out.cpus.size()));
    topology::Cpu facts;
    facts.id = cpu;
    facts.node = NumaNodeId(id);
    facts.socket = SocketId(id);
    out.cpus.emplace(cpu, facts);
    topology::Node node;
    node.id = NumaNodeId(id);
    node.cpus.insert(cpu);
    out.nodes.emplace(node.id, node);
  }
  return out;
}

}  // namespace dracpu::memory

#endif  // DRACPU_MEMORY_TEST_AMOUNTS_H_
