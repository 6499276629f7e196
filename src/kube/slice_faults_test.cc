// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The publisher against a server that refuses, delays, forgets and restarts.

#include "kube/publishing_fixture.h"

namespace dracpu::kube {
namespace {

TEST_F(Publishing, Line71ARefusalIsReportedAndTriedSlowly) {
  std::atomic<bool> refuse = true;
  server.set_hook([&](const Seen& s) -> std::optional<Fault> {
    if (!is_write(s) || !refuse) return std::nullopt;
    return Fault{.status = 422, .body = R"({"kind":"Status","reason":"Invalid","message":"too many"})"};
  });
  begin();
  publisher->publish({slice_of({"a"})});
  EXPECT_TRUE(saw_error("too many"));
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_LE(server.writes(), 5U);
  EXPECT_FALSE(publisher->stats().state.synced);
  refuse = false;
  EXPECT_TRUE(synced());
  EXPECT_EQ(publisher->stats().state.error, "");
}

TEST_F(Publishing, Line72AConflictIsSettledWithAFreshObject) {
  begin_with({slice_of({"a"})});
  std::atomic<bool> edited = false;
  server.set_hook([&](const Seen& s) -> std::optional<Fault> {
    if (s.method != "PUT" || edited.exchange(true)) return std::nullopt;
    server.edit_slice(name_of(0), [](json::object& o) {
      o["metadata"].get_object()["labels"] = {{"k", "v"}};
    });
    return std::nullopt;
  });
  publisher->publish({slice_of({"b"})});
  ASSERT_TRUE(wait_for([&] { return server.count("PUT") == 2; }));
  ASSERT_TRUE(synced());
  const json::object s = server.slices()[0];
  EXPECT_EQ(s.at("spec").at("devices").at(0).at("name").get_string(), "b");
  EXPECT_EQ(s.at("metadata").at("labels").at("k").get_string(), "v") << "what others added stays";
  expect_rest(3);
}

TEST_F(Publishing, Line73ADeleteOfSomethingGoneIsFine) {
  begin_with({slice_of({"a"}), slice_of({"b"})});
  server.set_hook([&](const Seen& s) -> std::optional<Fault> {
    if (s.method != "DELETE") return std::nullopt;
    return Fault{.status = 404, .body = "{}", .carry_out = true};
  });
  publisher->publish({slice_of({"a"})});
  ASSERT_TRUE(wait_for([&] { return server.count("PUT") == 1; }));
  ASSERT_TRUE(synced());
  EXPECT_EQ(publisher->stats().api_errors, 0U);
}

TEST_F(Publishing, Line74NoSliceWithoutANode) {
  for (const int status : {404, 403}) {
    SCOPED_TRACE(status);
    std::atomic<bool> refuse = true;
    server.set_hook([&, status](const Seen& s) -> std::optional<Fault> {
      if (!refuse || s.target != "/api/v1/nodes/w") return std::nullopt;
      return Fault{.status = status, .body = R"({"kind":"Status","message":"no node for you"})"};
    });
    const std::size_t before = server.writes();
    begin();
    publisher->publish({slice_of({status == 404 ? "a" : "b"})});
    EXPECT_TRUE(saw_error("no node for you"));
    std::this_thread::sleep_for(kQuiet);
    if (status == 404) {
      EXPECT_EQ(server.writes(), before);
    }
    refuse = false;
    EXPECT_TRUE(synced());
    EXPECT_EQ(server.slices().size(), 1U);
    publisher.reset();
    client.reset();
  }
}

TEST_F(Publishing, Line75RetryAfterIsObeyed) {
  std::atomic<int> posts = 0;
  server.set_hook([&](const Seen& s) -> std::optional<Fault> {
    if (s.method != "POST" || posts++ > 0) return std::nullopt;
    return Fault{.status = 429, .headers = "Retry-After: 3\r\n"};
  });
  begin();
  publisher->publish({slice_of({"a"})});
  ASSERT_TRUE(synced());
  std::vector<std::chrono::steady_clock::time_point> times;
  for (const Seen& s : server.requests()) {
    if (s.method == "POST") times.push_back(s.at);
  }
  ASSERT_EQ(times.size(), 2U);
  EXPECT_GE(times[1] - times[0], seconds(3));
}

TEST_F(Publishing, Line76WatchesGoOnFromWhereTheyWere) {
  begin_with({slice_of({"a"})});
  ASSERT_TRUE(wait_for([&] { return server.watches() == 1; }));
  const std::size_t lists = publisher->stats().lists;
  server.send_to_watches(R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"105"}}})"
                         "\n");
  std::this_thread::sleep_for(milliseconds(50));
  server.end_watches();
  ASSERT_TRUE(wait_for([&] { return server.count("GET", "watch=1") == 2 && server.watches() == 1; }));
  EXPECT_EQ(server.count("GET", "resourceVersion=105"), 1U);
  server.cut_watches();
  ASSERT_TRUE(wait_for([&] { return server.count("GET", "watch=1") == 3 && server.watches() == 1; }));
  EXPECT_EQ(server.count("GET", "limit=500"), lists);
  // 410 as an event: list again, and see what happened meanwhile.
  server.send_to_watches(R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}})"
                         "\n");
  ASSERT_TRUE(
      wait_for([&] { return server.count("GET", "limit=500") == lists + 1 && server.watches() == 1; }));
  // 410 as an answer. The repair is faster than any look at the gap, so the new slice tells.
  const std::string before = name_of(0);
  std::atomic<bool> once = false;
  server.set_hook([&](const Seen& s) -> std::optional<Fault> {
    if (s.target.find("watch=1") == std::string::npos || once.exchange(true)) return std::nullopt;
    server.remove_slice(name_of(0));
    server.forget_history();
    return std::nullopt;
  });
  // The watch after the list may not stand yet: end what stands until one has met the hook.
  ASSERT_TRUE(wait_for([&] {
    server.end_watches();
    return once.load();
  }));
  ASSERT_TRUE(wait_for([&] {
    const std::vector<json::object> now = server.slices();  // one look: it may be empty the next moment
    return now.size() == 1 && now[0].at("metadata").at("name").get_string() != before;
  }));
  EXPECT_GE(server.count("GET", "limit=500"), lists + 2);
  server.set_hook(nullptr);
  for (const Seen& s : server.requests()) {
    if (s.target.find("watch=1") == std::string::npos) continue;
    EXPECT_NE(s.target.find("fieldSelector=spec.driver%3Ddra.cpu%2Cspec.nodeName%3Dw"), std::string::npos);
    EXPECT_NE(s.target.find("allowWatchBookmarks=true"), std::string::npos);
    const int timeout = std::stoi(s.target.substr(s.target.find("timeoutSeconds=") + 15));
    EXPECT_GE(timeout, 300);
    EXPECT_LE(timeout, 600);
  }
}

