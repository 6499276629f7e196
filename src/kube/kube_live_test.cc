// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Against a real API server: DRACPU_LIVE_KUBECONFIG names an administrator's kubeconfig
// (`test/e2e/run control-plane` starts one and prints it). Skipped without it.

#include <gtest/gtest.h>

#include <atomic>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <mutex>
#include <thread>

#include "base/strings.h"
#include "kube/claim.h"
#include "kube/http_client.h"
#include "kube/slice_publisher.h"
#include "memory/devices.h"
#include "memory/test_amounts.h"

namespace dracpu::kube {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

bool wait_for(const std::function<bool()>& done, milliseconds limit = seconds(20)) {
  const auto end = Clock::now() + limit;
  while (!done()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

device::Slice slice_of(std::initializer_list<const char*> names, std::int64_t cpus = 4) {
  device::Slice out;
  for (const char* name : names) {
    device::Device d;
    d.name = name;
    d.allow_multiple_allocations = true;
    d.attributes = {{"dra.cpu/numCPUs", cpus}, {"dra.cpu/smtEnabled", true}};
    d.capacity = {{"dra.cpu/cpu", cpus}};
    out.devices.push_back(std::move(d));
  }
  return out;
}

class Live : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("DRACPU_LIVE_KUBECONFIG");  // NOLINT(concurrency-mt-unsafe)
    if (path == nullptr) GTEST_SKIP() << "DRACPU_LIVE_KUBECONFIG is not set";
    Result<ClientConfig> loaded = load_client_config(path);
    ASSERT_TRUE(loaded.ok()) << loaded.error().text;
    config = *loaded;
    admin = client_of(config);
    node = "live-" + random_hex(4);
    make_node();
  }
  void TearDown() override {
    publisher.reset();
    if (admin) (void)call(*admin, Method::kDelete, "/api/v1/nodes/" + node);
  }

  static std::unique_ptr<HttpClient> client_of(const ClientConfig& with) {
    Result<std::unique_ptr<HttpClient>> made = HttpClient::create(with);
    EXPECT_TRUE(made.ok()) << made.error().text;
    return made.ok() ? *std::move(made) : nullptr;
  }
  static Result<Response> call(HttpClient& client, Method method, const std::string& path,
                               const std::string& body = "") {
    auto promise = std::make_shared<std::promise<Result<Response>>>();
    client.send({method, path, body}, Deadline::after(seconds(20)),
                [promise](Result<Response> r) { promise->set_value(std::move(r)); });
    return promise->get_future().get();
  }
  json::object must(Method method, const std::string& path, const std::string& body = "") {
    const Result<Response> got = call(*admin, method, path, body);
    EXPECT_TRUE(got.ok() && got->ok()) << path << " " << (got.ok() ? got->body : got.error().text);
    return got.ok() && got->ok() ? json::parse(got->body).get_object() : json::object();
  }
  void make_node() {
    must(Method::kPost, "/api/v1/nodes",
         fmt::format(R"({{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{}"}}}})", node));
  }
  std::string node_uid() {
    return must(Method::kGet, "/api/v1/nodes/" + node).at("metadata").at("uid").get_string().c_str();
  }
  json::array slices(const std::string& driver = "dra.cpu") {
    return must(Method::kGet,
                fmt::format("/apis/resource.k8s.io/v1/"
                            "resourceslices?fieldSelector=spec.driver%3D{}%2Cspec.nodeName%3D{}",
                            driver, node))
        .at("items")
        .get_array();
  }
  std::string slice_name(std::size_t i) {
    return slices().at(i).at("metadata").at("name").get_string().c_str();
  }
  void begin(PublisherOptions options = {}) {
    options.driver = "dra.cpu";
    options.node = node;
    PublisherCallbacks calls;
    calls.on_warning = [this](const std::string& text) {
      const std::lock_guard<std::mutex> lock(mutex);
      warnings.push_back(text);
    };
    publisher = SlicePublisher::start(*admin, std::move(options), std::move(calls));
  }
  bool synced(std::size_t writes) {
    return wait_for([&] {
      const PublisherStats s = publisher->stats();
      return s.state.synced && s.creates + s.updates + s.deletes >= writes;
    });
  }

  ClientConfig config;
  std::unique_ptr<HttpClient> admin;
  std::string node;
  std::mutex mutex;
  std::vector<std::string> warnings;
  std::unique_ptr<SlicePublisher> publisher;
};

