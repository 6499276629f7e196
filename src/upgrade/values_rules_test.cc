// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "upgrade/chart_schema.h"
#include "upgrade/test_facts.h"

namespace dracpu::upgrade {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// "line 2, column 3 args.loglevel: logLevel".
std::vector<std::string> wrong_in(const std::string& text) {
  std::vector<std::string> out;
  for (const WrongValue& w : check_against_chart(values_of(text).root)) {
    out.push_back(fmt::format("{} {} {}: {}", to_string(w.at),
                              w.kind == WrongValue::Kind::kUnknown ? "unknown" : "invalid", w.path, w.what));
  }
  return out;
}

TEST(ChartSchema, TheChartsOwnValuesPass) {
  const std::string text = read_file(DRACPU_SOURCE_DIR "/deploy/helm/dra-driver-cpu/values.yaml").value();
  EXPECT_THAT(wrong_in(text), IsEmpty());
  Findings findings;
  check_values(values_of(text), findings);
  EXPECT_THAT(findings, IsEmpty());
  EXPECT_EQ(chart_schema_text(),
            read_file(DRACPU_SOURCE_DIR "/deploy/helm/dra-driver-cpu/values.schema.json").value());
}

TEST(ChartSchema, SaysWhereAndWhat) {
  struct Case {
    const char* text;
    std::vector<std::string> wrong;
  };
  const Case cases[] = {
      {"", {}},
      {"extraArgs: [--v=4]\n", {"line 1, column 1 unknown extraArgs: "}},
      {"args:\n  loglevel: 4\n", {"line 2, column 3 unknown args.loglevel: logLevel"}},
      {"args:\n  logLevel: high\n",
       {"line 2, column 13 invalid args.logLevel: must be of type integer, is string"}},
      {"args: {logLevel: -1}\n", {"line 1, column 18 invalid args.logLevel: -1 must be at least 0"}},
      {"healthzPort: 65536\n", {"line 1, column 14 invalid healthzPort: 65536 must be at most 65535"}},
      {"args: {groupBy: core}\n",
       {R"(line 1, column 17 invalid args.groupBy: "core" must be one of "", "numanode", "socket", "machine")"}},
      {"image: {repository: \"\"}\n", {"line 1, column 21 invalid image.repository: must not be empty"}},
      {"args: null\nimage:\n", {}},
      {"tolerations:\n- effect: Never\n",
       {R"(line 2, column 11 invalid tolerations[0].effect: "Never" must be one of "NoSchedule", "PreferNoSchedule", "NoExecute")"}},
      {"updateStrategy: {maxSurge: 25%}\n", {}},
      {"updateStrategy: {maxSurge: all}\n",
       {R"(line 1, column 28 invalid updateStrategy.maxSurge: "all" must look like ^[0-9]+%$)"}},
      {"updateStrategy: {maxSurge: true}\n",
       {"line 1, column 28 invalid updateStrategy.maxSurge: must be of type integer or string, is boolean"}},
      {"KubeletRootDir: /x\n", {}},  // the template speaks about this one
      {"podMonitor: {labels: {a: b, c: [d]}}\n",
       {"line 1, column 32 invalid podMonitor.labels.c: must be of type string, is array"}},
      {"driverConfig: null\n", {}},
      {"driverConfig: {groupBy: socket}\n", {}},
      {"driverConfig: {apiVersion: dracpu/v1beta1, kind: DriverConfiguration, node: {reservedCPUs: none}}\n",
       {}},
      {"driverConfig: {apiVersion: dracpu/v1beta1, kind: DriverConfiguration}\n",
       {"line 1, column 15 invalid driverConfig: lacks \"node\", which has to be stated"}},
  };
  for (const Case& c : cases) EXPECT_THAT(wrong_in(c.text), ElementsAreArray(c.wrong)) << c.text;
}

TEST(ValuesRules, Table) {
  struct Case {
    const char* text;
    std::vector<std::string> ids;
    const char* told = "";
  };
  constexpr const char* kNested =
      "driverConfig: {apiVersion: dracpu/v1beta1, kind: DriverConfiguration, node: {reservedCPUs: none}";
  const auto nested = [&](const std::string& more, const std::string& rest) {
    return kNested + more + "}\n" + rest;
  };
  const std::string args = nested("", "args: {groupBy: socket}\n");
  const std::string roots = nested("", "args: {exposePCIeRoots: true}\n");
  const std::string machine = nested(", cpu: {groupBy: machine}", "");
  const std::string fine = nested(", cpu: {groupBy: machine, allocator: external}", "");
  const Case cases[] = {
      {"{}", {}},
      {"extraArgs: [a]\n", {"error chart-value-unknown"}, "helm show values"},
      {"KubeletRootDir: /x\n", {"error chart-value-unknown"}, "spell it kubeletRootDir"},
      {"healthzPort: 0\n", {"error chart-value-invalid"}, "correct healthzPort"},
      {"image: {repository: registry.k8s.io/dra/dra-driver-cpu}\n", {"error go-image"}},
      {"image: {repository: registry.example.com/dra-driver-cpu-ours}\n", {}},
      {"image: {repository: registry.example.com/dracpu}\n", {}},
      {args.c_str(), {"error chart-value-conflict"}, "driverConfig.cpu.groupBy"},
      {roots.c_str(), {"error chart-value-conflict"}, "driverConfig.publish.pcieRoots"},
      {"args: {groupBy: socket}\ndriverConfig: {reservedCPUs: \"0\"}\n", {}},
      {"args: {groupBy: machine}\n",
       {"error machine-without-external"},
       "driverConfig: {allocator: external}"},
      {"args: {groupBy: machine}\ndriverConfig: {allocator: external}\n", {}},
      {machine.c_str(), {"error machine-without-external"}, "driverConfig: {cpu: {allocator: external}}"},
      {fine.c_str(), {}},
      {"args: {cpuDeviceMode: individual}\n", {"warning individual-mode"}},
      {"updateStrategy: {maxSurge: 1}\n", {"error surge-without-standby"}, "standby: {enabled: true}"},
      {"updateStrategy: {maxSurge: 1}\nstandby: {enabled: true}\n", {}},
      {"updateStrategy: {maxSurge: 0%}\n", {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    Findings findings;
    check_values(values_of(c.text), findings);
    EXPECT_THAT(ids_of(findings), ElementsAreArray(c.ids));
    EXPECT_THAT(texts_of(findings), HasSubstr(c.told));
    for (const Finding& f : findings) EXPECT_EQ(f.object, "file v.yaml");
  }
}

TEST(ValuesRules, ValuesOfUnknownKeysAreNotShown) {
  Findings findings;
  check_values(values_of("password: s3cret\n"), findings);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(texts_of(findings), HasSubstr("password"));
  EXPECT_THAT(texts_of(findings), Not(HasSubstr("s3cret")));
}

}  // namespace
}  // namespace dracpu::upgrade
