// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the two forms of the file accept and refuse.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"

namespace dracpu::config {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Result<Loaded> from_file(std::string text, const Flags& flags = {}) {
  const FileText file{"/etc/c.yaml", std::move(text)};
  return resolve(flags, {}, &file);
}

struct Refusal {
  const char* about;
  std::string text;
  std::vector<std::string> told;
  std::vector<std::string> not_told = {};
};

void expect_refused(const Refusal& c) {
  SCOPED_TRACE(c.about);
  const Result<Loaded> got = from_file(c.text);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, Errc::kInvalidInput);
  EXPECT_THAT(got.error().text, HasSubstr("/etc/c.yaml"));
  for (const std::string& word : c.told) EXPECT_THAT(got.error().text, HasSubstr(word));
  for (const std::string& word : c.not_told) EXPECT_THAT(got.error().text, Not(HasSubstr(word)));
}

TEST(V1Alpha1, Accepts) {
  for (const char* text : {"", "\n", "# nothing\n", "---\n", "{}\n", "~\n", "apiVersion: v1alpha1\n",
                           "apiVersion: \"v1alpha1\"\nreservedCPUs: 0-1\n", "reservedCPUs: '0'\n",
                           "kubeconfig:\n", "groupBy: &g socket\nhostnameOverride: *g\n",
                           "hostnameOverride: !!str 7\n", "--- \ngroupBy: socket\n...\n",
                           "{\"groupBy\": \"socket\", \"publishNodeAllocatableResourceMapping\": true}"}) {
    SCOPED_TRACE(text);
    const Result<Loaded> got = from_file(text);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(got->config.format, Format::kV1Alpha1);
    EXPECT_EQ(got->config.file, "/etc/c.yaml");
  }
}

TEST(V1Alpha1, EveryField) {
  const Result<Loaded> got = from_file(
      "apiVersion: v1alpha1\ncpuDeviceMode: grouped\ngroupBy: machine\nallocator: external\n"
      "reservedCPUs: \"0,64\"\nhostnameOverride: Node-A\nkubeconfig: /k\nsysfsOverlay: /o\n"
      "publishNodeAllocatableResourceMapping: true\n");
  ASSERT_TRUE(got.ok()) << got.error().text;
  const Config& c = got->config;
  EXPECT_EQ(c.cpu.group_by, GroupBy::kMachine);
  EXPECT_EQ(c.cpu.allocator, Allocator::kExternal);
  EXPECT_EQ(c.node.reserved_cpus.to_string(), "0,64");
  EXPECT_EQ(c.node.name, "node-a");
  EXPECT_EQ(c.runtime.kubeconfig, "/k");
  EXPECT_EQ(c.node.sysfs_overlay, "/o");
  EXPECT_TRUE(c.publish.node_allocatable_mapping);
  EXPECT_TRUE(got->warnings.empty());
}

TEST(V1Alpha1, OldBooleansWorkWithAWarning) {
  for (const auto& [word, on] : std::initializer_list<std::pair<const char*, bool>>{
           {"yes", true}, {"on", true}, {"Y", true}, {"no", false}, {"OFF", false}, {"n", false}}) {
    SCOPED_TRACE(word);
    const Result<Loaded> got =
        from_file(fmt::format("reservedCPUs: \"0\"\npublishNodeAllocatableResourceMapping: {}\n", word));
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(got->config.publish.node_allocatable_mapping, on);
    ASSERT_EQ(got->warnings.size(), 1U);
    EXPECT_THAT(got->warnings[0].advice, HasSubstr("line 2, column 40"));
  }
}

