// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Pieces of the runtime that is played: its socket, the messages about pods and containers, conflicts.
//
// Threads No shared state; an Owners lives for one event.

#ifndef DRACPU_SANDBOX_RUNTIME_PARTS_H_
#define DRACPU_SANDBOX_RUNTIME_PARTS_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "nri.pb.h"
#include "runtime.h"

namespace dracpu::sandbox {

namespace api = ::nri::pkg::api::v1alpha1;

bool has_event(std::int32_t mask, api::Event event);

// Which plugin set the CPUs of which container in one event (spec nri-wire 4.11).
class Owners {
 public:
  // kConflict if another or the same plugin has done it already.
  Status claim(const std::string& id, const std::string& plugin);

 private:
  std::map<std::string, std::string> by_id_;
};

// A fresh listening socket; an old file at the path is replaced, as runtimes do.
Result<UniqueFd> listen_on(const std::filesystem::path& path);

void fill_pod(const PodInfo& pod, api::PodSandbox& out);
bool says_nothing(const api::LinuxResources& told);
// What an adjustment or update says of memory.
void take_memory(const api::LinuxResources& told, ContainerView& view);
void fill_container(const ContainerView& view, api::ContainerState state, api::Container& out);

// "index-name", or nothing if the runtime refuses it (spec 4.2).
std::string plugin_name(const std::string& register_request);

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_RUNTIME_PARTS_H_
