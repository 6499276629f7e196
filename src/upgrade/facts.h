// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Everything the rules judge: what was given on the command line, and what was read from the cluster.
//
// What could not be read is an empty optional or an empty list; the reader says why in `not_checked`.
// Threads Values.

#ifndef DRACPU_UPGRADE_FACTS_H_
#define DRACPU_UPGRADE_FACTS_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/yaml.h"
#include "upgrade/objects.h"
#include "upgrade/report.h"
#include "upgrade/settings.h"

namespace dracpu::upgrade {

struct ValuesFile {
  std::string name;
  config::YamlNode root;  // a mapping, or null
};

struct Given {
  std::optional<StatedConfig> config;  // --config; its text is YAML and a mapping
  std::optional<ValuesFile> values;    // --values
};

struct KubeletRefusal {
  std::string node;  // empty: no node's name could be read
  std::string why;
};

struct Facts {
  std::string server_version;                            // "v1.36.2"; empty: not told
  std::optional<std::vector<std::string>> api_versions;  // of resource.k8s.io: "v1", "v1beta1"
  std::optional<std::vector<DriverSet>> drivers;         // DaemonSets of this driver and its forerunners
  std::vector<DriverSet> memory_drivers;                 // DaemonSets of the standalone driver for memory
  std::vector<StatedConfig> configs;                     // theirs, as far as they could be read
  std::vector<ClassObject> classes;
  std::vector<ClaimObject> claims;  // templates too
  std::vector<SliceObject> slices;  // of every driver name that matters
  std::vector<PodObject> pods;      // only where memory is on: those with claims
  std::vector<NodeObject> nodes;
  std::vector<Kubelet> kubelets;
  std::vector<KubeletRefusal> refused_kubelets;

  std::vector<Checked> checked;
  std::vector<NotChecked> not_checked;
  std::set<std::string> incomplete;  // kinds of which not all objects are here: "ResourceClaim"
};

// Names under which the driver may be known here, the usual one among them; each once.
std::vector<std::string> driver_names(const Given& given, const std::vector<StatedConfig>& configs);

// What values would make the chart write for the driver.
Settings settings_of(const ValuesFile& values);

}  // namespace dracpu::upgrade

#endif  // DRACPU_UPGRADE_FACTS_H_
