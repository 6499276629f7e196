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

#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "device/device.h"
#include "kube/claim.h"
#include "ledger/ledger.h"

namespace dracpu::agent {

struct ClaimContext {
  std::string driver;                                    // "dra.cpu"
  std::string pool;                                      // the node's name
  const std::vector<device::Device>* devices = nullptr;  // of the machine as it is now
};

// `uid` is the one that the kubelet named.
Result<std::vector<ledger::Request>> requests_of(const kube::Claim& claim, const ClaimUid& uid,
                                                 const ClaimContext& context);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_CLAIM_REQUEST_H_
