// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/options.h"

#include <algorithm>
#include <string_view>

#include "base/strings.h"
#include "kubelet/socket_file.h"

namespace dracpu::kubelet {
namespace {

constexpr std::size_t kMaxDriverName = 63;  // spec kubelet-dra-wire 1.8

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// RFC 1123, as Kubernetes means it.
bool is_subdomain(std::string_view name) {
  const std::vector<std::string_view> labels = split(name, '.');
  return std::all_of(labels.begin(), labels.end(), [](std::string_view label) {
    return !label.empty() && is_lower_or_digit(label.front()) && is_lower_or_digit(label.back()) &&
           std::all_of(label.begin(), label.end(), [](char c) { return is_lower_or_digit(c) || c == '-'; });
  });
}

Status check_path(std::string_view what, const std::filesystem::path& path) {
  const std::size_t length = path.native().size();
  if (length <= kMaxSocketPath) return ok_status();
  return make_error(
      Errc::kInvalidInput,
      "the path of the {} socket has {} bytes, the kernel takes {}: \"{}\"; shorten the driver name "
      "or the kubelet root folder",
      what, length, kMaxSocketPath, path.string());
}

}  // namespace

Paths paths_for(const ServerOptions& options) {
  Paths out;
  out.root = options.kubelet_root_dir.lexically_normal();
  if (!out.root.has_filename() && out.root.has_relative_path()) out.root = out.root.parent_path();  // "/a/b/"
  out.plugins = out.root / "plugins";
  out.plugin_dir = out.plugins / options.driver_name;
  out.registry_dir = out.root / "plugins_registry";
  out.dra_socket = out.plugin_dir / "dra.sock";
  out.registration_socket = out.registry_dir / (options.driver_name + "-reg.sock");
  out.hidden_dra_name = ".dra.new";
  out.hidden_registration_name = "." + options.driver_name + ".new";
  return out;
}

std::vector<std::string> supported_services(const ServerOptions& options) {
  // The kubelet takes the first DRA entry that it knows: v1 first, or share ids are lost.
  std::vector<std::string> out{"v1.DRAPlugin", "v1beta1.DRAPlugin"};
  if (options.health) out.insert(out.end(), {"v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"});
  return out;
}

Status check_options(const ServerOptions& options) {
  if (!options.kubelet_root_dir.is_absolute()) {
    return make_error(Errc::kInvalidInput, "the kubelet root folder \"{}\" is not an absolute path",
                      options.kubelet_root_dir.string());
  }
  const std::string& name = options.driver_name;
  if (name.size() > kMaxDriverName) {
    return make_error(Errc::kInvalidInput, "the driver name has {} characters, more than {}: \"{}\"",
                      name.size(), kMaxDriverName, name);
  }
  if (!is_subdomain(name)) {
    return make_error(Errc::kInvalidInput,
                      "the driver name \"{}\" is no DNS name of lower-case letters, digits, \"-\" and \".\"",
                      name);
  }
  const Paths paths = paths_for(options);
  if (Status s = check_path("registration", paths.registration_socket); !s.ok()) return s;
  if (Status s = check_path("DRA", paths.dra_socket); !s.ok()) return s;
  if (options.health_resend <= std::chrono::seconds::zero() ||
      options.health_lease <= options.health_resend) {
    return make_error(Errc::kInvalidInput,
                      "a health lease of {} s with a report every {} s: the lease must be the longer one",
                      options.health_lease.count(), options.health_resend.count());
  }
  return ok_status();
}

Status check_no_other_driver(const ServerOptions& options) {
  const Paths paths = paths_for(options);
  if (Status s = check_nobody_listens(paths.registration_socket); !s.ok()) return s;
  return check_nobody_listens(paths.dra_socket);
}

}  // namespace dracpu::kubelet