TEST_F(Publishing, Line79TheServerComesLater) {
  server.stop();
  begin();
  publisher->publish({slice_of({"a"})});
  EXPECT_TRUE(saw_error("connecting"));
  server.start();
  EXPECT_TRUE(synced());
  EXPECT_EQ(server.slices().size(), 1U);
  // And goes, and comes back with a change made meanwhile.
  server.stop();
  ASSERT_TRUE(wait_for([&] { return !publisher->stats().state.connected; }));
  server.remove_slice(name_of(0));
  server.start();
  EXPECT_TRUE(wait_for([&] { return server.slices().size() == 1; }));
  EXPECT_TRUE(synced());
}

TEST_F(Publishing, AnEditIsUndoneButMetadataIsNot) {
  begin_with({slice_of({"a"})});
  server.edit_slice(name_of(0), [](json::object& o) { o["metadata"].get_object()["labels"] = {{"k", "v"}}; });
  expect_rest(1);
  server.edit_slice(name_of(0), [](json::object& o) {
    o["spec"].at("devices").get_array()[0].get_object()["taints"] = json::array{{{"key", "k"}}};
  });
  ASSERT_TRUE(wait_for([&] { return server.count("PUT") == 1; }));
  ASSERT_TRUE(synced());
  EXPECT_EQ(generation_of(0), 1);
  EXPECT_FALSE(server.slices()[0].at("spec").at("devices").at(0).get_object().contains("taints"));
  expect_rest(2);
}

