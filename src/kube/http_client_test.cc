// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/http_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <vector>

#include "base/strings.h"
#include "kube/claim.h"
#include "kube/fake_api_server.h"

namespace dracpu::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Seen = FakeApiServer::Seen;
using Fault = FakeApiServer::Fault;
using Clock = Deadline::Clock;

std::unique_ptr<HttpClient> client_of(ClientConfig config, ClientOptions options = {}) {
  Result<std::unique_ptr<HttpClient>> made = HttpClient::create(std::move(config), std::move(options));
  EXPECT_TRUE(made.ok()) << made.error().text;
  return *std::move(made);
}

Result<Response> call(HttpClient& client, Request request, milliseconds limit = seconds(10)) {
  auto promise = std::make_shared<std::promise<Result<Response>>>();
  client.send(std::move(request), Deadline::after(limit),
              [promise](Result<Response> r) { promise->set_value(std::move(r)); });
  return promise->get_future().get();
}

Request get(std::string path) { return {Method::kGet, std::move(path), ""}; }

TEST(HttpClient, SendsWhatTheServerNeeds) {
  FakeApiServer server;
  ClientConfig config = server.config();
  config.endpoint.path_prefix = "/prefix";
  config.token.text = "secret";
  const auto client = client_of(config);
  const Result<Response> got = call(*client, get("/version?x=1"));
  ASSERT_TRUE(got.ok()) << got.error().text;
  EXPECT_EQ(got->status, 404);
  const Seen seen = server.requests().at(0);
  EXPECT_EQ(seen.target, "/prefix/version?x=1");
  EXPECT_EQ(seen.authorization, "Bearer secret");
  EXPECT_EQ(seen.user_agent.rfind("dracpu/", 0), 0U);
}

TEST(HttpClient, KeepsConnections) {
  FakeApiServer server;
  const auto client = client_of(server.config());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(call(*client, get("/version"))->status, 200);
  EXPECT_EQ(client->stats().connections, 1U);
  EXPECT_EQ(client->stats().requests, 10U);
}

TEST(HttpClient, QueuesBeyondTheConnectionLimit) {
  FakeApiServer server;
  server.set_hook([](const Seen&) { return Fault{.delay = milliseconds(10)}; });
  const auto client = client_of(server.config());
  std::atomic<int> done = 0;
  for (int i = 0; i < 50; ++i) {
    client->send(get("/version"), Deadline::after(seconds(10)), [&](Result<Response> r) {
      EXPECT_TRUE(r.ok());
      ++done;
    });
  }
  EXPECT_TRUE(wait_for([&] { return done == 50; }));
  EXPECT_LE(client->stats().connections, 8U);
}

TEST(HttpClient, TheDeadlineCoversEverything) {
  FakeApiServer server;
  server.set_hook([](const Seen&) { return Fault{.delay = milliseconds(400)}; });
  const auto client = client_of(server.config(), {.max_connections = 1});
  const auto begin = Clock::now();
  std::atomic<int> late = 0;
  for (int i = 0; i < 3; ++i) {  // one on the way, two in the queue
    client->send(get("/version"), Deadline::after(milliseconds(100)), [&](Result<Response> r) {
      EXPECT_FALSE(r.ok());
      EXPECT_EQ(r.error().code, Errc::kUnavailable);
      EXPECT_NE(r.error().text.find("deadline"), std::string::npos);
      ++late;
    });
  }
  EXPECT_TRUE(wait_for([&] { return late == 3; }));
  EXPECT_LT(Clock::now() - begin, milliseconds(350));
  EXPECT_EQ(call(*client, get("/version"))->status, 200);
}

