// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The claims of a file as the API server would hold them: what `dracpu plan` is asked about.
//
// Input    YAML documents or Lists with ResourceClaims, ResourceClaimTemplates and Pods. A pod gets a claim
//          "<pod>-<name>" from each template that it names, and is the user of the claims that it names; a
//          template that no pod names is one claim. A claim without a uid gets "plan-N".
// Errors   kInvalidInput names document and fault
// Threads  Pure.

#ifndef DRACPU_CLI_CLAIMS_FILE_H_
#define DRACPU_CLI_CLAIMS_FILE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/node.h"
#include "base/result.h"
#include "kube/claim.h"

namespace dracpu::cli {

struct ClaimsFile {
  std::vector<kube::Claim> claims;
  std::map<ClaimUid, Error> refused;  // those with amounts that the API cannot count
  std::vector<std::string> notes;     // what was left out
};

Result<ClaimsFile> read_claims(std::string_view text);

// Claims whose devices of this node's drivers are all of other nodes' pools; one note says how many and
// where.
void leave_out_other_nodes(const agent::Node& node, ClaimsFile& file);

// "namespace/name".
template <typename AnyClaim>
std::string full_name(const AnyClaim& claim) {
  return claim.ns.empty() ? claim.name : claim.ns + "/" + claim.name;
}

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_CLAIMS_FILE_H_
