// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/ask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/process.h"
#include "data/corpus.h"

namespace dracpu::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ConfigTest : public ::testing::Test {
 protected:
  struct Said {
    int status;
    std::string out;
    std::string err;
  };
  std::string file(const std::string& name, const std::string& text) const {
    std::string path = (dir_.path() / name).string();
    std::ofstream(path) << text;
    return path;
  }
  static Said run(const std::vector<std::string>& args) {
    std::vector<std::string> line{"config"};
    line.insert(line.end(), args.begin(), args.end());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    Said said{run_config(parse_command_line(line)), "", ""};
    said.out = ::testing::internal::GetCapturedStdout();
    said.err = ::testing::internal::GetCapturedStderr();
    return said;
  }

  test::TempDir dir_;
};

TEST_F(ConfigTest, TheDefaultsCanBeWrittenBack) {
  const Said defaults = run({"show", "--defaults"});
  EXPECT_EQ(defaults.status, kOk);
  const Said checked = run({"check", file("c.yaml", defaults.out)});
  EXPECT_EQ(checked.status, kOk) << checked.err << defaults.out;
  EXPECT_EQ(checked.err, "");
}

TEST_F(ConfigTest, CheckReadsTheOverlay) {
  const std::string good = file("good.yaml", "/sys/devices/system/cpu/online: \"0-3\"\n");
  const std::string bad = file("bad.yaml", "/sys/devices/system/cpu/online: \"0-3\"\n/etc/passwd: x\n");
  const auto config = [&](const std::string& overlay) {
    return file("c.yaml",
                "apiVersion: dracpu/v1beta1\nkind: DriverConfiguration\nnode: {reservedCPUs: none, "
                "sysfsOverlay: \"" +
                    overlay + "\"}\n");
  };
  Said said = run({"check", config(good)});
  EXPECT_EQ(said.status, kOk) << said.err;
  EXPECT_THAT(said.out, AllOf(HasSubstr("c.yaml: ok, form"), HasSubstr("good.yaml: ok, 1 file\n")));
  said = run({"check", config(bad)});
  EXPECT_EQ(said.status, kBadInput);
  EXPECT_THAT(said.err, AllOf(HasSubstr("bad.yaml"), HasSubstr("line 2, column 1")));
  // The driver's own file system is elsewhere; a copy can be named.
  said = run({"check", config("/not/here.yaml")});
  EXPECT_EQ(said.status, kOk);
  EXPECT_THAT(said.err, HasSubstr("\"/not/here.yaml\" is not here and was not checked"));
  said = run({"check", config("/not/here.yaml"), "--sysfs-overlay", bad});
  EXPECT_EQ(said.status, kBadInput);
  EXPECT_THAT(said.err, HasSubstr("bad.yaml"));
  said = run({"check", config(bad), "--sysfs-overlay=" + good});
  EXPECT_EQ(said.status, kOk);
  EXPECT_THAT(said.out, HasSubstr("good.yaml: ok"));
  EXPECT_EQ(run({"check", config(good), "--sysfs-overlay=/not/here.yaml"}).status, kBadInput);
}

}  // namespace
}  // namespace dracpu::cli