// Rulings 17.
TEST_F(Publishing, TwoWritersDoNotStorm) {
  begin_with({slice_of({"a"})});
  std::atomic<bool> stop = false;
  std::thread other([&] {  // undoes whatever we write, at once
    std::size_t seen = server.count("PUT");
    while (!stop) {
      server.edit_slice(name_of(0), [](json::object& o) { o["spec"].at("devices").get_array().clear(); });
      wait_for([&] { return stop || server.count("PUT") > seen; });
      seen = server.count("PUT");
    }
  });
  ASSERT_TRUE(wait_for([&] { return server.count("PUT") >= 4; }));
  std::this_thread::sleep_for(seconds(2));
  EXPECT_LE(server.count("PUT"), 5U);
  EXPECT_FALSE(publisher->stats().state.synced);
  stop = true;
  other.join();
}

TEST_F(Publishing, ListAttributesFollowTheServer) {
  device::Slice s = slice_of({"a"});
  s.devices[0].attributes["resource.kubernetes.io/pcieRoot"] = std::vector<std::string>{"pci0000:00"};
  mapping = AllocatableMapping{"cpu", "dra.cpu/cpu"};
  {
    SCOPED_TRACE("too old");
    server.set_minor(35);
    begin_with({s});
    EXPECT_EQ(json::serialize(server.slices()[0]).find("pcieRoot"), std::string::npos);
    EXPECT_EQ(count_warnings(), 2U);
    publisher.reset();
    warnings.clear();
    server.remove_slice(name_of(0));
  }
  {
    SCOPED_TRACE("gates off: the list is refused, the mapping dropped");
    server.set_minor(37);
    server.set_filter([](json::object& o) {
      for (json::value& d : o["spec"].at("devices").get_array())
        d.get_object().erase("nodeAllocatableResources");
    });
    server.set_hook([&](const Seen& seen) -> std::optional<Fault> {
      if (seen.body.find("\"strings\"") == std::string::npos) return std::nullopt;
      return Fault{.status = 422,
                   .body = R"({"kind":"Status","message":"spec.devices[0].attributes[x]: Required value"})"};
    });
    begin_with({s});
    EXPECT_EQ(server.count("POST"), 3U);
    EXPECT_EQ(count_warnings(), 2U);
    expect_rest(3);  // of the first part, the refused one, and the one that went through
  }
}

// A list that comes before the version must not ask for it again: the later answer would bring back a field
// that the server has refused meanwhile.
TEST_F(Publishing, TheVersionIsAskedOnceAndARefusedFieldStaysOut) {
  device::Slice slice = slice_of({"a"});
  slice.devices[0].attributes["resource.kubernetes.io/pcieRoot"] = std::vector<std::string>{"pci0000:00"};
  server.set_minor(37);
  server.set_hook([](const Seen& seen) -> std::optional<Fault> {
    if (seen.target == "/version") return Fault{.delay = milliseconds(100)};
    if (seen.body.find("\"strings\"") == std::string::npos) return std::nullopt;
    return Fault{.status = 422,
                 .body = R"({"kind":"Status","message":"spec.devices[0].attributes[x]: Required value"})"};
  });
  begin_with({slice});
  expect_rest(2);  // the refused one and the one that went through
  EXPECT_EQ(server.count("GET", "/version"), 1U);
}

TEST_F(Publishing, ACutAnswerToACreateMakesNoDuplicate) {
  std::atomic<int> posts = 0;
  server.set_hook([&](const Seen& s) -> std::optional<Fault> {
    if (s.method != "POST" || posts++ > 0) return std::nullopt;
    return Fault{.cut_within = true};
  });
  begin();
  publisher->publish({slice_of({"a"})});
  ASSERT_TRUE(synced());
  EXPECT_EQ(server.slices().size(), 1U);
  EXPECT_EQ(server.count("POST"), 1U);
  EXPECT_GE(publisher->stats().api_errors, 1U);
}

TEST_F(Publishing, AtRestNothingMoves) {
  begin_with({slice_of({"a"})});
  const std::size_t before = server.requests().size();
  std::this_thread::sleep_for(seconds(1));
  EXPECT_EQ(server.requests().size(), before);
  EXPECT_EQ(server.watches(), 1U);
}

TEST_F(Publishing, StopLeavesTheSlices) {
  begin_with({slice_of({"a"})});
  publisher->stop();
  publisher->stop();
  EXPECT_TRUE(wait_for([&] { return server.watches() == 0; }));
  server.remove_slice(name_of(0));
  publisher->publish({slice_of({"b"})});
  expect_rest(1);
}

}  // namespace
}  // namespace dracpu::kube
