// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/claim_metadata.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "agent/test_node.h"

namespace dracpu::agent {
namespace {

namespace json = boost::json;

class ClaimMetadataTest : public ::testing::Test, protected TestNode {
 protected:
  ClaimMetadataTest() {
    device::Device d;
    d.name = "cpudevnuma000";
    d.attributes = {{"dra.cpu/numCPUs", std::int64_t{8}}, {"dra.cpu/smtEnabled", true}};
    devices_.push_back(d);
  }
  json::value text(const std::string& request, const std::vector<ledger::Grant>& grants,
                   const std::string& pod_claim = "") {
    return json::parse(metadata_json("dra.cpu", devices_, {ClaimUid("u"), "ns", "c", pod_claim}, request,
                                     metadata_grants(node, grants)));
  }
  std::vector<device::Device> devices_;
};

TEST_F(ClaimMetadataTest, HoldsThePublishedAttributesAndWhatTheClaimGot) {
  const json::value root =
      text("main/sub", {{"main/sub", "node1", "cpudevnuma000", std::nullopt, 2}}, "cpus");
  EXPECT_EQ(
      json::serialize(root),
      R"({"kind":"DeviceMetadata","apiVersion":"metadata.resource.k8s.io/v1beta1",)"
      R"("metadata":{"name":"c","namespace":"ns","uid":"u","generation":1},"podClaimName":"cpus",)"
      R"("requests":[{"name":"main/sub","devices":[{"driver":"dra.cpu","pool":"node1","name":"cpudevnuma000",)"
      R"("attributes":{"dra.cpu/numCPUs":{"int":8},"dra.cpu/smtEnabled":{"bool":true},)"
      R"("dra.cpu/allocatedNumCPUs":{"int":2}}}]}]})");
}

TEST_F(ClaimMetadataTest, AnIndividualDeviceIsOneCpuAndSaysNoNumber) {
  node.config.cpu.devices = config::DeviceMode::kIndividual;
  const json::value root = text("r", {{"r", "node1", "cpudevnuma000", std::nullopt, 1}});
  EXPECT_EQ(root.at("requests")
                .at(0)
                .at("devices")
                .at(0)
                .at("attributes")
                .as_object()
                .if_contains("dra.cpu/allocatedNumCPUs"),
            nullptr);
  EXPECT_EQ(root.as_object().if_contains("podClaimName"), nullptr);
}

TEST_F(ClaimMetadataTest, OneFilePerRequestNotPerDevice) {
  const ClaimMetadata metadata(node, "dra.cpu");
  const std::vector<MetadataGrant> grants =
      metadata_grants(node, {{"a", "node1", "cpudevnuma000", std::nullopt, 2},
                             {"a", "node1", "gone", std::nullopt, 2},
                             {"b/x", "node1", "cpudevnuma000", std::nullopt, 2}});
  const auto ids = metadata.write(devices_, {ClaimUid("u"), "ns", "c", ""}, grants);
  EXPECT_EQ(ids, (std::map<std::string, std::string>{{"a", "dra.cpu/metadata=u_a"},
                                                     {"b", "dra.cpu/metadata=u_b"}}));
  EXPECT_EQ(metadata.existing(ClaimUid("u"), grants), ids);
  const std::string file =
      read_file(dir / "kubelet/plugins/dra.cpu/dra-device-metadata/ns_c/a/metadata.json").value();
  EXPECT_EQ(json::parse(file).at("requests").at(0).at("devices").as_array().size(), 2U);
  ASSERT_TRUE(metadata.remove(ClaimUid("u"), "ns", "c").ok());
  EXPECT_TRUE(metadata.existing(ClaimUid("u"), grants).empty());
}

TEST_F(ClaimMetadataTest, MemorySaysItsBytes) {
  device::Device d;
  d.name = "hugepages-2mi-numa001";
  d.attributes = {{"resource.kubernetes.io/hugeTLB", true}};
  const memory::Grant grant{
      "pages",       "node1",     d.name, std::nullopt, memory::Kind::hugepages({2U << 20U}),
      NumaNodeId(1), {64U << 20U}};
  EXPECT_EQ(
      json::serialize(json::parse(metadata_json("dra.memory", {d}, {ClaimUid("u"), "ns", "c", ""}, "pages",
                                                metadata_grants({grant})))
                          .at("requests")),
      R"([{"name":"pages","devices":[{"driver":"dra.memory","pool":"node1","name":"hugepages-2mi-numa001",)"
      R"("attributes":{"resource.kubernetes.io/hugeTLB":{"bool":true},)"
      R"("dra.memory/allocatedBytes":{"int":67108864}}}]}])");
}

TEST_F(ClaimMetadataTest, MemoryThatCameWithTheCpusIsNamedAsItsCapacity) {
  const auto of = [](const char* request, memory::Kind kind, std::uint64_t bytes) {
    return memory::Grant{request, "node1", "cpudevnuma000", std::nullopt, kind, NumaNodeId(0), {bytes}};
  };
  Holding held;
  held.cpus = ledger::Claim();
  held.cpus->grants = {{"a", "node1", "cpudevnuma000", std::nullopt, 2}};
  held.memory = memory::Claim();
  held.memory->grants = {of("a", {}, 4U << 20U), of("a", memory::Kind::hugepages({2U << 20U}), 2U << 20U),
                         of("b", {}, 1U << 20U)};
  const std::vector<MetadataGrant> grants = metadata_grants(node, held);
  using Values = std::map<std::string, device::AttributeValue>;
  ASSERT_EQ(grants.size(), 2U) << "one per result";
  EXPECT_EQ(grants[0].got, (Values{{"dra.cpu/allocatedNumCPUs", std::int64_t{2}},
                                   {"dra.memory/memory", std::int64_t{4U << 20U}},
                                   {"dra.memory/hugepages_2Mi", std::int64_t{2U << 20U}}}));
  EXPECT_EQ(grants[1].got, (Values{{"dra.cpu/allocatedNumCPUs", std::int64_t{0}},
                                   {"dra.memory/memory", std::int64_t{1U << 20U}}}));
}

TEST_F(ClaimMetadataTest, AFailureCostsTheFileNotTheClaim) {
  const ClaimMetadata metadata(node, "dra.cpu");
  EXPECT_TRUE(metadata.write(devices_, {ClaimUid("u"), "..", "c", ""}, {{"a", "n", "d", {}}}).empty());
}

}  // namespace
}  // namespace dracpu::agent