TEST(V1Alpha1, Refuses) {
  for (const Refusal& c : std::vector<Refusal>{
           {"no YAML", "a: [1\n", {"line "}},
           {"tabs for indent", "a:\n\t- b\n", {"line 2 is indented with a tab, use spaces"}},
           {"UTF-16", "\xff\xfeg\x01", {"UTF-16", "save it as UTF-8"}},
           {"a scalar", "hello\n", {"line 1, column 1", "must be a mapping", "a text"}},
           {"a list", "- groupBy\n", {"must be a mapping", "a list"}},
           {"a key twice",
            "groupBy: socket\nallocator: external\ngroupBy: socket\n",
            {"line 3, column 1", "\"groupBy\"", "line 1, column 1"}},
           {"a key twice in an unknown section", "x:\n  a: 1\n  a: 2\n", {"line 3, column 3", "\"a\""}},
           {"a second document", "groupBy: socket\n---\ngroupBy: numanode\n", {"line 2", "second document"}},
           {"a carriage return alone",
            "groupBy: socket # a\rreservedCPUs: \"0\"\n",
            {"line 1, column 20", "control character"}},
           {"a control character",
            "groupBy: so\x01"
            "cket\n",
            {"line 1, column 12", "control character"}},
           {"a key that is a list", "? [a]\n: b\n", {"line 1", "key"}},
           {"apiVersion of another kind",
            "apiVersion: v1\n",
            {"line 1, column 13", "\"v1\"", "\"v1alpha1\""}},
           {"apiVersion in capitals", "apiVersion: V1Alpha1\n", {"\"V1Alpha1\"", "\"v1alpha1\""}},
           {"apiVersion that is a number", "apiVersion: 1\n", {"\"1\"", "a number", "\"v1alpha1\""}},
           {"apiVersion that is nothing", "apiVersion:\n", {"nothing", "\"v1alpha1\""}},
           {"apiVersion that is a list", "apiVersion: [v1alpha1]\n", {"a list", "\"v1alpha1\""}},
           {"apiVersion comes before spelling", "apiVersion: v2\ngroupby: x\n", {"\"v2\""}, {"groupBy"}},
           {"spelling", "groupby: socket\n", {"\"groupby\"", "\"groupBy\"", "line 1, column 1"}},
           {"spelling of apiVersion", "apiversion: v1alpha1\n", {"\"apiversion\"", "\"apiVersion\""}},
           {"spelling, all at once, sorted",
            "reservedCpus: x\nGROUPBY: y\n",
            {"\"GROUPBY\" (line 2, column 1) must be spelled \"groupBy\"; key \"reservedCpus\""}},
           {"spelling comes before excluded keys",
            "bindAddress: x\ngroupby: y\n",
            {"groupBy"},
            {"healthzPort"}},
           {"bindAddress", "bindAddress: :8080\n", {"bindAddress", "healthzPort", "line 1, column 1"}},
           {"exposePCIeRoots", "exposePCIeRoots: true\n", {"args.exposePCIeRoots"}},
           {"kubeletRootDir", "kubeletRootDir: /k\n", {"kubeletRootDir", "--kubelet-root-dir"}},
           {"excluded in other letters", "BINDADDRESS: x\n", {"BINDADDRESS", "healthzPort"}, {"spelled"}},
           {"excluded come before unknown", "foo: 1\nkubeletrootdir: /k\n", {"--kubelet-root-dir"}, {"foo"}},
           {"an unknown key", "foo: 1\n", {"\"foo\"", "line 1, column 1"}},
           {"a near miss", "grupBy: socket\n", {"\"grupBy\"", "did you mean \"groupBy\""}},
           {"a key of the nested form",
            "cpu:\n  groupBy: socket\n",
            {"line 1, column 1", "\"cpu\"", "apiVersion is missing", "state \"apiVersion: dracpu/v1beta1\""},
            {"take it out"}},
           {"kind of the nested form",
            "kind: DriverConfiguration\n",
            {"\"kind\"", "state \"apiVersion: dracpu/v1beta1\""}},
           {"a nested key under the flat version",
            "apiVersion: v1alpha1\nobserve: {}\n",
            {"line 2, column 1", "\"observe\"", "apiVersion says the flat one"}},
           {"a merge key", "<<: {groupBy: socket}\n", {"\"<<\""}},
           {"a number for CPUs",
            "reservedCPUs: 0\n",
            {"line 1, column 15", "reservedCPUs must be a text", "a number", "in quotes: \"0\""}},
           {"octal look-alike", "reservedCPUs: 010\n", {"a number with a leading zero", "\"010\""}},
           {"hex", "reservedCPUs: 0x3\n", {"a number"}},
           {"a float", "reservedCPUs: 1e3\n", {"a number"}},
           {"a boolean for a text", "hostnameOverride: true\n", {"a boolean", "in quotes"}},
           {"an old boolean for a text", "hostnameOverride: no\n", {"a boolean", "in quotes: \"no\""}},
           {"a list for a text", "reservedCPUs: [0, 1]\n", {"a list", "write one text: \"0,1\""}},
           {"a CPU number beyond all", "reservedCPUs: \"0,65536\"\n", {"\"0,65536\"", "is 65535"}},
           {"a long value is cut",
            "groupBy: " + std::string(5000, 'x') + "\n",
            {"… (5000 bytes)"},
            {std::string(300, 'x')}},
           {"control characters are shown", "groupBy: \"a\\nb\\e[31m\"\n", {R"("a\nb\x1b[31m")"}, {"\x1b"}},
           {"a mapping for a text", "groupBy: {a: b}\n", {"a mapping"}},
           {"a text for a boolean",
            "publishNodeAllocatableResourceMapping: \"true\"\n",
            {"true or false", "a text"}},
           {"a number for a boolean", "publishNodeAllocatableResourceMapping: 1\n", {"true or false"}},
           {"a tag", "groupBy: !!int socket\n", {"tag"}},
           {"two problems, both told",
            "foo: 1\nreservedCPUs: 7\n",
            {"line 1, column 1: key \"foo\"", "; line 2"}},
       }) {
    expect_refused(c);
  }
}

TEST(Yaml, RefusesWhatBlowsUp) {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 10; ++i) {
    std::string line = fmt::format("a{}: &a{} [", i, i);
    for (int j = 0; j < 10; ++j) line += fmt::format("{}*a{}", j == 0 ? "" : ",", i - 1);
    bomb += line + "]\n";
  }
  std::string chain = "a0: &a0 [x]\n";
  for (int i = 1; i < 40; ++i) chain += fmt::format("a{}: &a{} [*a{}]\n", i, i, i - 1);
  std::string wide;
  for (int i = 0; i < 20000; ++i) wide += fmt::format("k{}: v\n", i);
  for (const Refusal& c : std::vector<Refusal>{
           {"aliases that multiply", bomb, {"aliases blow"}},
           {"aliases that nest", chain, {"nest too deeply"}},
           {"an alias to its own parent", "a: &x [*x]\n", {"encloses"}},
           {"an alias to nothing", "a: *nothing\n", {"line 1"}},
           {"brackets", "a: " + std::string(10000, '['), {}},
           {"nested mappings", "a: " + std::string(40, '[') + std::string(40, ']'), {"too deeply"}},
           {"many keys", wide, {"more values"}},
       }) {
    expect_refused(c);
  }
}

