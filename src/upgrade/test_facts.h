// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Objects and findings, short to write, for the tests of the rules.

#ifndef DRACPU_UPGRADE_TEST_FACTS_H_
#define DRACPU_UPGRADE_TEST_FACTS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "upgrade/rules.h"

namespace dracpu::upgrade {

// Every finding there is: the rules' tests produce no other, and the manual lists these.
inline constexpr std::array<std::string_view, 35> kAllIds = {"admin-access",
                                                             "chart-value-conflict",
                                                             "chart-value-invalid",
                                                             "chart-value-unknown",
                                                             "config-refused",
                                                             "cpu-manager-active",
                                                             "dra-v1-not-served",
                                                             "feature-gate-off",
                                                             "go-image",
                                                             "hugepages-counted-twice",
                                                             "hugepages-without-limit",
                                                             "individual-mode",
                                                             "kubelet-not-checked",
                                                             "kubernetes-too-old",
                                                             "legacy-manifest",
                                                             "machine-count",
                                                             "machine-without-external",
                                                             "memory-claim-shared",
                                                             "memory-class-exists",
                                                             "memory-class-not-served",
                                                             "memory-driver-active",
                                                             "memory-manager-active",
                                                             "memory-old-name",
                                                             "memory-other-device",
                                                             "memory-setting-misplaced",
                                                             "memory-switched-off",
                                                             "old-driver-name",
                                                             "opaque-config-count",
                                                             "opaque-config-from-class",
                                                             "opaque-config-invalid",
                                                             "opaque-config-refused",
                                                             "opaque-config-shared",
                                                             "other-grouping",
                                                             "second-driver",
                                                             "surge-without-standby"};

inline boost::json::object object_in(std::string_view text) {
  return boost::json::parse({text.data(), text.size()}).get_object();
}

// A ResourceClaim team/a with spec.devices and, if given, status.allocation.devices.
inline ClaimObject claim_of(const std::string& devices, const std::string& allocated = "") {
  std::string text =
      R"({"metadata":{"namespace":"team","name":"a","uid":"u"},"spec":{"devices":)" + devices + "}";
  if (!allocated.empty()) text += R"(,"status":{"allocation":{"devices":)" + allocated + "}}";
  Result<ClaimObject> out = read_claim(object_in(text + "}"));
  EXPECT_TRUE(out.ok()) << out.error().text;
  return out.ok() ? *std::move(out) : ClaimObject();
}

inline StatedConfig stated(const std::string& text, const std::string& object = "file c.yaml") {
  return {object, {}, config::FileText{"c.yaml", text}};
}
inline Given given(const std::string& text) {
  Given out;
  out.config = stated(text);
  return out;
}
inline ValuesFile values_of(const std::string& text) {
  Result<config::YamlNode> root = config::parse_yaml(text);
  EXPECT_TRUE(root.ok()) << root.error().text;
  return {"v.yaml", root.ok() ? *std::move(root) : config::YamlNode()};
}

// "error admin-access", in their order, each once.
inline std::vector<std::string> ids_of(const Findings& findings) {
  std::vector<std::string> out;
  for (const Finding& f : findings) {
    EXPECT_TRUE(std::find(kAllIds.begin(), kAllIds.end(), f.id) != kAllIds.end()) << f.id;
    EXPECT_FALSE(f.object.empty() || f.message.empty() || f.fix.empty() || f.section.empty()) << f.id;
    std::string line = fmt::format("{} {}", name_of(f.severity), f.id);
    if (std::find(out.begin(), out.end(), line) == out.end()) out.push_back(std::move(line));
  }
  return out;
}

// Everything that the findings say, to look for words in.
inline std::string texts_of(const Findings& findings) {
  std::string out;
  for (const Finding& f : findings) out += fmt::format("{}\n{}\n{}\n", f.object, f.message, f.fix);
  return out;
}

}  // namespace dracpu::upgrade

#endif  // DRACPU_UPGRADE_TEST_FACTS_H_
