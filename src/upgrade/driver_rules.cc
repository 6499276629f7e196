// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Drivers that run in the cluster: at most one may own a node.

#include <algorithm>
#include <utility>

#include "upgrade/rules.h"

namespace dracpu::upgrade {
namespace {

bool has_surge(const std::string& max_surge) {
  return !max_surge.empty() && max_surge != "0" && max_surge != "0%";
}

// No node can fit both: they want different values of one label.
bool are_apart(const DriverSet& a, const DriverSet& b) {
  return std::any_of(a.node_selector.begin(), a.node_selector.end(), [&b](const auto& wanted) {
    const auto other = b.node_selector.find(wanted.first);
    return other != b.node_selector.end() && other->second != wanted.second;
  });
}

void check_manifest(const DriverSet& set, Findings& out) {
  const auto app = set.selector.find("app");
  // This driver's own manifest has the same selector and may stay.
  if (set.is_this_driver || app == set.selector.end() || app->second != "dracpu") return;
  out.push_back(
      {Severity::kError, "legacy-manifest", set.object(),
       "it is from install.yaml of release 0.1.0 (selector \"app: dracpu\"): a selector cannot be "
       "changed, and the chart would start a second driver beside it",
       fmt::format("kubectl delete -f install.yaml (the one that was applied; at least: kubectl -n {} "
                   "delete daemonset {}), then install the chart; running pods keep their CPUs",
                   set.ns, set.name),
       std::string(section::kManifest)});
}

void check_surge(const DriverSet& set, Findings& out) {
  if (!has_surge(set.max_surge) || (set.is_this_driver && set.is_standby_ready)) return;
  const std::string why =
      set.is_this_driver
          ? "a waiting pod is not ready, so the update never goes on"
          : "the old driver knows no lock, so two drivers would work on one node during the update";
  out.push_back({Severity::kError, "surge-without-standby", set.object(),
                 fmt::format("its update has maxSurge {} without the standby guard: {}", set.max_surge, why),
                 set.is_this_driver
                     ? std::string("--set standby.enabled=true,updateStrategy.maxUnavailable=0")
                     : fmt::format("kubectl -n {} patch daemonset {} --type=merge -p "
                                   "'{{\"spec\":{{\"updateStrategy\":{{\"rollingUpdate\":{{\"maxSurge\":0,"
                                   "\"maxUnavailable\":1}}}}}}}}'",
                                   set.ns, set.name),
                 std::string(section::kSurge)});
}

std::string removal_of(const DriverSet& set) {
  return set.release.empty() ? fmt::format("kubectl -n {} delete daemonset {}", set.ns, set.name)
                             : fmt::format("helm uninstall {} -n {}", set.release, set.ns);
}

}  // namespace

void check_drivers(const Facts& facts, Findings& out) {
  if (!facts.drivers) return;
  std::vector<const DriverSet*> running;
  for (const DriverSet& set : *facts.drivers) {
    check_manifest(set, out);
    check_surge(set, out);
    if (!set.runs_nowhere) running.push_back(&set);
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (are_apart(*running[k], *running[i])) continue;
      out.push_back(
          {Severity::kError, "second-driver", running[i]->object(),
           fmt::format("{} may run on the same nodes: two drivers there would give the same CPUs away twice",
                       running[k]->object()),
           fmt::format("keep one: {}, or: {}; for two groups of nodes give each its own nodeSelector",
                       removal_of(*running[k]), removal_of(*running[i])),
           std::string(section::kOneDriver)});
    }
  }
}

}  // namespace dracpu::upgrade
