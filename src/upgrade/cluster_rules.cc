// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the cluster has to offer: versions, APIs, gates, and kubelets that leave CPUs alone.

#include <algorithm>
#include <utility>

#include "upgrade/rules.h"

namespace dracpu::upgrade {
namespace {

constexpr int kOldestMinor = 34;   // resource.k8s.io/v1 is served from 1.34
constexpr int kConsumableOn = 36;  // DRAConsumableCapacity is on by default from 1.36

constexpr const char* kConsumable = "DRAConsumableCapacity";
constexpr const char* kDynamic = "DynamicResourceAllocation";
constexpr const char* kListTypes = "DRAListTypeAttributes";
constexpr const char* kAllocatable = "DRANodeAllocatableResources";

void add(Findings& out, Severity severity, std::string_view id, std::string object, std::string message,
         std::string fix, std::string_view section) {
  out.push_back({severity, std::string(id), std::move(object), std::move(message), std::move(fix),
                 std::string(section)});
}

void check_server(const Facts& facts, Findings& out) {
  const std::optional<int> minor = minor_of(facts.server_version);
  if (minor && *minor < kOldestMinor) {
    add(out, Severity::kError, "kubernetes-too-old", "API server",
        fmt::format("Kubernetes {} is too old, 1.34 is the oldest that works", facts.server_version),
        "upgrade the control plane to Kubernetes 1.34 or later", section::kRequirements);
  }
  if (!facts.api_versions) return;
  const std::vector<std::string>& served = *facts.api_versions;
  if (std::find(served.begin(), served.end(), "v1") != served.end()) return;
  std::string list;
  for (const std::string& v : served) list += (list.empty() ? "" : ", ") + v;
  add(out, Severity::kError, "dra-v1-not-served", "API server",
      fmt::format("resource.k8s.io/v1 is not served (served: {}); the driver needs it",
                  list.empty() ? "none" : list),
      minor && *minor < kOldestMinor ? "upgrade the control plane to Kubernetes 1.34 or later"
                                     : "kube-apiserver --runtime-config=resource.k8s.io/v1=true "
                                       "--feature-gates=DynamicResourceAllocation=true",
      section::kRequirements);
}

// Whether a gate is on in a kubelet; nothing if its stage decides and is not known here.
std::optional<bool> stated(const Kubelet& kubelet, const std::string& gate) {
  if (const auto it = kubelet.gates.find(gate); it != kubelet.gates.end()) return it->second;
  return std::nullopt;
}
bool has_all(const Kubelet& kubelet, const char* stage) { return stated(kubelet, stage).value_or(false); }

void check_gates(const Kubelet& kubelet, const Target& target, Findings& out) {
  const auto gate_off = [&](Severity severity, const char* gate, std::string_view why) {
    add(out, severity, "feature-gate-off", kubelet.object(),
        fmt::format("feature gate {} is off in the kubelet: {}", gate, why),
        fmt::format(
            "featureGates: {{{}: true}} in the kubelet's configuration, and --feature-gates={}=true for "
            "API server and scheduler",
            gate, gate),
        section::kRequirements);
  };
  if (!stated(kubelet, kDynamic).value_or(true)) gate_off(Severity::kError, kDynamic, "it prepares no claim");
  const bool is_usual =
      kubelet.minor ? *kubelet.minor >= kConsumableOn || has_all(kubelet, "AllAlpha") : true;
  if ((target.has_grouped() || target.has_memory()) && !stated(kubelet, kConsumable).value_or(is_usual)) {
    gate_off(Severity::kError, kConsumable,
             target.has_grouped()
                 ? "grouped devices need consumable capacity (on by default from Kubernetes 1.36)"
                 : "memory devices need consumable capacity (on by default from Kubernetes 1.36)");
  }
  const bool wants_mapping = std::any_of(target.settings.begin(), target.settings.end(),
                                         [](const Settings& s) { return s.node_allocatable_mapping; });
  if (wants_mapping && !stated(kubelet, kAllocatable).value_or(has_all(kubelet, "AllAlpha"))) {
    gate_off(Severity::kWarning, kAllocatable,
             "the mapping to the node's allocatable CPU has no effect, and the driver leaves it out");
  }
}

void check_managers(const Kubelet& kubelet, const Target& target, Findings& out) {
  const auto fix = [](std::string_view line, std::string_view state) {
    return fmt::format(
        "{} in the kubelet's configuration; then on the node: rm /var/lib/kubelet/{} && systemctl "
        "restart kubelet",
        line, state);
  };
  if (!kubelet.cpu_manager.empty() && kubelet.cpu_manager != "none") {
    add(out, Severity::kError, "cpu-manager-active", kubelet.object(),
        fmt::format(
            "the kubelet's CPU Manager is active (cpuManagerPolicy {}): it would give CPUs of claims to "
            "other containers",
            kubelet.cpu_manager),
        fix("cpuManagerPolicy: none", "cpu_manager_state"), section::kKubelet);
  }
  if (!kubelet.memory_manager.empty() && kubelet.memory_manager != "None") {
    add(out, target.has_memory() ? Severity::kError : Severity::kWarning, "memory-manager-active",
        kubelet.object(),
        fmt::format("the kubelet's Memory Manager is active (memoryManagerPolicy {}): it chooses NUMA nodes "
                    "without looking at claims{}",
                    kubelet.memory_manager,
                    target.has_memory() ? ", and containers with claims on memory are refused" : ""),
        fix("memoryManagerPolicy: None", "memory_manager_state"), section::kKubelet);
  }
}

// API server and scheduler do not tell their gates; published slices show some of them.
void check_slices(const Facts& facts, const Target& target, Findings& out,
                  std::vector<NotChecked>& not_checked) {
  bool has_shared = false;
  bool has_lists = false;
  for (const SliceObject& slice : facts.slices) {
    has_shared = has_shared || slice.has_shared;
    has_lists = has_lists || slice.has_list_values;
    if (!slice.lost_sharing) continue;
    add(out, Severity::kError, "feature-gate-off", slice.object(),
        fmt::format("it lost \"allowMultipleAllocations\": the API server has feature gate {} off, so each "
                    "device can be given to one claim only",
                    kConsumable),
        fmt::format("--feature-gates={}=true for API server, scheduler and kubelet", kConsumable),
        section::kRequirements);
  }
  const std::optional<int> minor = minor_of(facts.server_version);
  const auto not_seen = [&not_checked](const char* gate, std::string_view when) {
    not_checked.push_back({fmt::format("feature gate {} of API server and scheduler", gate),
                           fmt::format("they do not tell, and no slice shows it; {}", when)});
  };
  if (target.has_grouped() && !has_shared && minor && *minor >= kOldestMinor && *minor < kConsumableOn)
    not_seen(kConsumable, "it is off by default before Kubernetes 1.36 and has to be on");
  const bool wants_lists = std::any_of(target.settings.begin(), target.settings.end(),
                                       [](const Settings& s) { return s.pcie_roots; });
  if (wants_lists && !has_lists) not_seen(kListTypes, "PCIe roots are published only where it is on");
}

}  // namespace

void check_cluster(const Facts& facts, const Target& target, Findings& out,
                   std::vector<NotChecked>& not_checked) {
  check_server(facts, out);
  check_slices(facts, target, out, not_checked);
  for (const NodeObject& node : facts.nodes) {
    if (!node.is_linux || !node.kubelet_minor || *node.kubelet_minor >= kOldestMinor) continue;
    add(out, Severity::kError, "kubernetes-too-old", node.object(),
        fmt::format("its kubelet is 1.{}, 1.34 is the oldest that works", *node.kubelet_minor),
        "upgrade the kubelet to 1.34 or later", section::kRequirements);
  }
  for (const Kubelet& kubelet : facts.kubelets) {
    check_managers(kubelet, target, out);
    check_gates(kubelet, target, out);
  }
  for (const KubeletRefusal& refused : facts.refused_kubelets) {
    add(out, Severity::kInfo, "kubelet-not-checked",
        refused.node.empty() ? std::string("all nodes") : "Node " + refused.node,
        fmt::format("not checked: CPU Manager, Memory Manager and feature gates of the kubelet: {}",
                    refused.why),
        refused.node.empty() ? std::string("kubectl get nodes, then for each: --node NAME")
                             : fmt::format("kubectl get --raw /api/v1/nodes/{}/proxy/configz", refused.node),
        section::kKubelet);
  }
}

}  // namespace dracpu::upgrade