TEST(HttpClient, AGetOnADeadKeptConnectionIsRepeatedOnce) {
  FakeApiServer server;
  const auto client = client_of(server.config());
  ASSERT_EQ(call(*client, get("/version"))->status, 200);
  server.set_hook([](const Seen& s) -> std::optional<Fault> {
    if (s.connection == 1) return Fault{.cut_before = true};
    return std::nullopt;
  });
  EXPECT_EQ(call(*client, get("/version"))->status, 200);
  EXPECT_EQ(server.count("GET"), 3U);
  // Not on a fresh connection, and not for writes.
  server.set_hook([](const Seen&) { return Fault{.cut_before = true}; });
  EXPECT_FALSE(call(*client, {Method::kPost, "/x", "{}"}).ok());
  EXPECT_EQ(server.count("POST"), 1U);
  EXPECT_FALSE(call(*client, get("/version")).ok());
  EXPECT_EQ(server.count("GET"), 4U);
}

TEST(HttpClient, AConnectionClosedWhileIdleIsNotUsed) {
  FakeApiServer server;
  const auto client = client_of(server.config());
  ASSERT_EQ(call(*client, get("/version"))->status, 200);
  server.stop();
  server.start();
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(call(*client, {Method::kPost, "/x", "{}"})->status, 404);
  EXPECT_EQ(client->stats().connections, 2U);
}

// Checklist 75.
TEST(HttpClient, WaitsAsLongAsTheServerSays) {
  FakeApiServer server;
  for (const bool in_body : {false, true}) {
    SCOPED_TRACE(in_body);
    std::atomic<int> calls = 0;
    server.set_hook([&, in_body](const Seen&) -> std::optional<Fault> {
      if (calls++ > 0) return std::nullopt;
      if (in_body)
        return Fault{.status = 503, .body = R"({"kind":"Status","details":{"retryAfterSeconds":1}})"};
      return Fault{.status = 429, .headers = "Retry-After: 3\r\n"};
    });
    const auto client = client_of(server.config());
    const auto begin = Clock::now();
    EXPECT_EQ(call(*client, get("/version"))->status, 200);
    EXPECT_GE(Clock::now() - begin, in_body ? seconds(1) : seconds(3));
    EXPECT_EQ(calls, 2);
  }
}

TEST(HttpClient, DoesNotRepeatWithoutCause) {
  struct Case {
    const char* about;
    Fault fault;
    std::size_t calls;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"5xx without Retry-After", {.status = 500}, 1},
           {"429 without Retry-After", {.status = 429}, 1},
           {"beyond the deadline", {.status = 429, .headers = "Retry-After: 60\r\n"}, 1},
           {"403", {.status = 403, .headers = "Retry-After: 0\r\n"}, 1},
           {"at most three times here", {.status = 503, .headers = "Retry-After: 0\r\n"}, 3},
       }) {
    SCOPED_TRACE(c.about);
    FakeApiServer server;
    server.set_hook([&](const Seen&) { return c.fault; });
    const auto client = client_of(server.config(), {.max_tries = 3});
    const auto begin = Clock::now();
    EXPECT_EQ(call(*client, get("/version"))->status, c.fault.status);
    EXPECT_LT(Clock::now() - begin, seconds(2));
    EXPECT_EQ(server.requests().size(), c.calls);
  }
}

// Checklist 78.
TEST(HttpClient, ReadsTheTokenAgainAfterA401) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("dracpu-token-" + random_hex(8));
  std::ofstream(file) << "old";
  FakeApiServer server;
  server.set_hook([](const Seen& s) -> std::optional<Fault> {
    if (s.authorization == "Bearer new") return std::nullopt;
    return Fault{.status = 401, .body = R"({"kind":"Status","message":"Unauthorized"})"};
  });
  ClientConfig config = server.config();
  config.token.file = file;
  const auto client = client_of(config);
  EXPECT_EQ(call(*client, get("/version"))->status, 401);
  EXPECT_EQ(server.requests().size(), 2U) << "one retry, even if the token is the same";
  std::ofstream(file) << "new";
  EXPECT_EQ(call(*client, get("/version"))->status, 200);
  EXPECT_EQ(server.requests().size(), 4U);
  std::filesystem::remove(file);
}

