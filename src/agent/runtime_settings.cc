// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/runtime_settings.h"

#include <fmt/format.h>

#include "nri/plugin.h"

namespace dracpu::agent {
namespace {

constexpr std::chrono::milliseconds kShortest{1000};  // the runtimes' default is two seconds
constexpr double kLittle = 0.25;                      // of the limit

constexpr std::string_view kTolerate = "tolerate-missing-plugins.noderesource.dev";

constexpr std::string_view kLonger =
    "set plugin_request_timeout = \"5s\" in [plugins.\"io.containerd.nri.v1.nri\"] (containerd) or "
    "nri_plugin_request_timeout = \"5s\" in [crio.nri] (CRI-O)";

}  // namespace

std::optional<observe::Advice> advice_on_timeout(std::chrono::milliseconds limit) {
  if (limit >= kShortest) return std::nullopt;
  return observe::Advice{
      "nri-request-timeout",
      fmt::format("the runtime gives a plugin {} ms to answer and then starts the container without it; {}",
                  limit.count(), kLonger)};
}

std::optional<observe::Advice> advice_on_margin(std::string_view hook, double seconds_left,
                                                std::chrono::milliseconds limit) {
  const double whole = std::chrono::duration<double>(limit).count();
  if (whole <= 0 || seconds_left >= kLittle * whole) return std::nullopt;
  return observe::Advice{"nri-slow-answers",
                         fmt::format("{} was answered late or nearly so: less than a quarter of the "
                                     "runtime's limit of {} ms was left; {}",
                                     hook, limit.count(), kLonger)};
}

std::optional<observe::Advice> advice_on_unpinned(std::size_t containers) {
  if (containers == 0) return std::nullopt;
  return observe::Advice{
      "nri-required-plugins",
      fmt::format(
          "containers with claims ran on other CPUs when the driver connected: the runtime starts "
          "containers while no driver is there; in [plugins.\"io.containerd.nri.v1.nri\".default_validator] "
          "(containerd 2.2 and later) set enable = true, required_plugins = [\"{}\"] and "
          "tolerate_missing_plugins_annotation = \"{}\", which the driver's pods have",
          nri::PluginOptions().name, kTolerate)};  // whatever the driver is called
}

observe::Advice advice_on_cpu_manager(std::string_view cpus) {
  return {"kubelet-cpu-manager",
          fmt::format(
              "the kubelet asks for CPUs of its own choice ({}): its CPU Manager is on and will take CPUs of "
              "claims; set cpuManagerPolicy: none, remove cpu_manager_state from its folder and restart it",
              cpus)};
}

observe::Advice advice_on_memory_manager(std::string_view nodes) {
  return {"kubelet-memory-manager",
          fmt::format(
              "the kubelet asks for memory of NUMA nodes of its own choice ({}): its Memory Manager is on; "
              "set memoryManagerPolicy: None, remove memory_manager_state from its folder and restart it",
              nodes)};
}

std::string advice_on_no_socket(const Error& error) {
  return fmt::format(
      "{}; if the runtime runs, NRI is off in it: set disable = false in "
      "[plugins.\"io.containerd.nri.v1.nri\"] "
      "(containerd) or enable_nri = true in [crio.nri] (CRI-O) and restart it",
      error.text);
}

}  // namespace dracpu::agent
