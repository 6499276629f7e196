// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/machine_watch.h"

#include <algorithm>
#include <map>

#include "topology/reader.h"

namespace dracpu::agent {
namespace {

constexpr std::size_t kLongReason = 700;  // the kubelet takes 1024 bytes; one more claim still fits

}  // namespace

std::shared_ptr<const Machine> MachineWatch::machine() const {
  const Locked lock(mutex_);
  return machine_;
}

Result<bool> MachineWatch::look() {
  const Result<CpuSet> online = topology::read_online(node_.files);
  if (!online.ok()) return online.error();
  if (*online == machine()->topology.online) return false;
  Result<std::shared_ptr<const Machine>> now = read_machine(node_);
  if (!now.ok()) return std::move(now).error();
  const Locked lock(mutex_);
  machine_ = *std::move(now);
  return true;
}

std::vector<LostCpus> lost_cpus(const ledger::Ledger& ledger) {
  std::vector<LostCpus> out;
  if (ledger.offline().empty()) return out;
  for (const auto& [uid, claim] : ledger.claims()) {
    CpuSet offline = claim.cpus & ledger.offline();
    if (offline.empty()) continue;
    LostCpus lost{uid, claim.ns + "/" + claim.name, std::move(offline), claim.cpus - ledger.offline(), {}};
    for (const ledger::Grant& grant : claim.grants) lost.devices.push_back(grant.device);
    out.push_back(std::move(lost));
  }
  return out;
}

std::vector<kubelet::DeviceHealth> device_health(const Node& node, const Machine& machine,
                                                 const std::vector<LostCpus>& lost,
                                                 const std::map<std::string, std::string>& lacks) {
  std::map<std::string, std::string> unhealthy = lacks;  // device to reason
  for (const LostCpus& l : lost) {
    for (const std::string& device : l.devices) {
      std::string& reason = unhealthy[device];
      if (reason.size() > kLongReason) continue;
      if (!reason.empty()) reason += "; ";
      reason += fmt::format("CPUs {} of claim {} are offline", l.offline.to_string(), l.claim);
    }
  }
  std::vector<kubelet::DeviceHealth> out;
  out.reserve(machine.devices.size() + unhealthy.size());
  for (const device::Device& d : machine.devices) {
    const auto bad = unhealthy.find(d.name);
    if (bad == unhealthy.end()) {
      out.push_back({node.name, d.name, kubelet::Health::kHealthy, "device initialized"});
      continue;
    }
    out.push_back({node.name, d.name, kubelet::Health::kUnhealthy, bad->second});
    unhealthy.erase(bad);
  }
  for (const auto& [device, reason] : unhealthy) {
    out.push_back({node.name, device, kubelet::Health::kUnhealthy, reason});
  }
  return out;
}

}  // namespace dracpu::agent