constexpr const char* kSample = R"(apiVersion: dracpu/v1beta1
kind: DriverConfiguration
node:
  name: "Worker-1"
  reservedCPUs: "0-1"
  sysfsOverlay: ""
cpu:
  devices: grouped
  groupBy: socket
  allocator: cpumanager
  preferL3: false
publish:
  driverName: cpu.example.com
  pcieRoots: true
  nodeAllocatableMapping: true
memory:
  enabled: false
  mode: separate
  nodes: ""
  reserved: ""
  hugetlbEnforcement: container
  limitPolicy: none
  verifyFreeHugepages: true
  rescanSeconds: 60
state:
  file: "/data/state.json"
runtime:
  kubeletRootDir: /data/kubelet/
  nriSocket: /run/nri.sock
  cdiDir: /run/cdi
  kubeconfig: "/k"
  growPool: nextHook
observe:
  bindAddress: "127.0.0.1:9000"
  statusPage: "127.0.0.1:8081"
  events: false
  logFormat: json
  verbosity: 4
)";

TEST(V1Beta1, EveryField) {
  const Result<Loaded> got = from_file(kSample);
  ASSERT_TRUE(got.ok()) << got.error().text;
  const Config& c = got->config;
  EXPECT_EQ(c.format, Format::kV1Beta1);
  EXPECT_EQ(c.node.name, "worker-1");
  EXPECT_EQ(c.node.reserved_cpus.to_string(), "0-1");
  EXPECT_EQ(c.cpu.group_by, GroupBy::kSocket);
  EXPECT_FALSE(c.cpu.prefer_l3);
  EXPECT_EQ(c.publish.driver_name, "cpu.example.com");
  EXPECT_TRUE(c.publish.pcie_roots);
  EXPECT_TRUE(c.publish.node_allocatable_mapping);
  EXPECT_EQ(c.state.file, "/data/state.json");
  EXPECT_EQ(state_file(c), "/data/state.json");
  EXPECT_EQ(c.runtime.kubelet_root_dir, "/data/kubelet");
  EXPECT_EQ(c.runtime.nri_socket, "/run/nri.sock");
  EXPECT_EQ(c.runtime.cdi_dir, "/run/cdi");
  EXPECT_EQ(c.runtime.kubeconfig, "/k");
  EXPECT_EQ(c.runtime.grow_pool, GrowPool::kNextHook);
  EXPECT_EQ(c.observe.bind_address, "127.0.0.1:9000");
  EXPECT_EQ(c.observe.status_page, "127.0.0.1:8081");
  EXPECT_FALSE(c.observe.events);
  EXPECT_EQ(c.observe.log_format, LogFormat::kJson);
  EXPECT_EQ(c.observe.verbosity, 4);
  EXPECT_TRUE(got->warnings.empty());
}

