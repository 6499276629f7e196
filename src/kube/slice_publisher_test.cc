// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/publishing_fixture.h"

namespace dracpu::kube {
namespace {

TEST_F(Publishing, Line55FirstPublish) {
  const auto start = std::chrono::steady_clock::now();
  begin_with({slice_of({"a"})});
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(500));
  ASSERT_EQ(server.slices().size(), 1U);
  EXPECT_EQ(name_of(0).rfind("00000-dra.cpu-w-", 0), 0U);
  EXPECT_EQ(generation_of(0), 1);
  const json::object s = server.slices()[0];
  EXPECT_EQ(s.at("metadata").at("ownerReferences").at(0).at("uid").get_string(), "node-uid");
  EXPECT_EQ(s.at("spec").at("pool").at("resourceSliceCount").to_number<int>(), 1);
  EXPECT_EQ(server.writes(), 1U);
  const PublisherStats stats = publisher->stats();
  EXPECT_EQ(stats.creates, 1U);
  EXPECT_EQ(stats.api_errors, 0U);
  EXPECT_EQ(stats.state.slices, 1U);
  EXPECT_EQ(stats.state.generation, 1);
}

TEST_F(Publishing, Line57IdenticalContentMakesNoCall) {
  begin_with({slice_of({"a"})});
  const std::size_t before = server.requests().size();
  publisher->publish({slice_of({"a"})});
  std::this_thread::sleep_for(kQuiet);
  EXPECT_EQ(server.requests().size(), before);
  // Nor does another process that finds everything in place.
  publisher.reset();
  begin_with({slice_of({"a"})});
  expect_rest(1);
}

TEST_F(Publishing, Line58StoredInAnotherSpelling) {
  server.set_filter([](json::object& s) {
    for (json::value& d : s["spec"].at("devices").get_array()) {
      d.get_object()["capacity"].get_object()["dra.cpu/cpu"].get_object()["value"] = "1k";
    }
  });
  begin_with({slice_of({"a"}, 1000)});
  expect_rest(1);
  EXPECT_EQ(count_warnings(), 0U);
}

TEST_F(Publishing, Lines59To63Changes) {
  begin_with({slice_of({"a"}), slice_of({"b"}), slice_of({"c"})});
  EXPECT_EQ(server.count("POST"), 3U);
  EXPECT_EQ(generation_of(0), 1);
  const auto change = [this](std::vector<device::Slice> slices, std::size_t writes) {
    const std::size_t before = server.writes();
    publisher->publish(std::move(slices));
    ASSERT_TRUE(wait_for([&] { return server.writes() == before + writes; }));
    ASSERT_TRUE(synced());
    expect_rest(before + writes);
  };
  change({slice_of({"a"}), slice_of({"b2"}), slice_of({"c"})}, 1);  // 59
  EXPECT_EQ(generation_of(1), 1);
  change({slice_of({"a3"}), slice_of({"b3"}), slice_of({"c"})}, 3);  // 60
  EXPECT_EQ(generation_of(2), 2);
  change({slice_of({"a3"}), slice_of({"b3"}), slice_of({"c"}), slice_of({"d"})}, 4);  // 61
  EXPECT_EQ(name_of(3).rfind("00003-", 0), 0U);
  EXPECT_EQ(generation_of(0), 3);
  EXPECT_EQ(generation_of(3), 3);
  change({slice_of({"a3", "x"})}, 4);  // 62: three deletes and one PUT
  EXPECT_EQ(generation_of(0), 3);
  change({slice_of({"x", "a3"})}, 1);  // 63
  EXPECT_EQ(server.count("DELETE"), 3U);
}

TEST_F(Publishing, Lines64To65LeftoversAreReplaced) {
  const json::object spec =
      json::parse(
          R"({"driver":"dra.cpu","nodeName":"w","pool":{"name":"w","generation":3,"resourceSliceCount":1},"devices":[]})")
          .get_object();
  for (const char* name : {"w-dra.cpu-old", "00000-dra.cpu-w-p", "00000-dra.cpu-w-q"}) {
    server.add_slice({{"metadata", {{"name", name}}}, {"spec", spec}});
  }
  json::object foreign = spec;
  foreign["driver"] = "gpu";
  server.add_slice({{"metadata", {{"name", "gpu-slice"}}}, {"spec", foreign}});
  begin_with({slice_of({"a"})});
  ASSERT_EQ(server.slices().size(), 2U);
  EXPECT_EQ(name_of(0), "00000-dra.cpu-w-p");
  EXPECT_EQ(generation_of(0), 3);
  EXPECT_EQ(name_of(1), "gpu-slice");
  expect_rest(3);
}

TEST_F(Publishing, Line66DeletedSliceComesBackAtOnce) {
  begin_with({slice_of({"a"}), slice_of({"b"})});
  const auto start = std::chrono::steady_clock::now();
  server.remove_slice(name_of(1));
  ASSERT_TRUE(wait_for([&] { return server.slices().size() == 2; }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(500));
  ASSERT_TRUE(wait_for([&] { return server.writes() == 4; }));
  EXPECT_EQ(generation_of(0), 2);
  EXPECT_EQ(generation_of(1), 2);
  expect_rest(4);
}

TEST_F(Publishing, Line67AllSlicesComeBackAndANewNodeIsNoticed) {
  timing.refill = milliseconds(50);  // they go one by one: how many writes mend that is a matter of chance
  begin_with({slice_of({"a"}), slice_of({"b"}), slice_of({"c"})});
  server.set_node("w", "second-uid");  // deleted and made again: garbage collection took the slices
  for (const json::object& s : server.slices()) {
    server.remove_slice(s.at("metadata").at("name").get_string().c_str());
  }
  ASSERT_TRUE(wait_for([&] {
    const auto all = server.slices();
    return all.size() == 3 && publisher->stats().state.synced;
  }));
  for (const json::object& s : server.slices()) {
    EXPECT_EQ(s.at("metadata").at("ownerReferences").at(0).at("uid").get_string(), "second-uid");
  }
}

TEST_F(Publishing, Line68NothingDesired) {
  begin_with({slice_of({"a"})});
  publisher->publish({});
  ASSERT_TRUE(wait_for([&] { return server.slices().empty(); }));
  server.add_slice(json::parse(R"({"metadata":{"name":"x"},"spec":{"driver":"dra.cpu","nodeName":"w",
      "pool":{"name":"other","generation":1,"resourceSliceCount":1}}})")
                       .get_object());
  EXPECT_TRUE(wait_for([&] { return server.slices().empty(); }));
}

TEST_F(Publishing, Line69ADuplicateDeviceIsNotSent) {
  begin();
  publisher->publish({slice_of({"a"}), slice_of({"a"})});
  EXPECT_TRUE(saw_error("pool validation failed"));
  expect_rest(0);
  publisher->publish({slice_of({"a"}), slice_of({"b"})});
  EXPECT_TRUE(wait_for([&] { return server.slices().size() == 2; }));
}

TEST_F(Publishing, Line70DroppedFieldsAreNamedOnceAndNotFoughtOver) {
  server.set_filter([](json::object& s) {
    for (json::value& d : s["spec"].at("devices").get_array())
      d.get_object().erase("allowMultipleAllocations");
  });
  begin_with({slice_of({"a"})});
  expect_rest(1);
  ASSERT_EQ(count_warnings(), 1U);
  EXPECT_NE(warnings[0].find("DRAConsumableCapacity"), std::string::npos) << warnings[0];
  server.remove_slice(name_of(0));  // still repaired, still once
  ASSERT_TRUE(wait_for([&] { return server.slices().size() == 1; }));
  expect_rest(2);
  EXPECT_EQ(count_warnings(), 1U);
}

}  // namespace
}  // namespace dracpu::kube
