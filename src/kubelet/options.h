// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Where the two sockets lie, and what the registration says about them.
//
// Source  spec kubelet-dra-wire 1.1 (paths) and 1.3 (service list and its order).
// Threads Values.

#ifndef DRACPU_KUBELET_OPTIONS_H_
#define DRACPU_KUBELET_OPTIONS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "kubelet/server.h"

namespace dracpu::kubelet {

struct Paths {
  std::filesystem::path root;          // the kubelet's; must be there
  std::filesystem::path plugins;       // the kubelet makes it, sometimes after us
  std::filesystem::path plugin_dir;    // ours alone
  std::filesystem::path registry_dir;  // watched by the kubelet; shared with other drivers
  std::filesystem::path dra_socket;
  std::filesystem::path registration_socket;
  // Dot names, no longer than the final ones so that they fit wherever those fit.
  std::string hidden_dra_name;
  std::string hidden_registration_name;
};

Paths paths_for(const ServerOptions& options);

// For PluginInfo.supported_versions.
std::vector<std::string> supported_services(const ServerOptions& options);

}  // namespace dracpu::kubelet

#endif  // DRACPU_KUBELET_OPTIONS_H_