constexpr const char* kHead = "apiVersion: dracpu/v1beta1\nkind: DriverConfiguration\n";

TEST(V1Beta1, WhatIsPrintedLoadsAsTheSame) {
  for (const std::string& text :
       {std::string(kSample), std::string(kHead) + "node: {reservedCPUs: none}\n"}) {
    const Result<Loaded> first = from_file(text);
    ASSERT_TRUE(first.ok()) << first.error().text;
    const std::string printed = to_yaml(first->config);
    const Result<Loaded> second = from_file(printed);
    ASSERT_TRUE(second.ok()) << second.error().text << "\n" << printed;
    EXPECT_EQ(to_yaml(second->config), printed);
    EXPECT_EQ(second->config.node.reserved_cpus, first->config.node.reserved_cpus);
  }
}

constexpr const char* kMemory = R"(
node: {reservedCPUs: none}
memory:
  enabled: ENABLED
  nodes: "0-1,4"
  reserved: "0:memory=1Gi,hugepages-2Mi=64Mi;1:memory=1e9"
  hugetlbEnforcement: none
  limitPolicy: whenUnset
  verifyFreeHugepages: false
  rescanSeconds: 0
)";

std::string with_memory(bool enabled) {
  std::string out = kHead + std::string(kMemory);
  return out.replace(out.find("ENABLED"), 7, enabled ? "true" : "false");
}

TEST(V1Beta1, EveryFieldOfMemory) {
  const Result<Loaded> got = from_file(with_memory(true));
  ASSERT_TRUE(got.ok()) << got.error().text;
  const Config::Memory& m = got->config.memory;
  EXPECT_TRUE(m.enabled);
  EXPECT_EQ(m.mode, MemoryMode::kSeparate);
  EXPECT_EQ(m.nodes, "0-1,4");
  EXPECT_EQ(m.reserved, "0:memory=1Gi,hugepages-2Mi=64Mi;1:memory=1e9");
  EXPECT_EQ(m.hugetlb, HugetlbEnforcement::kNone);
  EXPECT_EQ(m.limit, MemoryLimitPolicy::kWhenUnset);
  EXPECT_FALSE(m.verify_free_hugepages);
  EXPECT_EQ(m.rescan_seconds, 0);
  EXPECT_TRUE(got->warnings.empty());
  const Result<Loaded> again = from_file(to_yaml(got->config));
  ASSERT_TRUE(again.ok()) << again.error().text;
  EXPECT_EQ(again->config.memory, m);
}

