// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Values, combinations and precedence; the same rules for both forms of the file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "config/load.h"

namespace dracpu::config {
namespace {

using ::testing::HasSubstr;

Result<Loaded> from_file(std::string text, const Flags& flags = {}, const Env& env = {}) {
  const FileText file{"/etc/c.yaml", std::move(text)};
  return resolve(flags, env, &file);
}

Result<Loaded> from_flags(const Flags& flags, const Env& env = {}) { return resolve(flags, env, nullptr); }

TEST(Resolve, DefaultsAreThoseOfRelease030) {
  const Result<Loaded> got = from_flags({});
  ASSERT_TRUE(got.ok()) << got.error().text;
  const Config& c = got->config;
  EXPECT_EQ(c.format, Format::kFlagsOnly);
  EXPECT_EQ(c.cpu.devices, DeviceMode::kGrouped);
  EXPECT_EQ(c.cpu.group_by, GroupBy::kNumaNode);
  EXPECT_EQ(c.cpu.allocator, Allocator::kCpuManager);
  EXPECT_EQ(c.observe.bind_address, ":8080");
  EXPECT_EQ(c.publish.driver_name, "dra.cpu");
  EXPECT_FALSE(c.publish.pcie_roots);
  EXPECT_FALSE(c.publish.node_allocatable_mapping);
  EXPECT_EQ(c.runtime.kubelet_root_dir, "/var/lib/kubelet");
  EXPECT_EQ(c.runtime.kubeconfig, "");
  EXPECT_EQ(c.observe.verbosity, 0);
  EXPECT_TRUE(c.node.reserved_cpus.empty());
  EXPECT_EQ(registrar_socket(c, c.publish.driver_name), "/var/lib/kubelet/plugins_registry/dra.cpu-reg.sock");
  EXPECT_EQ(state_file(c), "/var/lib/kubelet/plugins/dracpu/state.json");
  ASSERT_EQ(got->warnings.size(), 1U) << "nothing is reserved";
  EXPECT_EQ(got->warnings[0].setting, "reservedCPUs");
}

TEST(Resolve, FlagsThatWereGivenWin) {
  const std::string file =
      "cpuDeviceMode: individual\ngroupBy: socket\nreservedCPUs: \"0-3\"\nhostnameOverride: a\n"
      "kubeconfig: /k\nsysfsOverlay: /o\n";
  const Result<Loaded> plain = from_file(file);
  ASSERT_TRUE(plain.ok()) << plain.error().text;
  EXPECT_EQ(plain->config.cpu.devices, DeviceMode::kIndividual);
  EXPECT_EQ(plain->config.node.name, "a");
  Flags flags;
  flags.cpu_device_mode = "grouped";
  flags.group_by = "numanode";
  flags.reserved_cpus = "";
  flags.hostname_override = " NODE-B ";
  flags.kubeconfig = "/k2";
  flags.sysfs_overlay = "/o2";
  flags.verbosity = 4;
  flags.expose_pcie_roots = true;
  flags.bind_address = "127.0.0.1:1";
  const Result<Loaded> got = from_file(file, flags);
  ASSERT_TRUE(got.ok()) << got.error().text;
  const Config& c = got->config;
  EXPECT_EQ(c.cpu.devices, DeviceMode::kGrouped);
  EXPECT_EQ(c.cpu.group_by, GroupBy::kNumaNode);
  EXPECT_TRUE(c.node.reserved_cpus.empty()) << "given, though empty";
  EXPECT_EQ(c.node.name, "node-b");
  EXPECT_EQ(c.runtime.kubeconfig, "/k2");
  EXPECT_EQ(c.node.sysfs_overlay, "/o2");
  EXPECT_EQ(c.observe.verbosity, 4);
  EXPECT_TRUE(c.publish.pcie_roots);
  EXPECT_EQ(c.observe.bind_address, "127.0.0.1:1");
}

TEST(Resolve, DeprecatedFlagsAreTold) {
  struct Case {
    std::optional<std::string> Flags::*member;
    const char* value;
    const char* flag;
    const char* field;
  };
  for (const Case& c : std::initializer_list<Case>{
           {&Flags::cpu_device_mode, "grouped", "--cpu-device-mode", "cpuDeviceMode"},
           {&Flags::group_by, "numanode", "--group-by", "groupBy"},
           {&Flags::reserved_cpus, "0", "--reserved-cpus", "reservedCPUs"},
           {&Flags::hostname_override, "n", "--hostname-override", "hostnameOverride"},
           {&Flags::sysfs_overlay, "/f", "--sysfs-overlay", "sysfsOverlay"},
       }) {
    SCOPED_TRACE(c.flag);
    Flags flags;
    flags.*c.member = c.value;
    const Result<Loaded> got = from_file("reservedCPUs: \"1\"\n", flags);
    ASSERT_TRUE(got.ok()) << got.error().text;
    ASSERT_EQ(got->warnings.size(), 1U);
    EXPECT_EQ(got->warnings[0].setting, c.flag);
    EXPECT_THAT(got->warnings[0].advice, HasSubstr(c.field));
  }
}

TEST(Resolve, CombinationsOfTheTable) {
  struct Case {
    const char* mode;
    const char* group_by;
    const char* allocator;
    std::vector<const char*> told;  // empty: works
  };
  const std::vector<const char*> modes = {"cpuDeviceMode", "grouped", "individual"};
  const std::vector<const char*> groups = {"groupBy", "numanode", "socket", "machine"};
  const std::vector<const char*> allocators = {"allocator", "cpumanager", "external"};
  for (const Case& c : std::initializer_list<Case>{
           {"grouped", "numanode", "cpumanager", {}},
           {"grouped", "socket", "cpumanager", {}},
           {"grouped", "machine", "cpumanager", {"allocator", "groupBy", "machine", "external"}},
           {"grouped", "machine", nullptr, {"allocator", "groupBy", "machine", "external"}},
           {"grouped", "numanode", "external", {}},
           {"grouped", "socket", "external", {}},
           {"grouped", "machine", "external", {}},
           {"individual", "numanode", "cpumanager", {}},
           {"individual", "nonsense", "cpumanager", {}},
           {"individual", "machine", nullptr, {}},
           {"individual", "socket", "external", {}},
           {"grouped", "numanode", "internal", allocators},
           {"grouped", "numanode", "CPUManager", allocators},
           {"grouped", "numanode", "", allocators},
           {"individual", "numanode", "internal", allocators},
           {"shared", "numanode", "cpumanager", modes},
           {"Grouped", "numanode", "cpumanager", modes},
           {"", "numanode", "cpumanager", modes},
           {"grouped", "node", "cpumanager", groups},
           {"grouped", "", "external", groups},
       }) {
    std::string text = fmt::format("cpuDeviceMode: \"{}\"\ngroupBy: \"{}\"\n", c.mode, c.group_by);
    if (c.allocator != nullptr) text += fmt::format("allocator: \"{}\"\n", c.allocator);
    SCOPED_TRACE(text);
    const Result<Loaded> got = from_file(text);
    EXPECT_EQ(got.ok(), c.told.empty()) << (got.ok() ? "" : got.error().text);
    if (got.ok()) continue;
    EXPECT_EQ(got.error().code, Errc::kInvalidInput);
    EXPECT_THAT(got.error().text, HasSubstr("\"/etc/c.yaml\", line "));
    for (const char* word : c.told) EXPECT_THAT(got.error().text, HasSubstr(word));
  }
}

TEST(Resolve, AFlagCanMendTheFile) {
  Flags flags;
  flags.group_by = "socket";
  EXPECT_TRUE(from_file("groupBy: nonsense\n", flags).ok());
  EXPECT_FALSE(from_file("groupBy: nonsense\n").ok());
}

TEST(Resolve, ReservedCpus) {
  for (const char* good : {"0", "0-3", "0,2,4-5", "5000-5001", ""}) {
    SCOPED_TRACE(good);
    const Result<Loaded> got = from_file(fmt::format("reservedCPUs: \"{}\"\n", good));
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(got->config.node.reserved_cpus.to_string(), good);
  }
  for (const char* bad : {"a", "none", "0-", "3-1", "0, 1", "-1", "0-99999", "0;1", "*"}) {
    SCOPED_TRACE(bad);
    const Result<Loaded> got = from_file(fmt::format("apiVersion: v1alpha1\nreservedCPUs: \"{}\"\n", bad));
    ASSERT_FALSE(got.ok());
    EXPECT_THAT(got.error().text, HasSubstr("\"/etc/c.yaml\", line 2, column 15: reservedCPUs"));
    Flags flags;
    flags.reserved_cpus = bad;
    const Result<Loaded> flag = from_flags(flags);
    ASSERT_FALSE(flag.ok());
    EXPECT_THAT(flag.error().text, HasSubstr("command line: --reserved-cpus"));
  }
}

TEST(Resolve, KubeletRoot) {
  struct Case {
    const char* about;
    std::string root;
    std::string cleaned;  // empty: refused
    std::vector<const char*> told;
  };
  const std::string r73 = "/" + std::string(72, 'r');
  for (const Case& c : std::initializer_list<Case>{
           {"plain", "/var/lib/kubelet", "/var/lib/kubelet", {}},
           {"trailing slash", "/data/kubelet/", "/data/kubelet", {}},
           {"dots and slashes", "//data/./x/..//kubelet/.", "/data/kubelet", {}},
           {"above the root", "/../../k", "/k", {}},
           {"the root itself", "/", "/", {}},
           {"73 bytes just fit", r73, r73, {}},
           {"73 bytes after cleaning", r73 + "///", r73, {}},
           {"empty", "", "", {"--kubelet-root-dir", "empty"}},
           {"relative", "var/lib/kubelet", "", {"--kubelet-root-dir", "absolute"}},
           {"dot", ".", "", {"absolute"}},
           {"74 bytes", r73 + "r", "", {"107", "108", "73", "74"}},
           {"counted in bytes", "/" + std::string(70, 'r') + "üü", "", {"107", "109", "73", "75"}},
       }) {
    SCOPED_TRACE(c.about);
    Flags flags;
    flags.kubelet_root_dir = c.root;
    const Result<Loaded> got = from_flags(flags);
    ASSERT_EQ(got.ok(), !c.cleaned.empty()) << (got.ok() ? "" : got.error().text);
    if (got.ok()) {
      EXPECT_EQ(got->config.runtime.kubelet_root_dir, c.cleaned);
    } else {
      for (const char* word : c.told) EXPECT_THAT(got.error().text, HasSubstr(word));
    }
  }
}

TEST(Resolve, NodeName) {
  const auto name = [](const char* override_text, const char* env) {
    Flags flags;
    if (override_text != nullptr) flags.hostname_override = override_text;
    const Result<Loaded> got = from_flags(flags, {.host_root = "/host", .node_name = env});
    EXPECT_EQ(got.ok() ? got->config.node.host_root : "", got.ok() ? "/host" : "");
    return got.ok() ? got->config.node.name : "refused: " + got.error().text;
  };
  EXPECT_EQ(name(nullptr, ""), "") << "the caller takes the host name";
  EXPECT_EQ(name(nullptr, "worker-1"), "worker-1");
  EXPECT_EQ(name("Worker-2 ", "worker-1"), "worker-2");
  EXPECT_EQ(name("", "worker-1"), "worker-1");
  EXPECT_THAT(name("  ", "worker-1"), HasSubstr("refused: command line: --hostname-override"));
}

TEST(Resolve, ABadNodeNameOfTheEnvironmentIsRefused) {
  for (const char* name : {"a_b", "a b", "-a", "a..b", "\xff"}) {
    const Result<Loaded> got = from_flags({}, {"", name});
    ASSERT_FALSE(got.ok()) << name;
    EXPECT_THAT(got.error().text, HasSubstr("environment: NODE_NAME"));
  }
  Flags flags;
  flags.hostname_override = "n1";
  EXPECT_TRUE(from_flags(flags, {"", "a_b"}).ok()) << "not used";
}

// Release 0.3.0 starts with it.
// The driver replaces it: a file of somebody else would be lost, and the lock would guard nothing.
TEST(Resolve, AStateFileThatIsSomethingElseIsRefused) {
  struct Case {
    const char* state;
    const char* says;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"/var/run/cdi/.dracpu.lock", "lies in \"/var/run/cdi\""},
           {"/var/run/cdi/x.json", "lies in \"/var/run/cdi\""},
           {"/etc/k/../kubeconfig", "is runtime.kubeconfig, too"},
           {"/etc/c.yaml", "is the configuration itself, too"},
           {"/var/run/nri/nri.sock", "is runtime.nriSocket, too"},
           {"/run/dracpu/control.sock", "is the socket that \"dracpu health\" asks, too"},
           {"/var/lib/kubelet/plugins/dra.cpu/dra.sock", "is the kubelet's socket, too"},
           {"/var/lib/kubelet/plugins_registry/dra.cpu-reg.sock", "is the registration socket, too"}}) {
    const Result<Loaded> got = from_file(
        "apiVersion: dracpu/v1beta1\nkind: DriverConfiguration\nnode: {reservedCPUs: none}\n"
        "runtime: {kubeconfig: /etc/kubeconfig}\nstate: {file: " +
        std::string(c.state) + "}\n");
    ASSERT_FALSE(got.ok()) << c.state;
    EXPECT_THAT(got.error().text, HasSubstr(c.says));
    EXPECT_THAT(got.error().text, HasSubstr("line 5"));
  }
}

