// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What a container can read about the devices of its claim (KEP-5304).
//
// Content  One object of metadata.resource.k8s.io/v1beta1 per request: the published attributes of each
//          device, and what the claim got of it: <driver>/allocatedNumCPUs, unless a device is one CPU, or
//          dra.memory/allocatedBytes; in combined mode dra.memory/memory, dra.memory/hugepages_2Mi, …
// Errors   Logged, never an error of the claim: its container runs without the file.
// Threads  The worker's.

#ifndef DRACPU_AGENT_CLAIM_METADATA_H_
#define DRACPU_AGENT_CLAIM_METADATA_H_

#include <map>
#include <string>
#include <vector>

#include "agent/books.h"
#include "agent/node.h"
#include "base/ids.h"
#include "cdi/metadata.h"
#include "ledger/ledger.h"
#include "memory/accounts.h"

namespace dracpu::agent {

struct MetadataClaim {
  ClaimUid uid;
  std::string ns;
  std::string name;
  std::string pod_claim;  // template claims
};

// A device that a request got, and how much of it.
struct MetadataGrant {
  std::string request;  // as in the allocation result, subrequest included
  std::string pool;
  std::string device;
  std::map<std::string, device::AttributeValue> got;  // beside the published attributes
};
std::vector<MetadataGrant> metadata_grants(const Node& node, const std::vector<ledger::Grant>& grants);
std::vector<MetadataGrant> metadata_grants(const std::vector<memory::Grant>& grants);
// Of a claim on devices of the CPUs: each memory that came with one is an attribute in bytes, named as the
// capacity that it was taken from.
std::vector<MetadataGrant> metadata_grants(const Node& node, const Holding& held);

// The text of one file, of the grants of one request.
std::string metadata_json(const std::string& driver, const std::vector<device::Device>& devices,
                          const MetadataClaim& claim, const std::string& request,
                          const std::vector<MetadataGrant>& grants);

cdi::MetadataFiles metadata_files(const Node& node, const std::string& driver);

class ClaimMetadata {
 public:
  ClaimMetadata(const Node& node, const std::string& driver);

  // Main request name to the CDI device id that mounts its file; a request whose file cannot be written is
  // left out.
  std::map<std::string, std::string> write(const std::vector<device::Device>& devices,
                                           const MetadataClaim& claim,
                                           const std::vector<MetadataGrant>& grants) const;
  // The same for a claim that cannot be read now: what an earlier prepare left.
  std::map<std::string, std::string> existing(const ClaimUid& uid,
                                              const std::vector<MetadataGrant>& grants) const;
  Status remove(const ClaimUid& uid, const std::string& ns, const std::string& name) const;
  // What claims that are not held left behind.
  void sweep(const std::set<ClaimUid>& held) const;

 private:
  std::string driver_;
  cdi::MetadataFiles files_;
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_CLAIM_METADATA_H_
