// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/claim_metadata.h"

#include <boost/json.hpp>

#include "device/build.h"
#include "kube/claim.h"
#include "kube/slice_codec.h"
#include "observe/log.h"

namespace dracpu::agent {
namespace {

namespace json = boost::json;

std::map<std::string, std::vector<MetadataGrant>> by_request(const std::vector<MetadataGrant>& grants) {
  std::map<std::string, std::vector<MetadataGrant>> out;
  for (const MetadataGrant& grant : grants) out[grant.request].push_back(grant);
  return out;
}

json::object device_json(const std::string& driver, const std::vector<device::Device>& devices,
                         const MetadataGrant& grant) {
  json::object attributes;
  if (const device::Device* device = device::device_by_name(devices, grant.device)) {
    for (const auto& [name, value] : device->attributes) attributes[name] = kube::attribute_json(value);
  }
  for (const auto& [name, value] : grant.got) attributes[name] = kube::attribute_json(value);
  json::object out{{"driver", driver}, {"pool", grant.pool}, {"name", grant.device}};
  if (!attributes.empty()) out["attributes"] = std::move(attributes);
  return out;
}

}  // namespace

std::vector<MetadataGrant> metadata_grants(const Node& node, const std::vector<ledger::Grant>& grants) {
  std::vector<MetadataGrant> out;
  for (const ledger::Grant& g : grants) {
    out.push_back({g.request, g.pool, g.device, {}});
    if (node.config.cpu.devices != config::DeviceMode::kGrouped) continue;
    out.back().got.emplace(node.config.publish.driver_name + "/allocatedNumCPUs",
                           static_cast<std::int64_t>(g.cpus));
  }
  return out;
}

std::vector<MetadataGrant> metadata_grants(const std::vector<memory::Grant>& grants) {
  std::vector<MetadataGrant> out;
  for (const memory::Grant& g : grants) {
    out.push_back({g.request,
                   g.pool,
                   g.device,
                   {{fmt::format("{}/allocatedBytes", memory::kDriverName),
                     static_cast<std::int64_t>(g.bytes.count)}}});
  }
  return out;
}

std::vector<MetadataGrant> metadata_grants(const Node& node, const Holding& held) {
  const std::vector<ledger::Grant> grants = grants_of(held);
  std::vector<MetadataGrant> out = metadata_grants(node, grants);
  if (!held.memory) return out;
  for (std::size_t i = 0; i < grants.size(); ++i) {
    for (const memory::Grant& m : held.memory->grants) {
      const bool is_same = m.request == grants[i].request && m.pool == grants[i].pool &&
                           m.device == grants[i].device && m.share_id == grants[i].share_id;
      if (is_same) out[i].got[memory::combined_key(m.kind)] = static_cast<std::int64_t>(m.bytes.count);
    }
  }
  return out;
}

std::string metadata_json(const std::string& driver, const std::vector<device::Device>& devices,
                          const MetadataClaim& claim, const std::string& request,
                          const std::vector<MetadataGrant>& grants) {
  json::array list;
  for (const MetadataGrant& grant : grants) list.emplace_back(device_json(driver, devices, grant));
  json::object root{
      {"kind", "DeviceMetadata"},
      {"apiVersion", "metadata.resource.k8s.io/v1beta1"},
      {"metadata",
       {{"name", claim.name}, {"namespace", claim.ns}, {"uid", claim.uid.get()}, {"generation", 1}}}};
  if (!claim.pod_claim.empty()) root["podClaimName"] = claim.pod_claim;
  root["requests"] = json::array{{{"name", request}, {"devices", std::move(list)}}};
  return json::serialize(root) + "\n";
}

cdi::MetadataFiles metadata_files(const Node& node, const std::string& driver) {
  return {node.config.runtime.kubelet_root_dir / "plugins" / driver, node.config.runtime.cdi_dir, driver};
}

ClaimMetadata::ClaimMetadata(const Node& node, const std::string& driver)
    : driver_(driver), files_(metadata_files(node, driver)) {}

std::map<std::string, std::string> ClaimMetadata::write(const std::vector<device::Device>& devices,
                                                        const MetadataClaim& claim,
                                                        const std::vector<MetadataGrant>& grants) const {
  std::map<std::string, std::string> out;
  for (const auto& [request, of_request] : by_request(grants)) {
    const std::string main(kube::base_request(request));
    Result<std::string> id = files_.write({claim.uid, claim.ns, claim.name, claim.pod_claim, main},
                                          metadata_json(driver_, devices, claim, request, of_request));
    if (id.ok()) {
      out.emplace(main, *std::move(id));
      continue;
    }
    observe::log_error(
        "Device metadata not written; the container runs without it", id.error(),
        {{"claim", claim.ns + "/" + claim.name}, {"claimUID", claim.uid.get()}, {"request", request}});
  }
  return out;
}

std::map<std::string, std::string> ClaimMetadata::existing(const ClaimUid& uid,
                                                           const std::vector<MetadataGrant>& grants) const {
  std::map<std::string, std::string> out;
  for (const MetadataGrant& grant : grants) {
    const std::string main(kube::base_request(grant.request));
    if (const std::optional<std::string> id = files_.existing(uid, main)) out.emplace(main, *id);
  }
  return out;
}

Status ClaimMetadata::remove(const ClaimUid& uid, const std::string& ns, const std::string& name) const {
  return files_.remove(uid, ns, name);
}

void ClaimMetadata::sweep(const std::set<ClaimUid>& held) const {
  const Result<std::size_t> removed = files_.sweep(held);
  if (!removed.ok()) {
    observe::log_error("Device metadata of ended claims not removed", removed.error());
  } else if (*removed > 0) {
    observe::log_info(2, "Device metadata of ended claims removed", {{"files", *removed}});
  }
}

}  // namespace dracpu::agent
