// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The rules of `dracpu upgrade check`, one group of them a function: facts in, findings out.
//
// Target   The configurations that the claims will meet: the one given, else that of the chart's values, else
//          those of the drivers found in the cluster, else the defaults when the cluster has no driver.
// Errors   None: a rule that lacks its facts finds nothing, and run_rules() says that it was not checked.
// Threads  Pure.

#ifndef DRACPU_UPGRADE_RULES_H_
#define DRACPU_UPGRADE_RULES_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "upgrade/facts.h"
#include "upgrade/report.h"
#include "upgrade/settings.h"

namespace dracpu::upgrade {

struct Target {
  std::vector<Settings> settings;  // empty: not known
  bool is_given = false;           // by --config or --values: the one that will be
  std::string driver_name = "dra.cpu";

  bool has_machine() const;
  bool has_grouped() const;
  bool has_external() const;
  bool has_memory() const;
};
Target target_of(const Given& given, const Facts& facts);

using Findings = std::vector<Finding>;

// machine-without-external, config-refused, individual-mode.
void check_config(const StatedConfig& stated, Findings& out);
// individual-mode, from what is published.
void check_published_mode(const Facts& facts, Findings& out);

// machine-count, opaque-config-*, admin-access, other-grouping.
void check_claims(const Facts& facts, const Target& target, Findings& out);

// legacy-manifest, second-driver, surge-without-standby.
void check_drivers(const Facts& facts, Findings& out);

// kubernetes-too-old, dra-v1-not-served, feature-gate-off, cpu-manager-active, memory-manager-active,
// kubelet-not-checked. What cannot be seen goes to `not_checked`.
void check_cluster(const Facts& facts, const Target& target, Findings& out,
                   std::vector<NotChecked>& not_checked);

// old-driver-name: what names a driver of before, when the target is called otherwise.
void check_identity(const Given& given, const Facts& facts, const Target& target, Findings& out);
// The same for one old name and the new one.
void check_old_name(const Facts& facts, const std::string& old, const std::string& now, Findings& out);

// memory-driver-active, memory-setting-misplaced, memory-class-exists, memory-old-name, memory-other-device,
// memory-class-not-served, memory-claim-shared, memory-switched-off, hugepages-counted-twice,
// hugepages-without-limit.
void check_memory(const Given& given, const Facts& facts, const Target& target, Findings& out,
                  std::vector<NotChecked>& not_checked);

// chart-value-unknown, chart-value-invalid, chart-value-conflict, go-image, and of the driver's configuration
// in the values machine-without-external, individual-mode and surge-without-standby.
void check_values(const ValuesFile& values, Findings& out);

// All of them, in one report with what was read and what was not.
Report run_rules(const Given& given, const Facts& facts);

// Classes through which a request reaches the driver: named like it, or with a selector that names it.
std::set<std::string> classes_of(const std::vector<ClassObject>& classes, const std::string& driver);

// `name` stands in `text` as a whole: "dra.cpu" in `device.driver == "dra.cpu"`, but not in "dra.cpu.x".
bool mentions(std::string_view text, std::string_view name);

}  // namespace dracpu::upgrade

#endif  // DRACPU_UPGRADE_RULES_H_