TEST_F(Live, PublishesRepairsAndStops) {
  const auto fresh = client_of(config);  // connection and TLS included in the time
  const auto start = Clock::now();
  publisher = SlicePublisher::start(*fresh, {"dra.cpu", node, std::nullopt, {}});
  publisher->publish({slice_of({"a"}), slice_of({"b"})});
  ASSERT_TRUE(synced(2)) << publisher->stats().state.error;
  std::cout << "from start to two slices: " << ms_since(start) << " ms\n";
  publisher.reset();

  begin();
  publisher->publish({slice_of({"a"}), slice_of({"b"})});
  ASSERT_TRUE(synced(0));
  ASSERT_TRUE(wait_for([&] { return publisher->stats().state.connected; }));
  std::this_thread::sleep_for(seconds(1));
  EXPECT_EQ(publisher->stats().updates + publisher->stats().creates, 0U)
      << "nothing to write after a restart";

  const auto gone = Clock::now();
  must(Method::kDelete, "/apis/resource.k8s.io/v1/resourceslices/" + slice_name(1));
  ASSERT_TRUE(synced(2));
  std::cout << "from delete to repaired: " << ms_since(gone) << " ms\n";
  EXPECT_EQ(slices().size(), 2U);

  json::object edited = slices().at(0).get_object();
  edited["apiVersion"] = "resource.k8s.io/v1";
  edited["kind"] = "ResourceSlice";
  edited["spec"].at("devices").at(0).get_object()["name"] = "intruder";
  must(Method::kPut, "/apis/resource.k8s.io/v1/resourceslices/" + slice_name(0), json::serialize(edited));
  ASSERT_TRUE(synced(3));
  EXPECT_EQ(slices().at(0).at("spec").at("devices").at(0).at("name").get_string(), "a");

  publisher->publish({slice_of({"a"}, 1000)});  // the server stores 1k
  ASSERT_TRUE(synced(5));
  std::this_thread::sleep_for(seconds(1));
  EXPECT_EQ(publisher->stats().creates + publisher->stats().updates + publisher->stats().deletes, 5U);
  EXPECT_EQ(publisher->stats().api_errors, 0U) << publisher->stats().state.error;
  publisher->stop();
  EXPECT_EQ(slices().size(), 1U);
}

// One slice that the server refuses makes the whole pool useless, base memory included.
TEST_F(Live, MemoryOfOnePageIsAccepted) {
  using namespace memory;  // NOLINT(google-build-using-namespace): the units
  const topology::MemoryAmounts amounts{.total_bytes = std::uint64_t{32551096} * 1024,
                                        .hugepages = {pool(1_GiB, 1)}};
  const Published published =
      separate_devices(take_inventory(machine_of({{0, amounts}}), cpus_on({0}), {}).value(), {});
  publisher = SlicePublisher::start(*admin, {"dra.memory", node, std::nullopt, {}});
  publisher->publish(published.slices);
  ASSERT_TRUE(synced(2)) << publisher->stats().state.error;
  EXPECT_EQ(publisher->stats().api_errors, 0U);
  const json::array stored = slices("dra.memory");
  ASSERT_EQ(stored.size(), 2U);
  const auto size_of = [&](std::size_t slice) {
    return stored.at(slice).at("spec").at("devices").at(0).at("capacity").at("size");
  };
  const std::size_t big = size_of(0).at("value") == "1Gi" ? 0 : 1;
  EXPECT_EQ(json::serialize(size_of(big).at("requestPolicy")),
            R"({"default":"1Gi","validRange":{"min":"1Gi","max":"1Gi"}})");
  EXPECT_EQ(size_of(1 - big).at("value"), "31502520Ki");
}

TEST_F(Live, ANewNodeGetsItsOwnSlices) {
  begin();
  publisher->publish({slice_of({"a"})});
  ASSERT_TRUE(synced(1));
  must(Method::kDelete, "/api/v1/nodes/" + node);
  make_node();
  const std::string uid = node_uid();
  // Garbage collection notices the lost owner and deletes the slice; ours comes back with the new one.
  EXPECT_TRUE(wait_for(
      [&] {
        const json::array all = slices();
        return all.size() == 1 &&
               all[0].at("metadata").at("ownerReferences").at(0).at("uid").get_string() == uid;
      },
      seconds(60)))
      << json::serialize(slices());
}

TEST_F(Live, OptionalFieldsFollowTheServer) {
  device::Slice s = slice_of({"a"});
  s.devices[0].attributes["resource.kubernetes.io/pcieRoot"] = std::vector<std::string>{"pci0000:00"};
  PublisherOptions options;
  options.mapping = AllocatableMapping{"cpu", "dra.cpu/cpu"};
  begin(std::move(options));
  publisher->publish({s});
  ASSERT_TRUE(synced(1)) << publisher->stats().state.error;
  std::this_thread::sleep_for(milliseconds(500));
  const PublisherStats stats = publisher->stats();
  EXPECT_EQ(stats.creates + stats.updates + stats.deletes, 1U) << "no endless updates";
  EXPECT_TRUE(stats.state.synced);
  std::cout << "stored: " << json::serialize(slices().at(0).at("spec").at("devices")) << "\n";
  for (const std::string& w : warnings) std::cout << "warning: " << w << "\n";
}

