// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "config/migrate.h"

#include <gtest/gtest.h>

namespace dracpu::config {
namespace {

std::string migrated(const Flags& flags, std::string_view text) {
  const FileText file{"c.yaml", std::string(text)};
  const Result<Migrated> got = migrate(flags, &file);
  return got.ok() ? got->text : "error: " + got.error().text;
}

TEST(Migrate, KeysMoveWithTheirComments) {
  EXPECT_EQ(migrated({}, R"(# Written by the platform team.

# Which version.
apiVersion: v1alpha1
# Two for the system,
# as the kubelet has it.
reservedCPUs: "0-1"  # keep equal to reservedSystemCPUs
groupBy: socket
allocator: "cpumanager"  # stated, though usual
sysfsOverlay: ""
# The end.
)"),
            R"(# Written by the platform team.
# Which version.
apiVersion: dracpu/v1beta1
kind: DriverConfiguration
node:
  # Two for the system,
  # as the kubelet has it.
  reservedCPUs: "0-1"  # keep equal to reservedSystemCPUs
cpu:
  groupBy: socket
  allocator: cpumanager  # stated, though usual
# The end.
)");
}

TEST(Migrate, AHashInsideQuotesIsNoComment) {
  for (const char* value : {R"("/a\"b #secret")", R"('/a''b #secret')", R"("/a #secret")", R"("/a\\")"}) {
    const FileText file{"c.yaml", fmt::format("kubeconfig: {}  # why\n", value)};
    const Result<Migrated> got = migrate({}, &file);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_TRUE(got->text.ends_with("  # why\n")) << got->text;
    EXPECT_EQ(got->text.find("#secret"), got->text.rfind("#secret")) << got->text;
  }
}

// What stands where no key of the new form is told, not dropped in silence.
TEST(Migrate, CommentsThatAreLostAreTold) {
  struct Case {
    const char* about;
    const char* text;
    std::vector<std::string> notes;
  };
  for (const Case& c :
       std::vector<Case>{{"a flow mapping",
                          "# top\n{groupBy: socket, # why\n reservedCPUs: \"0\" # two\n}\n",
                          {"comments without a place in the new form are left out, of line 3"}},
                         {"behind a byte order mark", "\xef\xbb\xbf# top\nreservedCPUs: \"0\"\n", {}},
                         {"all kept", "reservedCPUs: \"0\" # zero\n", {}}}) {
    SCOPED_TRACE(c.about);
    const FileText file{"c.yaml", c.text};
    const Result<Migrated> got = migrate({}, &file);
    ASSERT_TRUE(got.ok()) << got.error().text;
    EXPECT_EQ(got->notes, c.notes);
    EXPECT_EQ(got->text.find("# top") == std::string::npos,
              std::string_view(c.text).find("# top") == std::string_view::npos);
  }
}

TEST(Migrate, ALevelThatNoFileCanHoldNamesTheFlag) {
  Flags flags;
  flags.verbosity = 99;
  const Result<Migrated> got = migrate(flags, nullptr);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().text, "flag --v: 99 is no level that a file can hold, 0 to 10");
}

TEST(Migrate, FlagsAndDefaults) {
  Flags flags;
  flags.reserved_cpus = "0,4";
  flags.expose_pcie_roots = true;
  flags.bind_address = "127.0.0.1:9";
  flags.cpu_device_mode = "individual";
  flags.verbosity = 4;
  flags.vmodule = "x=2";
  const Result<Migrated> got = migrate(flags, nullptr);
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->notes.size(), 1U);
  EXPECT_EQ(got->text, R"(apiVersion: dracpu/v1beta1
kind: DriverConfiguration
node:
  reservedCPUs: "0,4"
cpu:
  devices: individual
publish:
  pcieRoots: true
observe:
  bindAddress: "127.0.0.1:9"
  verbosity: 4
)");
  EXPECT_EQ(migrate({}, nullptr)->text,
            "apiVersion: dracpu/v1beta1\nkind: DriverConfiguration\nnode:\n  reservedCPUs: \"none\"\n");
}

TEST(Migrate, RefusesWhatCannotBeRead) {
  EXPECT_NE(migrated({}, "apiVersion: v1alpha1\ngroupBy: shelf\n").find("shelf"), std::string::npos);
  const std::string_view next =
      "apiVersion: dracpu/v1beta1\nkind: DriverConfiguration\nnode:\n  reservedCPUs: none\n";
  EXPECT_EQ(migrated({}, next), next);
  Flags flags;
  flags.group_by = "socket";
  EXPECT_NE(migrated(flags, next).find("new form already"), std::string::npos);
}

}  // namespace
}  // namespace dracpu::config