TEST(Resolve, ABadAddressOfTheOldFormIsAWarning) {
  Flags flags;
  flags.bind_address = "nowhere";
  flags.reserved_cpus = "0";
  const Result<Loaded> got = from_flags(flags);
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->config.observe.bind_address, "nowhere");
  ASSERT_EQ(got->warnings.size(), 2U) << "the other: a deprecated flag";
  EXPECT_EQ(got->warnings[1].setting, "--bind-address");
  EXPECT_THAT(got->warnings[1].advice, HasSubstr("the port is missing"));
}

TEST(Load, ReadsTheFileThatTheFlagNames) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "load_test.yaml";
  std::ofstream(path) << "groupBy: socket\n";
  Flags flags;
  flags.config = path.string();
  const Result<Loaded> got = load(flags, {});
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->config.cpu.group_by, GroupBy::kSocket);
  EXPECT_EQ(got->config.file, path.string());
  std::ofstream(path) << std::string(std::size_t{2} << 20U, '#');
  EXPECT_FALSE(load(flags, {}).ok()) << "no configuration is that long";
  std::filesystem::remove(path);
  const Result<Loaded> gone = load(flags, {});
  ASSERT_FALSE(gone.ok());
  EXPECT_THAT(gone.error().text, HasSubstr(path.string()));
  flags.config = testing::TempDir();
  EXPECT_FALSE(load(flags, {}).ok()) << "a directory";
  flags.config = "";
  EXPECT_TRUE(load(flags, {}).ok()) << "no file";
}

