// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// From a ResourceClaim to what the ledger is asked for: which devices of ours, how many CPUs each.
//
// Source  spec driver-behaviours sections 8, 9.1, 9.2, 10 and kubelet-dra-wire 8.3. Results of other drivers
// are
//         skipped; a claim without a result of ours gives an empty list, which is a success.
// Errors  kInvalidInput  names the claim's device, request, key or value that cannot be served
//         kUnavailable   the claim is not allocated (yet)
//         kConflict      the claim was replaced by another of the same name
// Threads Pure.

#ifndef DRACPU_AGENT_CLAIM_REQUEST_H_
#define DRACPU_AGENT_CLAIM_REQUEST_H_

#include <optional>
#include <string>
#include <vector>

#include "agent/node.h"
#include "base/cpuset.h"
#include "base/ids.h"
#include "base/result.h"
#include "config/config.h"
#include "device/device.h"
#include "kube/claim.h"
#include "kube/device_lookup.h"
#include "ledger/ledger.h"

namespace dracpu::agent {

struct ClaimContext {
  std::string driver;  // "dra.cpu"
  std::string pool;    // the node's name
  config::Config::Cpu cpu;
  const std::vector<device::Device>* devices = nullptr;  // of the machine as it is now
  CpuSet managed;                                        // the same
  CpuSet reserved;
  bool has_memory = false;  // the devices carry memory, too
};

// Refers to the machine's devices.
ClaimContext claim_context(const Node& node, const Machine& machine);

// `uid` is the one that the kubelet named. A result without CPUs is left out if it takes memory.
Result<std::vector<ledger::Request>> requests_of(const kube::Claim& claim, const ClaimUid& uid,
                                                 const ClaimContext& context);

// The device of another driver that one of ours was matched with on a PCIe root, with the requests of
// ours as in the results; nothing if the claim has no such constraint.
struct RootMatch {
  kube::DeviceName other;
  std::vector<std::string> requests;
};
// The results of this driver in the allocation are those that were granted, in any order.
bool is_what_was_granted(const kube::Claim& claim, const std::string& driver,
                         const std::vector<ledger::Grant>& grants);

std::optional<RootMatch> root_match(const kube::Claim& claim, const std::string& driver);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_CLAIM_REQUEST_H_
