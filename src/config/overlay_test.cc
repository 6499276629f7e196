// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "config/overlay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dracpu::config {
namespace {

using ::testing::HasSubstr;

TEST(Overlay, PathsLoseTheirSlashAndTextsStay) {
  const Result<OverlayFiles> got =
      parse_overlay({"o.yaml",
                     "/sys/devices/system/cpu/online: \"0-3\\n\"\n"
                     "/sys/devices/system/cpu/cpu0/node0: \"\"\n"
                     "/sys/devices/system/cpu/cpu0/node0/meminfo: x\n"
                     "/sys/devices/pci0000:00/0000:00:00.0/local_cpulist: 0-1\n"});
  ASSERT_FALSE(got.ok()) << "node0 is a file and a directory";
  const Result<OverlayFiles> good =
      parse_overlay({"o.yaml",
                     "/sys/devices/system/cpu/online: \"0-3\\n\"\n"
                     "/sys/devices/system/cpu/cpu0/node0: \"\"\n"
                     "/sys/devices/pci0000:00/0000:00:00.0/local_cpulist: 0-1\n"});
  ASSERT_TRUE(good.ok()) << good.error().text;
  EXPECT_EQ(*good, (OverlayFiles{{"sys/devices/system/cpu/online", "0-3\n"},
                                 {"sys/devices/system/cpu/cpu0/node0", ""},
                                 {"sys/devices/pci0000:00/0000:00:00.0/local_cpulist", "0-1"}}));
}

TEST(Overlay, Refuses) {
  struct Case {
    const char* text;
    const char* says;
  };
  const Case cases[] = {
      {"", "must be a mapping of paths below /sys to texts"},
      {"- a\n", "must be a mapping"},
      {"/sys/devices/system/cpu/online: 0\n", "line 1, column 33: the content of"},
      {"/sys/devices/system/cpu/smt/control: off\n", "put it in quotes"},
      {"/sys/a: null\n", "put it in quotes"},
      {"/sys/a: {b: c}\n", "not a mapping"},
      {"/proc/cpuinfo: x\n", "\"/proc/cpuinfo\" is no clean absolute path below /sys"},
      {"sys/a: x\n", "no clean absolute path"},
      {"/sys: x\n", "no clean absolute path"},
      {"/sys/: x\n", "no clean absolute path"},
      {"/sys//a: x\n", "no clean absolute path"},
      {"/sys/a/../b: x\n", "no clean absolute path"},
      {"/sys/./b: x\n", "no clean absolute path"},
      {"/sys/a: x\n/sys/a: y\n", "line 2, column 1: key \"/sys/a\" is there twice, first at line 1"},
      {"/sys/a: x\n/sys/a-b: y\n/sys/a/b: z\n",
       "line 1, column 1: /sys/a is a file here and a directory of /sys/a/b"},
      {"/sys/devices/system/cpu/cpu0/node0: \"\"\n/sys/devices/system/cpu/cpu0/node1: \"\"\n",
       "line 2, column 1: cpu0 is in node0 already"},
      {"/sys/a: [x\n", "o.yaml"},
  };
  for (const Case& c : cases) {
    const Result<OverlayFiles> got = parse_overlay({"o.yaml", c.text});
    ASSERT_FALSE(got.ok()) << c.text;
    EXPECT_EQ(got.error().code, Errc::kInvalidInput);
    EXPECT_THAT(got.error().text, HasSubstr(c.says)) << c.text;
    EXPECT_THAT(got.error().text, HasSubstr("sysfs overlay \"o.yaml\"")) << c.text;
  }
}

TEST(Overlay, EveryProblemIsToldAtOnce) {
  const Result<OverlayFiles> got = parse_overlay({"o.yaml", "/a: x\n/sys/b: 1\n"});
  ASSERT_FALSE(got.ok());
  EXPECT_THAT(got.error().text, HasSubstr("line 1"));
  EXPECT_THAT(got.error().text, HasSubstr("line 2"));
}

TEST(Overlay, AFileThatIsNotThereIsNamed) {
  const Result<OverlayFiles> got = read_overlay("/does/not/exist.yaml");
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code, Errc::kNotFound);
  EXPECT_THAT(got.error().text, HasSubstr("sysfs overlay \"/does/not/exist.yaml\""));
}

TEST(Overlay, AsManyFilesAsALargeMachineHas) {
  std::string text;
  for (int cpu = 0; cpu < 1024; ++cpu) {
    for (const char* file : {"topology/core_id", "topology/physical_package_id", "cache/index3/level",
                             "cache/index3/id", "cache/index3/shared_cpu_list", "node0"}) {
      text += fmt::format("/sys/devices/system/cpu/cpu{}/{}: \"0\"\n", cpu, file);
    }
  }
  const Result<OverlayFiles> got = parse_overlay({"o.yaml", text});
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->size(), 1024U * 6);
}

}  // namespace
}  // namespace dracpu::config