TEST(ToYaml, ShowsEveryFieldInTheFormOfTheFile) {
  Flags flags;
  flags.hostname_override = "node-a";
  flags.sysfs_overlay = "/a\"b\\c";
  const Result<Loaded> flat = from_flags(flags);
  ASSERT_TRUE(flat.ok());
  EXPECT_EQ(to_yaml(flat->config),
            "apiVersion: v1alpha1\nallocator: cpumanager\nbindAddress: \":8080\"\ncpuDeviceMode: grouped\n"
            "exposePCIeRoots: false\ngroupBy: numanode\nhostnameOverride: \"node-a\"\nkubeconfig: \"\"\n"
            "kubeletRootDir: \"/var/lib/kubelet\"\npublishNodeAllocatableResourceMapping: false\n"
            "reservedCPUs: \"\"\nsysfsOverlay: \"/a\\\"b\\\\c\"\n");
}

TEST(Resolve, TheDeploymentSpeaksThroughTheEnvironment) {
  const Result<Loaded> usual = resolve({}, {}, nullptr);
  ASSERT_TRUE(usual.ok());
  EXPECT_EQ(usual->config.observe.control_socket, kControlSocket);
  EXPECT_FALSE(usual->config.observe.standby_ready);
  const Result<Loaded> set = resolve({}, {"", "", "/x/c.sock", "true"}, nullptr);
  ASSERT_TRUE(set.ok());
  EXPECT_EQ(set->config.observe.control_socket, "/x/c.sock");
  EXPECT_TRUE(set->config.observe.standby_ready);
  for (const auto& [env, part] : {std::pair{Env{"", "", "", "yes"}, "DRACPU_STANDBY_READY: \"yes\""},
                                  {Env{"", "", "run/x", ""}, "DRACPU_SOCKET: \"run/x\""},
                                  {Env{"", "", "/" + std::string(107, 'x'), ""}, "at most 107"}}) {
    const Result<Loaded> bad = resolve({}, env, nullptr);
    ASSERT_FALSE(bad.ok()) << part;
    EXPECT_NE(bad.error().text.find(part), std::string::npos) << bad.error().text;
  }
}

}  // namespace
}  // namespace dracpu::config
