// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Slices against an API server that refuses, slows down, forgets, and against others who write.

#include <boost/json/serialize.hpp>
#include <thread>

#include "fixture.h"

namespace dracpu::sandbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kPath = "/apis/resource.k8s.io/v1/resourceslices";

class Publish : public SandboxTest {
 protected:
  std::string name_of(const boost::json::object& slice) {
    return std::string(slice.at("metadata").at("name").as_string());
  }
  void delete_slices() {
    for (const auto& slice : node().slices()) {
      node().api().store().handle(Caller::kSandbox, "DELETE", std::string(kPath) + "/" + name_of(slice), "");
    }
  }
  // One slice again, with the devices it had.
  bool is_repaired(const boost::json::value& devices, milliseconds limit) {
    return eventually(limit, [&] {
      const auto now = node().slices();
      return now.size() == 1 && now[0].at("spec").at("devices") == devices;
    });
  }
  boost::json::value devices() { return node().slices().at(0).at("spec").at("devices"); }
};

TEST_F(Publish, ADeletedSliceIsMadeAgainAtOnce) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const boost::json::value before = devices();
  delete_slices();
  EXPECT_TRUE(is_repaired(before, seconds(3))) << log();
}

TEST_F(Publish, AnEditedSliceIsPutBackAtOnce) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const boost::json::value before = devices();
  boost::json::object slice = node().slices().at(0);
  slice["spec"].as_object()["devices"].as_array().clear();
  const ApiReply edited = node().api().store().handle(
      Caller::kSandbox, "PUT", std::string(kPath) + "/" + name_of(slice), boost::json::serialize(slice));
  ASSERT_EQ(edited.status, 200U) << edited.body;
  EXPECT_TRUE(is_repaired(before, seconds(3))) << log();
}

TEST_F(Publish, AForeignSliceOfOurDriverIsRemoved) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const boost::json::value before = devices();
  boost::json::object slice = node().slices().at(0);
  slice["metadata"] = boost::json::object{{"name", "left-over"}};
  slice["spec"].as_object()["pool"].as_object()["name"] = "another";
  ASSERT_EQ(node().api().store().create(kPath, slice).status, 201U);
  EXPECT_TRUE(is_repaired(before, seconds(5))) << log();
}

TEST_F(Publish, TwoWritersDoNotStorm) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const boost::json::value before = devices();
  const std::size_t seen = node().api().requests().size();
  for (int i = 0; i < 40; ++i) {
    delete_slices();
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_GE(writes(seen).size(), 1U);
  EXPECT_LE(writes(seen).size(), 8U) << "a burst of 5, then one in 5 s";
  EXPECT_TRUE(is_repaired(before, seconds(12))) << log();
}

TEST_F(Publish, RetryAfterIsObeyed) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const boost::json::value before = devices();
  const std::size_t seen = node().api().requests().size();
  node().api().inject({.method = "POST", .path = kPath, .times = 1, .status = 429, .retry_after = 2});
  delete_slices();
  ASSERT_TRUE(is_repaired(before, seconds(8))) << log();
  const std::vector<SeenRequest> sent = writes(seen);
  ASSERT_GE(sent.size(), 2U);
  EXPECT_EQ(sent[0].status, 429U);
  EXPECT_GE(sent[1].at - sent[0].at, milliseconds(1950));
}

struct FaultCase {
  const char* about;
  Fault fault;
};

class PublishFault : public Publish, public ::testing::WithParamInterface<FaultCase> {};

TEST_P(PublishFault, Passes) {
  SCOPED_TRACE(GetParam().about);
  ASSERT_NO_FATAL_FAILURE(ready());
  const boost::json::value before = devices();
  node().api().inject(GetParam().fault);
  delete_slices();
  EXPECT_TRUE(is_repaired(before, seconds(15))) << log();
}

INSTANTIATE_TEST_SUITE_P(
    All, PublishFault,
    ::testing::Values(
        FaultCase{"internal errors", {.method = "POST", .path = kPath, .times = 2, .status = 500}},
        FaultCase{"a conflict", {.method = "POST", .path = kPath, .status = 409}},
        FaultCase{"a cut at the request", {.method = "POST", .path = kPath, .cut = true}},
        FaultCase{"a slow answer", {.method = "POST", .path = kPath, .delay = milliseconds(800)}}));

TEST_F(Publish, AForgottenHistoryIsReadAnew) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const boost::json::value before = devices();
  node().api().store().expire_history();
  delete_slices();
  EXPECT_TRUE(is_repaired(before, seconds(5))) << log();
}

TEST_F(Publish, ACutWatchIsOpenedAgain) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const boost::json::value before = devices();
  node().api().cut_connections();
  delete_slices();
  EXPECT_TRUE(is_repaired(before, seconds(10))) << log();
}

TEST_F(Publish, AnOutageOfTheServerPasses) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const boost::json::value before = devices();
  node().api().stop();
  delete_slices();
  std::this_thread::sleep_for(seconds(1));
  ASSERT_OK(node().api().start());
  EXPECT_TRUE(is_repaired(before, seconds(35))) << log();
}

TEST_F(Publish, AClaimIsReadThroughFaults) {
  ASSERT_NO_FATAL_FAILURE(ready());
  const ClaimName c = claim("c", 2);
  node().api().inject(
      {.method = "GET", .path = "/apis/resource.k8s.io/v1/namespaces", .times = 1, .cut = true});
  const auto first = node().kubelet().prepare(kDriverName, {c});
  ASSERT_OK(first);
  node().api().inject(
      {.method = "GET", .path = "/apis/resource.k8s.io/v1/namespaces", .times = 1, .status = 403});
  const ClaimName d = claim("d", 2);
  const auto refused = node().kubelet().prepare(kDriverName, {d});
  ASSERT_OK(refused);
  EXPECT_FALSE(refused->at(d.uid).ok()) << "a claim that cannot be read is not prepared";
  EXPECT_FALSE(node().claim_cpus(d).ok());
  const auto second = node().kubelet().prepare(kDriverName, {c, d});
  ASSERT_OK(second);
  EXPECT_OK(second->at(c.uid));
  EXPECT_OK(second->at(d.uid));
}

TEST_F(Publish, OnAnOldServerTheRestIsPublished) {
  NodeOptions options;
  options.server = {.minor = 34, .consumable_capacity = false, .device_taints = false};
  ASSERT_NO_FATAL_FAILURE(ready({}, std::move(options)));
  EXPECT_EQ(node().slices().size(), 1U);
  const std::size_t seen = node().api().requests().size();
  std::this_thread::sleep_for(seconds(3));
  EXPECT_TRUE(writes(seen).empty()) << "dropped fields must not make an update loop";
}

}  // namespace
}  // namespace dracpu::sandbox
