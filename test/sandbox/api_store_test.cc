// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "api_store.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "api_server.h"

namespace dracpu::sandbox {
namespace {

namespace json = boost::json;

constexpr const char* kSlices = "/apis/resource.k8s.io/v1/resourceslices";
constexpr const char* kOurs =
    "?fieldSelector=spec.driver%3Ddra.cpu%2Cspec.nodeName%3Dn&watch=1&resourceVersion=";

json::object slice(const std::string& node = "n") {
  return {{"apiVersion", "resource.k8s.io/v1"},
          {"kind", "ResourceSlice"},
          {"metadata", json::object{{"generateName", "00000-dra.cpu-n-"}}},
          {"spec", json::object{
                       {"driver", "dra.cpu"},
                       {"nodeName", node},
                       {"pool", json::object{{"name", "n"}, {"generation", 1}, {"resourceSliceCount", 1}}}}}};
}

json::object body_of(const ApiReply& reply) { return json::parse(reply.body).get_object(); }

std::string meta_of(const json::object& o, const char* field) {
  return std::string(o.at("metadata").at(field).get_string());
}

TEST(ApiStore, CreatesWithAGeneratedName) {
  ApiStore store;
  const ApiReply reply = store.create(kSlices, slice());
  ASSERT_EQ(reply.status, 201U) << reply.body;
  const std::string name = meta_of(body_of(reply), "name");
  EXPECT_TRUE(name.starts_with("00000-dra.cpu-n-"));
  EXPECT_EQ(name.size(), 16U + 5U);
  EXPECT_FALSE(meta_of(body_of(reply), "uid").empty());
}

TEST(ApiStore, AnOldResourceVersionIsAConflict) {
  ApiStore store;
  json::object first = body_of(store.create(kSlices, slice()));
  const std::string path = std::string(kSlices) + "/" + meta_of(first, "name");
  json::object second = first;
  second["spec"].get_object()["pool"].get_object()["generation"] = 2;
  const ApiReply reply = store.handle(Caller::kDriver, "PUT", path, json::serialize(second));
  ASSERT_EQ(reply.status, 200U) << reply.body;
  EXPECT_EQ(body_of(reply).at("metadata").at("generation").as_int64(), 2);
  EXPECT_EQ(store.handle(Caller::kDriver, "PUT", path, json::serialize(first)).status, 409U);
  const std::uint64_t version = store.version();
  EXPECT_EQ(store.handle(Caller::kDriver, "PUT", path, json::serialize(body_of(reply))).status, 200U);
  EXPECT_EQ(store.version(), version) << "an equal object must not make an event";
}

TEST(ApiStore, DeletePreconditions) {
  ApiStore store;
  const json::object made = body_of(store.create(kSlices, slice()));
  const std::string path = std::string(kSlices) + "/" + meta_of(made, "name");
  EXPECT_EQ(store.handle(Caller::kDriver, "DELETE", path, R"({"preconditions":{"uid":"other"}})").status,
            409U);
  const json::object good{{"preconditions", json::object{{"uid", meta_of(made, "uid")}}}};
  EXPECT_EQ(store.handle(Caller::kDriver, "DELETE", path, json::serialize(good)).status, 200U);
  EXPECT_EQ(store.handle(Caller::kDriver, "DELETE", path, "").status, 404U);
}

TEST(ApiStore, TheDriverMayDoWhatItsRoleSaysAndNoMore) {
  ApiStore store;
  struct Case {
    const char* method;
    const char* path;
    unsigned status;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"GET", "/version", 200},
           {"GET", "/api/v1/nodes/n", 404},
           {"GET", "/api/v1/nodes", 403},
           {"GET", "/apis/resource.k8s.io/v1/resourceclaims", 403},
           {"GET", "/apis/resource.k8s.io/v1/namespaces/d/resourceclaims", 403},
           {"GET", "/apis/resource.k8s.io/v1/namespaces/d/resourceclaims/c", 404},
           {"PUT", "/apis/resource.k8s.io/v1/namespaces/d/resourceclaims/c", 403},
           {"GET", "/api/v1/pods", 404},
       }) {
    SCOPED_TRACE(std::string(c.method) + " " + c.path);
    EXPECT_EQ(store.handle(Caller::kDriver, c.method, c.path, "").status, c.status);
    EXPECT_EQ(store.handle(Caller::kNobody, c.method, c.path, "").status, 401U);
  }
}

TEST(ApiStore, WatchShowsOnlyWhatTheSelectorNames) {
  ApiStore store;
  ApiStore::WatchStart start =
      store.watch(Caller::kDriver, std::string(kSlices) + kOurs + std::to_string(store.version()));
  ASSERT_TRUE(start.watch.has_value()) << start.refusal.body;
  store.create(kSlices, slice("other"));
  store.create(kSlices, slice());
  const ApiStore::Events events = store.next(*start.watch, std::chrono::milliseconds(0));
  EXPECT_FALSE(events.ended);
  const json::object event = json::parse(events.lines).get_object();
  EXPECT_EQ(event.at("type"), "ADDED");
  EXPECT_EQ(event.at("object").at("spec").at("nodeName"), "n");
  EXPECT_TRUE(store.next(*start.watch, std::chrono::milliseconds(0)).lines.empty());
}

TEST(ApiStore, AForgottenHistoryIs410) {
  ApiStore store;
  const std::string target = std::string(kSlices) + kOurs + std::to_string(store.version());
  ApiStore::WatchStart open = store.watch(Caller::kDriver, target);
  ASSERT_TRUE(open.watch.has_value());
  store.expire_history();
  const ApiStore::Events events = store.next(*open.watch, std::chrono::milliseconds(0));
  EXPECT_TRUE(events.ended);
  EXPECT_NE(events.lines.find("\"code\":410"), std::string::npos);
  EXPECT_EQ(store.watch(Caller::kDriver, target).refusal.status, 410U);
}

TEST(ApiStore, AClaimsSpecIsFixedAndItsStatusHasItsOwnDoor) {
  ApiStore store;
  const std::string path = "/apis/resource.k8s.io/v1/namespaces/d/resourceclaims";
  json::object claim{{"apiVersion", "resource.k8s.io/v1"},
                     {"kind", "ResourceClaim"},
                     {"metadata", json::object{{"name", "c"}}},
                     {"spec", json::object{{"devices", json::object{}}}},
                     {"status", json::object{{"early", true}}}};
  claim = body_of(store.create(path, claim));
  EXPECT_FALSE(claim.contains("status"));
  claim["status"] = json::object{{"allocation", json::object{}}};
  ApiReply reply = store.handle(Caller::kSandbox, "PUT", path + "/c/status", json::serialize(claim));
  ASSERT_EQ(reply.status, 200U) << reply.body;
  claim = body_of(reply);
  EXPECT_TRUE(claim.contains("status"));
  claim["spec"] = json::object{};
  EXPECT_EQ(store.handle(Caller::kSandbox, "PUT", path + "/c", json::serialize(claim)).status, 422U);
}

TEST(ApiServer, KeepsItsPortAcrossAnOutage) {
  Result<std::unique_ptr<ApiServer>> server = ApiServer::create();
  ASSERT_TRUE(server.ok()) << server.error().text;
  const std::uint16_t port = (*server)->port();
  ASSERT_TRUE((*server)->start().ok());
  (*server)->stop();
  ASSERT_TRUE((*server)->start().ok());
  EXPECT_EQ((*server)->port(), port);
}

}  // namespace
}  // namespace dracpu::sandbox