TEST(V1Beta1, CombinedMemoryIsToldToBeAlpha) {
  const Result<Loaded> got =
      from_file(kHead + std::string("node: {reservedCPUs: none}\nmemory: {enabled: true, mode: combined}\n"));
  ASSERT_TRUE(got.ok()) << got.error().text;
  ASSERT_EQ(got->warnings.size(), 1U);
  EXPECT_THAT(got->warnings[0].event, HasSubstr("alpha"));
}

TEST(V1Beta1, MemorySettingsWithoutMemoryAreTold) {
  const Result<Loaded> got = from_file(with_memory(false));
  ASSERT_TRUE(got.ok()) << got.error().text;
  ASSERT_EQ(got->warnings.size(), 1U);
  EXPECT_EQ(got->warnings[0].setting, "memory");
  EXPECT_THAT(got->warnings[0].advice, HasSubstr("memory.enabled"));
}

TEST(V1Beta1, ALongKubeletRootWillDoWithoutMemory) {
  EXPECT_TRUE(from_file(kHead + std::string("node: {reservedCPUs: none}\nruntime: {kubeletRootDir: /") +
                        std::string(70, 'k') + "}\n")
                  .ok());
}

TEST(V1Beta1, ReservedCpusMustBeStated) {
  EXPECT_TRUE(from_file(std::string(kHead) + "node:\n  reservedCPUs: none\n").ok());
  Flags flags;
  flags.reserved_cpus = "0";
  EXPECT_TRUE(from_file(kHead, flags).ok()) << "by flag will do";
  flags.reserved_cpus = "none";
  EXPECT_TRUE(from_file(kHead, flags).ok());
  const Result<Loaded> got = from_file(kHead);
  ASSERT_FALSE(got.ok());
  EXPECT_THAT(got.error().text, HasSubstr("node.reservedCPUs is missing"));
  EXPECT_THAT(got.error().text, HasSubstr("\"none\""));
}

// The parser tells of an empty value only at what follows.
TEST(V1Beta1, AnEmptySectionIsToldWhereItStands) {
  const std::string head = "apiVersion: dracpu/v1beta1\nkind: DriverConfiguration\n";
  expect_refused({"followed by a comment and another key",
                  head + "node:\n  reservedCPUs: none\nmemory:\n\n# x\nobserve: {}\n",
                  {"line 5, column", "memory must be a mapping, not nothing"}});
  expect_refused({"an empty field", head + "node:\n  reservedCPUs:\ncpu: {}\n", {"line 4, column"}});
}

