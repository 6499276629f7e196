// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "runtime_parts.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>

namespace dracpu::sandbox {
namespace {

std::string sandbox_of(const PodInfo& pod) { return "sandbox-" + pod.uid; }

}  // namespace

bool has_event(std::int32_t mask, api::Event event) { return (mask & (1 << (event - 1))) != 0; }

Status Owners::claim(const std::string& id, const std::string& plugin) {
  const auto [it, fresh] = by_id_.emplace(id, plugin);
  if (fresh) return ok_status();
  return make_error(Errc::kConflict, "plugins \"{}\" and \"{}\" both tried to set CPUSetCPUs", plugin,
                    it->second);
}

Result<UniqueFd> listen_on(const std::filesystem::path& path) {
  sockaddr_un address{};
  const std::string name = path.string();
  if (name.size() >= sizeof address.sun_path) {
    return make_error(Errc::kInvalidInput, "socket path \"{}\" is longer than 107 bytes", name);
  }
  address.sun_family = AF_UNIX;
  std::memcpy(static_cast<void*>(address.sun_path), name.c_str(), name.size() + 1);
  std::error_code ec;
  std::filesystem::create_directories(path.parent_path(), ec);
  ::unlink(name.c_str());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  if (!fd.valid() || ::bind(fd.get(), generic, sizeof address) != 0 || ::listen(fd.get(), 16) != 0) {
    return make_error(Errc::kUnavailable, "listen on \"{}\": {}", name, errno_text(errno));
  }
  return fd;
}

void fill_pod(const PodInfo& pod, api::PodSandbox& out) {
  out.set_id(sandbox_of(pod));
  out.set_uid(pod.uid);
  out.set_namespace_(pod.ns);
  out.set_name(pod.name);
  out.mutable_linux()->set_cgroup_parent("/kubepods/pod" + pod.uid);
}

void fill_container(const ContainerView& view, api::ContainerState state, api::Container& out) {
  out.set_id(view.id);
  out.set_pod_sandbox_id(sandbox_of(view.pod));
  out.set_name(view.name);
  out.set_state(state);
  out.set_pid(static_cast<std::uint32_t>(view.pid));
  for (const std::string& e : view.env) out.add_env(e);
  (*out.mutable_labels())["io.kubernetes.container.name"] = view.name;
  api::LinuxResources& resources = *out.mutable_linux()->mutable_resources();
  resources.mutable_cpu()->set_cpus(view.cpus);
  resources.mutable_cpu()->set_mems(view.mems);
  for (const auto& [size, bytes] : view.hugepage_limits) {
    api::HugepageLimit* limit = resources.add_hugepage_limits();
    limit->set_page_size(size);
    limit->set_limit(bytes);
  }
}

bool says_nothing(const api::LinuxResources& told) {
  return told.cpu().cpus().empty() && told.cpu().mems().empty() && told.hugepage_limits().empty();
}

void take_memory(const api::LinuxResources& told, ContainerView& view) {
  if (!told.cpu().mems().empty()) view.mems = told.cpu().mems();
  for (const api::HugepageLimit& limit : told.hugepage_limits())
    view.hugepage_limits[limit.page_size()] = limit.limit();
}

std::string plugin_name(const std::string& register_request) {
  api::RegisterPluginRequest r;
  if (!r.ParseFromString(register_request) || r.plugin_name().empty()) return {};
  const std::string& index = r.plugin_idx();
  const bool digits = index.size() == 2 && std::all_of(index.begin(), index.end(),
                                                       [](unsigned char c) { return std::isdigit(c) != 0; });
  return digits ? index + "-" + r.plugin_name() : std::string();
}

}  // namespace dracpu::sandbox
