// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cdi/metadata.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>

#include "base/file.h"
#include "base/strings.h"

namespace dracpu::cdi {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

class MetadataTest : public ::testing::Test {
 protected:
  MetadataTest()
      : dir_(fs::temp_directory_path() / ("dracpu-metadata-test-" + random_hex(6))),
        files_(dir_ / "plugins/dra.cpu", dir_ / "cdi", "dra.cpu") {}
  ~MetadataTest() override { fs::remove_all(dir_); }

  json::value mount(const std::string& file) {
    const json::value spec = json::parse(read_file(dir_ / "cdi" / file).value());
    return spec.at("devices").at(0).at("containerEdits").at("mounts").at(0);
  }
  std::size_t count(const fs::path& dir) {
    std::error_code none;
    std::size_t n = 0;
    for (const auto& entry : fs::directory_iterator(dir, none)) n += entry.exists() ? 1 : 0;
    return n;
  }

  fs::path dir_;
  MetadataFiles files_;
};

TEST_F(MetadataTest, DirectAndTemplateClaimsHaveTheirPaths) {
  const Result<std::string> id = files_.write({ClaimUid("u1"), "ns", "web", "", "main"}, "{}\n");
  ASSERT_TRUE(id.ok()) << id.error().text;
  EXPECT_EQ(*id, "dra.cpu/metadata=u1_main");
  EXPECT_EQ(read_file(dir_ / "plugins/dra.cpu/dra-device-metadata/ns_web/main/metadata.json").value(),
            "{}\n");
  json::value m = mount("dra.cpu_metadata_u1_main.json");
  EXPECT_EQ(m.at("hostPath").as_string(),
            (dir_ / "plugins/dra.cpu/dra-device-metadata/ns_web/main/metadata.json").string());
  EXPECT_EQ(m.at("containerPath").as_string(),
            "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/web/main/dra.cpu-metadata.json");
  EXPECT_EQ(json::serialize(m.at("options")), R"(["ro","bind"])");

  ASSERT_TRUE(files_.write({ClaimUid("u2"), "ns", "web-x7k2p", "cpus", "main"}, "{}\n").ok());
  m = mount("dra.cpu_metadata_u2_main.json");
  EXPECT_EQ(
      m.at("containerPath").as_string(),
      "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/cpus/main/dra.cpu-metadata.json");
}

TEST_F(MetadataTest, RemovingOneClaimLeavesTheOthers) {
  for (const char* uid : {"u1", "u2"}) {
    for (const char* request : {"a", "b"}) {
      ASSERT_TRUE(files_.write({ClaimUid(uid), "ns", std::string("c-") + uid, "", request}, "{}").ok());
    }
  }
  std::ofstream(dir_ / "cdi/dra.k8s.io-cpu_claim-u1.json") << "{}";
  EXPECT_EQ(count(dir_ / "cdi"), 5U);
  ASSERT_TRUE(files_.remove(ClaimUid("u1"), "ns", "c-u1").ok());
  EXPECT_EQ(count(dir_ / "cdi"), 3U);
  EXPECT_EQ(count(dir_ / "plugins/dra.cpu/dra-device-metadata"), 1U);
  EXPECT_FALSE(files_.existing(ClaimUid("u1"), "a"));
  EXPECT_EQ(files_.existing(ClaimUid("u2"), "a"), "dra.cpu/metadata=u2_a");
  EXPECT_TRUE(files_.remove(ClaimUid("u1"), "ns", "c-u1").ok()) << "nothing there is no error";
  EXPECT_EQ(files_.sweep({}).value(), 2U);
  EXPECT_EQ(count(dir_ / "cdi"), 1U) << "other files of the folder stay";
}

TEST_F(MetadataTest, NamesThatLeadElsewhereAreRefused) {
  for (const char* bad : {"", "..", "../x", "a/b", ".hidden", "A", "a_b"}) {
    EXPECT_FALSE(files_.write({ClaimUid("u"), bad, "c", "", "r"}, "").ok()) << bad;
    EXPECT_FALSE(files_.write({ClaimUid("u"), "n", bad, "", "r"}, "").ok()) << bad;
    EXPECT_FALSE(files_.write({ClaimUid("u"), "n", "c", "", bad}, "").ok()) << bad;
    EXPECT_FALSE(files_.write({ClaimUid(bad), "n", "c", "", "r"}, "").ok() && std::string(bad) != "A") << bad;
  }
  EXPECT_FALSE(files_.write({ClaimUid("u"), "n", "c", "../../x", "r"}, "").ok());
  EXPECT_TRUE(files_.remove(ClaimUid("u"), "..", "..").ok()) << "nothing is removed outside";
}

TEST_F(MetadataTest, AFolderThatCannotBeWrittenIsAnError) {
  std::ofstream(dir_.string()) << "a file where the folder should be";
  const Result<std::string> id = files_.write({ClaimUid("u1"), "ns", "web", "", "main"}, "{}\n");
  ASSERT_FALSE(id.ok());
  EXPECT_EQ(id.error().code, Errc::kUnavailable);
}

}  // namespace
}  // namespace dracpu::cdi
