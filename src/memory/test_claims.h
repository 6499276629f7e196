// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Claims and accounts for tests of this folder.

#ifndef DRACPU_MEMORY_TEST_CLAIMS_H_
#define DRACPU_MEMORY_TEST_CLAIMS_H_

#include <string>
#include <utility>
#include <vector>

#include "memory/accounts.h"
#include "memory/test_amounts.h"

namespace dracpu::memory {

// The span of a separate device.
inline Offer offer(Kind of, std::int32_t node, Bytes capacity, Bytes base_page = 4_KiB) {
  return {device_name(of, NumaNodeId(node)),
          std::string(kSizeKey),
          of,
          NumaNodeId(node),
          of.is_hugepages() ? of.page() : base_page,
          capacity};
}

// The worked example on two nodes.
inline std::vector<Offer> two_nodes() {
  std::vector<Offer> out;
  for (const Kind of : {Kind(), kind(2_MiB), kind(1_GiB)}) {
    const Bytes capacity = of == Kind() ? 57132_MiB : of == kind(2_MiB) ? 2_GiB : 4_GiB;
    for (const std::int32_t node : {0, 1}) out.push_back(offer(of, node, capacity));
  }
  return out;
}

// A result as the scheduler writes it.
inline AllocationResult result(std::string device, const std::string& amount, std::string request = "main") {
  AllocationResult out{.request = std::move(request), .pool = "worker", .device = std::move(device)};
  out.consumed.emplace(kSizeKey, Quantity::parse(amount).value());
  return out;
}

inline ClaimFacts claim_of(std::vector<AllocationResult> results, const std::string& pod = "pod-1") {
  return {.ns = "ns", .name = "c", .reserved_for = {{"pods", PodUid(pod)}}, .results = std::move(results)};
}

}  // namespace dracpu::memory

#endif  // DRACPU_MEMORY_TEST_CLAIMS_H_
