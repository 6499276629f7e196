// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A publisher against the API server of the tests, for the files of tests about it.

#ifndef DRACPU_KUBE_PUBLISHING_FIXTURE_H_
#define DRACPU_KUBE_PUBLISHING_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "kube/fake_api_server.h"
#include "kube/slice_publisher.h"

namespace dracpu::kube {

namespace json = boost::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Seen = FakeApiServer::Seen;
using Fault = FakeApiServer::Fault;

inline constexpr milliseconds kQuiet{200};  // long enough to see a write that should not be

inline device::Slice slice_of(std::initializer_list<const char*> names, std::int64_t cpus = 4) {
  device::Slice out;
  for (const char* name : names) {
    device::Device d;
    d.name = name;
    d.allow_multiple_allocations = true;
    d.attributes = {{"dra.cpu/numCPUs", cpus}};
    d.capacity = {{"dra.cpu/cpu", cpus}};
    out.devices.push_back(std::move(d));
  }
  return out;
}

inline bool is_write(const Seen& s) { return s.method != "GET"; }

class Publishing : public ::testing::Test {
 protected:
  Publishing() {
    server.set_node("w", "node-uid");
    timing.retry_first = milliseconds(20);
    timing.retry_max = milliseconds(200);
    timing.refused_first = milliseconds(50);
    timing.refused_max = milliseconds(400);
    timing.request_limit = seconds(5);
  }
  ~Publishing() override {
    publisher.reset();
    client.reset();
  }

  void begin() {
    client = *HttpClient::create(server.config());
    PublisherCallbacks calls;
    calls.on_warning = [this](const std::string& text) {
      const std::lock_guard<std::mutex> lock(mutex);
      warnings.push_back(text);
    };
    calls.on_state = [this](const PublisherState& state) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!state.error.empty()) errors.push_back(state.error);
    };
    publisher = SlicePublisher::start(*client, {"dra.cpu", "w", mapping, timing}, std::move(calls));
  }
  void begin_with(std::vector<device::Slice> slices) {
    begin();
    publisher->publish(std::move(slices));
    ASSERT_TRUE(synced()) << publisher->stats().state.error;
  }
  bool synced() {
    return wait_for([this] {
      const PublisherState s = publisher->stats().state;
      return s.synced && s.connected;
    });
  }
  bool saw_error(const std::string& part) {
    return wait_for([&] {
      const std::lock_guard<std::mutex> lock(mutex);
      return std::any_of(errors.begin(), errors.end(),
                         [&](const std::string& e) { return e.find(part) != std::string::npos; });
    });
  }
  std::size_t count_warnings() {
    const std::lock_guard<std::mutex> lock(mutex);
    return warnings.size();
  }
  std::string name_of(std::size_t i) {
    return server.slices().at(i).at("metadata").at("name").get_string().c_str();
  }
  std::int64_t generation_of(std::size_t i) {
    return server.slices().at(i).at("spec").at("pool").at("generation").to_number<std::int64_t>();
  }
  // No write for a while.
  void expect_rest(std::size_t writes) {
    std::this_thread::sleep_for(kQuiet);
    EXPECT_EQ(server.writes(), writes) << all_writes();
  }
  std::string all_writes() {
    std::string out;
    for (const Seen& seen : server.requests()) {
      if (is_write(seen)) out += seen.method + " " + seen.target + " " + seen.body + "\n";
    }
    return out;
  }

  FakeApiServer server;
  PublisherTiming timing;
  std::optional<AllocatableMapping> mapping;
  std::mutex mutex;
  std::vector<std::string> warnings;
  std::vector<std::string> errors;
  std::unique_ptr<HttpClient> client;
  std::unique_ptr<SlicePublisher> publisher;
};

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_PUBLISHING_FIXTURE_H_