TEST(HttpClient, NoAnswerIsAnError) {
  FakeApiServer server;
  struct Case {
    const char* about;
    Fault fault;
    Errc code;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"cut in the body", {.cut_within = true}, Errc::kUnavailable},
           {"cut before", {.cut_before = true}, Errc::kUnavailable},
           {"too large", {.status = 200, .body = std::string(2000, 'x')}, Errc::kCorrupt},
           {"a bad header", {.headers = "no colon\r\n"}, Errc::kCorrupt},
       }) {
    SCOPED_TRACE(c.about);
    server.set_hook([&](const Seen&) { return c.fault; });
    const auto client = client_of(server.config(), {.max_response = 1000});
    const Result<Response> got = call(*client, get("/version"));
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.error().code, c.code) << got.error().text;
  }
  server.stop();
  const auto client = client_of(server.config());
  const Result<Response> got = call(*client, get("/version"));
  ASSERT_FALSE(got.ok());
  EXPECT_NE(got.error().text.find("127.0.0.1"), std::string::npos) << got.error().text;
}

TEST(HttpClient, NamesAreLookedUp) {
  FakeApiServer server;
  ClientConfig config = server.config();
  config.endpoint.host = "localhost";
  const auto client = client_of(config);
  EXPECT_EQ(call(*client, get("/version"))->status, 200);
}

