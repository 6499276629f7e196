// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What `dracpu upgrade check` has found, and how it is shown.
//
// Finding  `id` is stable, for programs; `object` says where, as "ResourceClaim team/a" or "file c.yaml";
//          `message` what breaks and why; `fix` a command to run or a line to write; `section` the title in
//          docs/user/upgrading.md that explains it.
// Texts    may hold words of the cluster: both forms escape control characters, and the text form keeps each
//          text on its line. Nothing here holds a secret: values of unknown settings, tokens and claim
//          parameters other than CPU lists are never put into a finding.
// Threads  Values; pure functions.

#ifndef DRACPU_UPGRADE_REPORT_H_
#define DRACPU_UPGRADE_REPORT_H_

#include <string>
#include <string_view>
#include <vector>

namespace dracpu::upgrade {

enum class Severity {
  kError,    // breaks on the move
  kWarning,  // works now, and will not for ever or not in full
  kInfo      // to know
};
std::string_view name_of(Severity severity);  // "error", "warning", "info"

// Titles in docs/user/upgrading.md.
namespace section {
inline constexpr std::string_view kRequirements = "cluster requirements";
inline constexpr std::string_view kConfiguration = "configuration";
inline constexpr std::string_view kMachine = "machine grouping";
inline constexpr std::string_view kIndividual = "individual mode";
inline constexpr std::string_view kOpaque = "opaque configuration";
inline constexpr std::string_view kAdminAccess = "admin access";
inline constexpr std::string_view kGrouping = "change of grouping";
inline constexpr std::string_view kValues = "chart values";
inline constexpr std::string_view kManifest = "legacy manifest";
inline constexpr std::string_view kOneDriver = "one driver per node";
inline constexpr std::string_view kSurge = "surge";
inline constexpr std::string_view kKubelet = "kubelet managers";
inline constexpr std::string_view kIdentity = "driver name";
inline constexpr std::string_view kMemory = "memory";
}  // namespace section

struct Finding {
  Severity severity = Severity::kError;
  std::string id;
  std::string object;
  std::string message;
  std::string fix;
  std::string section;
  friend bool operator==(const Finding&, const Finding&) = default;
};

struct Checked {
  std::string what;    // "ResourceClaims"
  std::string detail;  // "12"; may be empty
};

struct NotChecked {
  std::string what;
  std::string why;
};

struct Report {
  std::vector<Finding> findings;
  std::vector<Checked> checked;
  std::vector<NotChecked> not_checked;

  bool has_errors() const;
};

// Errors first, then by id and object; the same finding twice counts once.
void sort_findings(std::vector<Finding>& findings);

// For a terminal: findings that differ in the object alone stand together.
std::string to_text(const Report& report);
// {"findings": […], "checked": […], "notChecked": [{"what", "why"}]}, one line, ended by a newline.
std::string to_json(const Report& report);

}  // namespace dracpu::upgrade

#endif  // DRACPU_UPGRADE_REPORT_H_
