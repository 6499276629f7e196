// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A driver's configuration as somebody stated it: read without judgement, so that the rules can speak about
// one that the driver refuses.
//
// Errors  None here: a value that makes no sense is kept as it was written.
// Threads Values; pure functions.

#ifndef DRACPU_UPGRADE_SETTINGS_H_
#define DRACPU_UPGRADE_SETTINGS_H_

#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "config/yaml.h"

namespace dracpu::upgrade {

// What a file and the flags beside it say. Texts are those of the file.
struct Settings {
  std::string object;  // whose: "file c.yaml", "ConfigMap kube-system/x", "DaemonSet kube-system/y"
  std::string devices = "grouped";
  std::string group_by = "numanode";
  std::string allocator = "cpumanager";
  std::string driver_name = "dra.cpu";
  bool is_nested = false;  // the form dracpu/v1beta1
  bool pcie_roots = false;
  bool node_allocatable_mapping = false;
  bool memory = false;
  std::string memory_mode = "separate";
  std::string hugetlb = "container";   // who limits hugepages
  std::vector<std::string> misplaced;  // memory settings in the form that has none, as written

  bool is_grouped() const { return devices == "grouped"; }
  bool is_machine() const { return is_grouped() && group_by == "machine"; }
  bool is_combined() const { return memory && memory_mode == "combined"; }
  bool is_external() const { return allocator == "external"; }
};

// `file` is the root of a configuration file, or nullptr.
Settings read_settings(std::string object, const config::YamlNode* file, const config::Flags& flags);

// The configuration of a driver that runs in the cluster, or the file of the command line.
struct StatedConfig {
  std::string object;
  config::Flags flags;
  std::optional<config::FileText> file;
};
// The same for a text; one that is no YAML counts as empty.
Settings read_settings(const StatedConfig& stated);

// The scalar at a path of keys, or nullptr.
const config::YamlNode* scalar_at(const config::YamlNode& root, std::initializer_list<std::string_view> path);

}  // namespace dracpu::upgrade

#endif  // DRACPU_UPGRADE_SETTINGS_H_