TEST(HttpClient, TheEndAnswersEverybody) {
  FakeApiServer server;
  server.set_hook([](const Seen&) { return Fault{.delay = milliseconds(300)}; });
  std::atomic<int> failed = 0;
  {
    const auto client = client_of(server.config(), {.max_connections = 2});
    for (int i = 0; i < 5; ++i) {
      client->send(get("/version"), Deadline::never(), [&](Result<Response> r) {
        EXPECT_FALSE(r.ok());
        ++failed;
      });
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_EQ(failed, 5);
}

// ---- watches ----

struct Watcher {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::vector<WatchEnd> ends;
  std::atomic<bool> open = false;

  WatchCallbacks calls() {
    return {[this] { open = true; },
            [this](std::string_view line) {
              const std::lock_guard<std::mutex> lock(mutex);
              lines.emplace_back(line);
            },
            [this](WatchEnd end) {
              const std::lock_guard<std::mutex> lock(mutex);
              ends.push_back(std::move(end));
            }};
  }
  std::size_t count() {
    const std::lock_guard<std::mutex> lock(mutex);
    return lines.size();
  }
  bool ended() {
    const std::lock_guard<std::mutex> lock(mutex);
    return !ends.empty();
  }
};

Request watch_request(int version = 100) {
  return get("/apis/resource.k8s.io/v1/resourceslices?watch=1&resourceVersion=" + std::to_string(version));
}

// Checklist 77.
TEST(HttpClientWatch, LinesComeWholeHoweverTheyWereSent) {
  FakeApiServer server;
  Watcher w;
  const auto client = client_of(server.config());
  Watch watch = client->watch(watch_request(), Deadline::never(), w.calls());
  ASSERT_TRUE(wait_for([&] { return w.open.load(); }));
  server.send_to_watches("first\nsec");
  ASSERT_TRUE(wait_for([&] { return w.count() == 1; }));
  server.send_to_watches("ond\nthird\n" + std::string(1 << 20, 'x'));
  ASSERT_TRUE(wait_for([&] { return w.count() == 3; }));
  server.send_to_watches("\n");
  ASSERT_TRUE(wait_for([&] { return w.count() == 4; }));
  EXPECT_EQ(w.lines[1], "second");
  EXPECT_EQ(w.lines[3], std::string(1 << 20, 'x'));
  server.end_watches();
  ASSERT_TRUE(wait_for([&] { return w.ended(); }));
  EXPECT_EQ(w.ends[0].status, 200);
}

TEST(HttpClientWatch, EndsSayWhy) {
  FakeApiServer server;
  const auto client = client_of(server.config(), {.max_watch_line = 100});
  {
    Watcher w;
    Watch watch = client->watch(watch_request(), Deadline::never(), w.calls());
    ASSERT_TRUE(wait_for([&] { return server.watches() == 1; }));
    server.cut_watches();
    ASSERT_TRUE(wait_for([&] { return w.ended(); }));
    EXPECT_EQ(w.ends[0].status, 0);
    EXPECT_EQ(w.ends[0].error.code, Errc::kUnavailable);
  }
  {
    Watcher w;
    Watch watch = client->watch(watch_request(), Deadline::never(), w.calls());
    ASSERT_TRUE(wait_for([&] { return server.watches() == 1; }));
    server.send_to_watches(std::string(200, 'x'));
    ASSERT_TRUE(wait_for([&] { return w.ended(); }));
    EXPECT_EQ(w.ends[0].error.code, Errc::kCorrupt);
  }
  {
    Watcher w;
    Watch watch = client->watch(watch_request(), Deadline::after(milliseconds(100)), w.calls());
    ASSERT_TRUE(wait_for([&] { return w.ended(); }));
    EXPECT_EQ(w.ends[0].status, 0);
  }
  {
    Watcher w;
    server.forget_history();
    Watch watch = client->watch(watch_request(), Deadline::never(), w.calls());
    ASSERT_TRUE(wait_for([&] { return w.ended(); }));
    EXPECT_EQ(w.ends[0].status, 410);
    EXPECT_FALSE(w.open);
  }
}

TEST(HttpClientWatch, ACancelledWatchIsSilentAndGone) {
  FakeApiServer server;
  Watcher w;
  const auto client = client_of(server.config());
  {
    Watch watch = client->watch(watch_request(), Deadline::never(), w.calls());
    ASSERT_TRUE(wait_for([&] { return server.watches() == 1; }));
  }
  EXPECT_TRUE(wait_for([&] { return server.watches() == 0; }));
  EXPECT_FALSE(w.ended());
  // Ended from its own callback.
  Watch self;
  std::atomic<int> lines = 0;
  std::promise<void> cancelled;
  WatchCallbacks calls = w.calls();
  calls.on_line = [&](std::string_view) {
    self.cancel();
    if (++lines == 1) cancelled.set_value();
  };
  std::promise<void> set;
  client->post([&] {
    self = client->watch(watch_request(), Deadline::never(), std::move(calls));
    set.set_value();
  });
  set.get_future().wait();
  ASSERT_TRUE(wait_for([&] { return server.watches() == 1; }));
  server.send_to_watches("a\nb\nc\n");
  cancelled.get_future().wait();
  EXPECT_TRUE(wait_for([&] { return server.watches() == 0; }));
  EXPECT_EQ(lines, 1);
}

// ---- claims ----

TEST(GetClaim, GivesTheServersWords) {
  FakeApiServer server;
  server.set_claim("ns", "good", R"({"metadata":{"name":"good","namespace":"ns","uid":"u"}})");
  server.set_claim("ns", "bad", R"({"metadata":{"name":7}})");
  server.set_hook([](const Seen& s) -> std::optional<Fault> {
    if (s.target.find("secret") == std::string::npos) return std::nullopt;
    return Fault{.status = 403,
                 .body = R"({"kind":"Status","reason":"Forbidden","message":"claims are forbidden"})"};
  });
  const auto client = client_of(server.config());
  const auto claim = [&](const std::string& name) {
    auto promise = std::make_shared<std::promise<Result<Claim>>>();
    get_claim(*client, "ns", name, Deadline::after(seconds(5)),
              [promise](Result<Claim> r) { promise->set_value(std::move(r)); });
    return promise->get_future().get();
  };
  EXPECT_EQ(claim("good")->uid, ClaimUid("u"));
  EXPECT_EQ(claim("gone").error().code, Errc::kNotFound);
  EXPECT_EQ(claim("bad").error().code, Errc::kCorrupt);
  const Result<Claim> secret = claim("secret");
  EXPECT_EQ(secret.error().code, Errc::kUnavailable);
  EXPECT_NE(secret.error().text.find("ns/secret"), std::string::npos);
  EXPECT_NE(secret.error().text.find("claims are forbidden"), std::string::npos);
  EXPECT_EQ(claim("a/../b").error().code, Errc::kNotFound);
  EXPECT_NE(server.requests().back().target.find("a%2F..%2Fb"), std::string::npos);
}

}  // namespace
}  // namespace dracpu::kube
