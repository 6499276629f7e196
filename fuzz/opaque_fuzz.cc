// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Any bytes as the opaque configuration of an allocated claim: never a crash, a refusal has a text, and a
// request that is let through wants CPUs of its device, and an external allocator's choice as it was written.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "agent/claim_request.h"
#include "agent/opaque_config.h"

namespace {

using namespace dracpu;  // NOLINT(google-build-using-namespace): one file, one purpose

const CpuSet kDevice{0, 1, 2, 3, 4, 5, 6, 7};

kube::Claim claim_with(std::string_view parameters) {
  kube::Claim claim;
  claim.ns = "ns";
  claim.name = "c";
  claim.uid = ClaimUid("u1");
  claim.allocation.emplace();
  kube::AllocationResult result;
  result.request = "r";
  result.driver = "dra.cpu";
  result.pool = "node1";
  result.device = "cpudevnuma000";
  result.consumed_capacity.emplace("dra.cpu/cpu", kube::Quantity::parse("2").value());
  claim.allocation->results.push_back(std::move(result));
  kube::ConfigEntry entry;
  entry.opaque = true;
  entry.driver = "dra.cpu";
  entry.parameters = std::string(parameters);
  claim.allocation->config.push_back(std::move(entry));
  return claim;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto chosen = agent::parse_chosen_cpus(text);
  if (!chosen.ok() && chosen.error().text.empty()) std::abort();
  device::Device device;
  device.name = "cpudevnuma000";
  device.cpus = kDevice;
  const std::vector<device::Device> devices{device};
  for (const config::Allocator allocator : {config::Allocator::kCpuManager, config::Allocator::kExternal}) {
    config::Config::Cpu cpu;
    cpu.allocator = allocator;
    const auto requests = agent::requests_of(claim_with(text), ClaimUid("u1"),
                                             {"dra.cpu", "node1", cpu, &devices, kDevice, CpuSet{0}});
    if (!requests.ok()) {
      if (requests.error().text.empty()) std::abort();
      continue;
    }
    for (const ledger::Request& r : *requests) {
      if (!(r.device_cpus - kDevice).empty()) std::abort();
      if (allocator == config::Allocator::kExternal && !(chosen.ok() && r.chosen == *chosen)) std::abort();
    }
  }
  return 0;
}