TEST_F(Live, ReadsAClaim) {
  const std::string path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
  must(Method::kPost, path,
       fmt::format(R"({{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{{"name":"{}"}},
        "spec":{{"devices":{{"requests":[{{"name":"cpus","exactly":{{"deviceClassName":"dra.cpu","count":2}}}}],
        "config":[{{"requests":["cpus"],"opaque":{{"driver":"dra.cpu","parameters":{{"kind":"K"}}}}}}]}}}}}})",
                   node));
  const auto claim = [&](const std::string& name) {
    auto promise = std::make_shared<std::promise<Result<Claim>>>();
    get_claim(*admin, "default", name, Deadline::after(seconds(5)),
              [promise](Result<Claim> r) { promise->set_value(std::move(r)); });
    return promise->get_future().get();
  };
  const Result<Claim> got = claim(node);
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->ns, "default");
  EXPECT_EQ(got->requests.at(0).exactly->count, 2);
  EXPECT_FALSE(got->allocation);
  json::object stored = must(Method::kGet, path + "/" + node);
  stored["status"] = json::parse(R"({"allocation":{"devices":{
    "results":[{"request":"cpus","driver":"dra.cpu","pool":"w","device":"d","shareID":"7f3a91c2-0000-4000-8000-000000000001",
      "consumedCapacity":{"dra.cpu/cpu":"2048"}},{"request":"cpus","driver":"dra.cpu","pool":"w","device":"e"}],
    "config":[{"source":"FromClaim","requests":["cpus"],"opaque":{"driver":"dra.cpu","parameters":{"kind":"K"}}}]}}})");
  must(Method::kPut, path + "/" + node + "/status", json::serialize(stored));
  const Result<Claim> allocated = claim(node);
  ASSERT_TRUE(allocated.ok()) << allocated.error().text;
  ASSERT_TRUE(allocated->allocation);
  EXPECT_EQ(allocated->allocation->results.at(0).consumed_capacity.at("dra.cpu/cpu").to_int64(), 2048);
  EXPECT_EQ(allocated->allocation->config.at(0).parameters, R"({"kind":"K"})");
  must(Method::kDelete, path + "/" + node);
  EXPECT_EQ(claim(node).error().code, Errc::kNotFound);
}

TEST_F(Live, TokensAreReadAgain) {
  const json::object made =
      must(Method::kPost, "/api/v1/namespaces/default/serviceaccounts/default/token",
           R"({"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}})");
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("dracpu-live-" + random_hex(8));
  std::ofstream(file) << "not-a-token";
  ClientConfig with = config;
  with.client_cert = {};
  with.client_key = {};
  with.token.file = file;
  const auto client = client_of(with);
  const std::string path = "/apis/resource.k8s.io/v1";
  EXPECT_EQ(call(*client, Method::kGet, path)->status, 401);
  std::ofstream(file) << made.at("status").at("token").get_string().c_str() << "\n";
  EXPECT_EQ(call(*client, Method::kGet, path)->status, 200);
  const Result<Response> forbidden = call(*client, Method::kGet, "/api/v1/nodes/" + node);
  EXPECT_EQ(forbidden->status, 403);
  EXPECT_NE(status_error(*forbidden).text.find("Forbidden"), std::string::npos);
  std::filesystem::remove(file);
}

TEST_F(Live, OnlyTheRightServerIsTrusted) {
  if (!config.endpoint.tls) GTEST_SKIP() << "the server speaks plain HTTP";
  ClientConfig other = config;
  other.ca = {};
  Result<Response> got = call(*client_of(other), Method::kGet, "/version");
  ASSERT_FALSE(got.ok());
  EXPECT_NE(got.error().text.find("certificate"), std::string::npos) << got.error().text;
  other = config;
  other.tls_server_name = "elsewhere.example";
  got = call(*client_of(other), Method::kGet, "/version");
  ASSERT_FALSE(got.ok());
  EXPECT_NE(got.error().text.find("ostname mismatch"), std::string::npos) << got.error().text;
  other.tls_server_name = "kubernetes.default.svc";
  EXPECT_EQ(call(*client_of(other), Method::kGet, "/version")->status, 200);
}

}  // namespace
}  // namespace dracpu::kube