TEST(V1Beta1, Refuses) {
  const auto with = [](std::string_view rest) {
    return std::string(kHead) + "node:\n  reservedCPUs: \"0\"\n" + std::string(rest);
  };
  for (const Refusal& c : std::vector<Refusal>{
           {"no kind",
            "apiVersion: dracpu/v1beta1\nnode: {reservedCPUs: none}\n",
            {"kind", "DriverConfiguration"}},
           {"another kind", "apiVersion: dracpu/v1beta1\nkind: Pod\n", {"line 2, column 7", "\"Pod\""}},
           {"another version", "apiVersion: dracpu/v1\nkind: DriverConfiguration\n", {"\"dracpu/v1\""}},
           {"reserved CPUs empty", std::string(kHead) + "node: {reservedCPUs: \"\"}\n", {"empty", "none"}},
           {"reserved CPUs no list",
            std::string(kHead) + "node: {reservedCPUs: x}\n",
            {"line 3, column 22", "node.reservedCPUs \"x\""}},
           {"reserved CPUs a number", std::string(kHead) + "node: {reservedCPUs: 3}\n", {"in quotes: \"3\""}},
           {"None in capitals", std::string(kHead) + "node: {reservedCPUs: None}\n", {"\"None\""}},
           {"unknown at the top", with("extra: 1\n"), {"line 5, column 1", "\"extra\""}},
           {"a flat key", with("groupBy: socket\n"), {"\"groupBy\""}},
           {"unknown in a section", with("cpu:\n  group: socket\n"), {"line 6, column 3", "\"cpu.group\""}},
           {"a near miss", with("cpu:\n  groupby: socket\n"), {"did you mean \"cpu.groupBy\""}},
           {"a section that is a text", with("cpu: grouped\n"), {"cpu must be a mapping", "a text"}},
           {"a section without content",
            with("cpu:\n"),
            {"cpu must be a mapping", "nothing", "take the key out"}},
           {"a null value", with("cpu:\n  groupBy:\n"), {"cpu.groupBy", "nothing", "take the key out"}},
           {"an old boolean",
            with("cpu:\n  preferL3: yes\n"),
            {"cpu.preferL3 must be true or false, not \"yes\""},
            {"a boolean"}},
           {"a bad device mode",
            with("cpu: {devices: shared}\n"),
            {"cpu.devices \"shared\"", "grouped or individual"}},
           {"a bad group",
            with("cpu: {groupBy: node}\n"),
            {"cpu.groupBy \"node\"", "numanode, socket or machine"}},
           {"machine without external", with("cpu: {groupBy: machine}\n"), {"cpu.groupBy", "external"}},
           {"a bad allocator",
            with("cpu: {allocator: internal}\n"),
            {"cpu.allocator", "cpumanager or external"}},
           {"memory, combined mode of sockets",
            with("cpu: {groupBy: socket}\nmemory:\n  enabled: true\n  mode: combined\n"),
            {"line 8, column 9", "requires cpu.devices \"grouped\""}},
           {"memory, an unknown enforcement",
            with("memory: {hugetlbEnforcement: all}\n"),
            {"memory.hugetlbEnforcement \"all\"", "none, container or pod"}},
           {"memory, nodes that are no list",
            with("memory:\n  nodes: all\n"),
            {"line 6, column 10", "memory.nodes", "such as 0-1,4"}},
           {"memory, a reservation without a node",
            with("memory:\n  reserved: memory=1Gi\n"),
            {"line 6, column 13", "memory.reserved: entry \"memory=1Gi\" is not"}},
           {"memory, a reservation of half a page",
            with("memory:\n  reserved: \"0:hugepages-2Mi=3Mi\"\n"),
            {"line 6, column 13", "not a multiple of the page size"}},
           {"memory, the driver's name taken",
            with("publish: {driverName: dra.memory}\nmemory: {enabled: true}\n"),
            {"publish.driverName \"dra.memory\"", "choose another"}},
           {"memory, a kubelet root that is too long for its socket",
            with(fmt::format("runtime: {{kubeletRootDir: /{}}}\nmemory: {{enabled: true}}\n",
                             std::string(70, 'k'))),
            {"runtime.kubeletRootDir", "driver \"dra.memory\"", "70 bytes, this one has 71"}},
           {"memory with a bad mode",
            with("memory: {enabled: false, mode: both}\n"),
            {"memory.mode \"both\""}},
           {"memory, unknown key", with("memory: {enabled: false, size: 1}\n"), {"\"memory.size\""}},
           {"memory, bad interval", with("memory: {rescanSeconds: 3601}\n"), {"from 0 to 3600"}},
           {"memory, too often",
            with("memory:\n  rescanSeconds: 5\n"),
            {"line 6, column 18", "memory.rescanSeconds must be 0 or between 10 and 3600"}},
           {"driver name empty", with("publish: {driverName: \"\"}\n"), {"publish.driverName", "empty"}},
           {"driver name in capitals", with("publish: {driverName: DRA.cpu}\n"), {"lower-case"}},
           {"driver name with an empty label", with("publish: {driverName: dra..cpu}\n"), {"DNS name"}},
           {"driver name that ends in a dash", with("publish: {driverName: dra.cpu-}\n"), {"DNS name"}},
           {"driver name that climbs", with("publish: {driverName: ../x}\n"), {"DNS name"}},
           {"driver name too long",
            with("publish: {driverName: " + std::string(64, 'a') + "}\n"),
            {"64 characters", "63"}},
           {"driver name that leaves no room for the socket",
            with("publish: {driverName: " + std::string(63, 'a') +
                 "}\nruntime: {kubeletRootDir: /0123456789abcdef0}\n"),
            {"107", "108", "runtime.kubeletRootDir"}},
           {"kubelet root relative", with("runtime: {kubeletRootDir: kubelet}\n"), {"absolute"}},
           {"NRI socket relative",
            with("runtime: {nriSocket: nri.sock}\n"),
            {"runtime.nriSocket", "absolute"}},
           {"NRI socket too long",
            with("runtime: {nriSocket: /" + std::string(107, 'n') + "}\n"),
            {"108", "107"}},
           {"CDI folder empty", with("runtime: {cdiDir: \"\"}\n"), {"runtime.cdiDir", "empty"}},
           {"bad growPool",
            with("runtime: {growPool: nexthook}\n"),
            {"runtime.growPool", "auto or nextHook"}},
           {"state file relative", with("state: {file: state.json}\n"), {"state.file", "absolute"}},
           {"state file is a folder", with("state: {file: /data/}\n"), {"state.file", "directory"}},
           {"log format", with("observe: {logFormat: xml}\n"), {"text or json"}},
           {"verbosity negative", with("observe: {verbosity: -1}\n"), {"from 0 to 10"}},
           {"verbosity octal", with("observe: {verbosity: 04}\n"), {"whole number", "leading zero"}},
           {"verbosity hex", with("observe: {verbosity: 0x4}\n"), {"from 0 to 10"}},
           {"verbosity a text", with("observe: {verbosity: \"4\"}\n"), {"whole number", "a text"}},
           {"verbosity out of range", with("observe: {verbosity: 99999999999}\n"), {"from 0 to 10"}},
           {"node name with a slash", with("") + "  name: a/b\n", {"line 5, column 9", "node.name \"a/b\""}},
           {"node name with a line feed",
            with("") + "  name: \"a\\nb\"\n",
            {"node.name \"a\\nb\"", "kubectl"}},
           {"node name of other letters", with("") + "  name: knöten\n", {"node.name \"knöten\""}},
           {"node name too long",
            with("") + "  name: " + std::string(254, 'n') + "\n",
            {"(254 bytes)", "253"}},
           {"node name of spaces", with("") + "  name: \"  \"\n", {"white space"}},
           {"bindAddress without a port",
            with("observe:\n  bindAddress: nowhere\n"),
            {"line 6, column 16", "observe.bindAddress", "\"nowhere\"", "the port is missing"}},
           {"bindAddress empty",
            with("observe: {bindAddress: \"\"}\n"),
            {"observe.bindAddress", "\":8080\""}},
           {"bindAddress with a name",
            with("observe: {bindAddress: \"a.example:80\"}\n"),
            {"observe.bindAddress", "not an IP address"}},
           {"bindAddress with an empty socket",
            with("observe: {bindAddress: \"unix:\"}\n"),
            {"must be absolute"}},
           {"statusPage with a port too large",
            with("observe: {statusPage: \":65536\"}\n"),
            {"observe.statusPage", "65535"}},
           {"statusPage with a long socket",
            with("observe: {statusPage: \"unix:/" + std::string(107, 's') + "\"}\n"),
            {"observe.statusPage", "108", "107"}},
           {"both on one address",
            with("observe: {bindAddress: \":9\", statusPage: \"127.0.0.1:9\"}\n"),
            {"observe.statusPage \"127.0.0.1:9\"", "observe.bindAddress \":9\""}},
           {"statusPage on the usual address",
            with("observe: {statusPage: \"127.0.0.1:8080\"}\n"),
            {"observe.statusPage", "bindAddress \":8080\""}},
           {"bindAddress on the control socket",
            with("observe: {bindAddress: \"unix:/run/dracpu/control.sock\"}\n"),
            {"observe.bindAddress", "dracpu health"}},
           {"statusPage on the control socket",
            with("observe: {statusPage: \"unix:/run/dracpu/control.sock\"}\n"),
            {"observe.statusPage", "dracpu health"}},
           {"bindAddress a number", with("observe: {bindAddress: 8080}\n"), {"in quotes: \"8080\""}},
       }) {
    expect_refused(c);
  }
}

}  // namespace
}  // namespace dracpu::config
