// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Notices CPUs that go on- or offline, and says what that means for claims and devices.
//
// Cost    look(): one small file when nothing changed; the whole description when something did.
// Errors  As the topology reader: the machine known before stays.
// Threads MachineWatch belongs to one thread, but for machine(); device_health() is a function of its
//         arguments.

#ifndef DRACPU_AGENT_MACHINE_WATCH_H_
#define DRACPU_AGENT_MACHINE_WATCH_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/node.h"
#include "base/mutex.h"
#include "base/result.h"
#include "kubelet/server.h"
#include "ledger/ledger.h"

namespace dracpu::agent {

class MachineWatch {
 public:
  MachineWatch(const Node& node, std::shared_ptr<const Machine> machine)
      : node_(node), machine_(std::move(machine)) {}

  std::shared_ptr<const Machine> machine() const;
  // True if another set of CPUs is online than before; machine() is the new one.
  Result<bool> look();

 private:
  const Node& node_;
  mutable Mutex mutex_;
  std::shared_ptr<const Machine> machine_ DRACPU_GUARDED_BY(mutex_);
};

// A claim and those of its CPUs that are offline.
struct LostCpus {
  ClaimUid uid;
  std::string claim;  // "namespace/name"
  CpuSet offline;
  CpuSet left;
  std::vector<std::string> devices;
};
std::vector<LostCpus> lost_cpus(const ledger::Ledger& ledger);

// One entry per device that is published, that a claim with offline CPUs is on, or that `lacks` names with a
// reason. A device is unhealthy while a claim on it lacks CPUs, or for that reason.
std::vector<kubelet::DeviceHealth> device_health(const Node& node, const Machine& machine,
                                                 const std::vector<LostCpus>& lost,
                                                 const std::map<std::string, std::string>& lacks = {});

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_MACHINE_WATCH_H_
