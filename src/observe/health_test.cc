// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "observe/health.h"

#include <gtest/gtest.h>

#include <thread>

namespace dracpu::observe {
namespace {

using std::chrono::seconds;

HttpRequest asking(std::string query) { return {"GET", "/readyz", std::move(query), ""}; }

TEST(Health, HealthzIsThatOfRelease030) {
  HealthState health({"guard", "nri"});
  EXPECT_EQ(health.healthz().status, 503);
  EXPECT_EQ(health.healthz().body, "");
  health.set_ok("guard");
  health.set_ok("nri");
  EXPECT_EQ(health.healthz().status, 503) << "ready is not started";
  health.set_started();
  EXPECT_EQ(health.healthz().status, 200);
  EXPECT_EQ(health.healthz().body, "");
  health.set_failed("nri", "connection lost");
  EXPECT_EQ(health.healthz().status, 200) << "for the rest of the process";
}

TEST(Health, ReadyWhenEveryCheckIsOk) {
  HealthState health({"guard", "nri"});
  EXPECT_FALSE(health.is_ready()) << "a check that nobody set fails";
  EXPECT_EQ(health.readyz(asking("")).status, 503);
  EXPECT_EQ(health.readyz(asking("")).body,
            "[-]guard failed: not reached yet\n[-]nri failed: not reached yet\nreadyz check failed\n");
  EXPECT_TRUE(health.set_ok("guard"));
  EXPECT_FALSE(health.set_ok("guard")) << "no change";
  EXPECT_FALSE(health.is_ready());
  EXPECT_TRUE(health.set_ok("nri"));
  EXPECT_TRUE(health.is_ready());
  EXPECT_EQ(health.readyz(asking("")).body, "ok\n");
  EXPECT_EQ(health.readyz(asking("verbose")).body, "[+]guard ok\n[+]nri ok\nreadyz check passed\n");
  EXPECT_TRUE(health.set_failed("nri", "no socket"));
  EXPECT_FALSE(health.set_failed("nri", "refused")) << "only the reason changed";
  EXPECT_EQ(health.readyz(asking("x=1&verbose=1")).body,
            "[+]guard ok\n[-]nri failed: refused\nreadyz check failed\n");
  EXPECT_EQ(health.checks()[1].reason, "refused");
  EXPECT_TRUE(health.set_failed("memory", "new"));
  EXPECT_EQ(health.checks().size(), 3U);
}

TEST(Health, LiveWhileHeartsBeat) {
  HealthState health({"guard"});
  EXPECT_EQ(health.livez().status, 200) << "a standby is alive";
  health.expect_beat("main", seconds(10));
  health.expect_beat("nri", seconds(100));
  const HealthState::Clock::time_point now = HealthState::Clock::now();
  EXPECT_TRUE(health.late(now).empty());
  EXPECT_EQ(health.late(now + seconds(11)), std::vector<std::string>{"main"});
  EXPECT_EQ(health.late(now + seconds(101)).size(), 2U);
  health.beat("unknown");
  health.expect_beat("main", seconds(-1));
  EXPECT_EQ(health.livez().status, 503);
  EXPECT_EQ(health.livez().body, "[-]main failed: no sign of life for too long\nlivez check failed\n");
  health.expect_beat("main", seconds(10));
  health.beat("main");
  EXPECT_EQ(health.livez().status, 200);
}

TEST(Health, AnyThread) {
  HealthState health({"guard"});
  {
    std::jthread writer([&] {
      for (int i = 0; i < 1000; ++i) {
        if (i % 2 == 0) {
          health.set_ok("guard");
        } else {
          health.set_failed("guard", "x");
        }
        health.beat("main");
      }
    });
    for (int i = 0; i < 1000; ++i) EXPECT_FALSE(health.readyz(asking("verbose")).body.empty());
  }
  EXPECT_FALSE(health.is_ready());
}

TEST(HttpRequest, Query) {
  EXPECT_TRUE(asking("verbose").has_query("verbose"));
  EXPECT_TRUE(asking("a&verbose=&b").has_query("verbose"));
  EXPECT_FALSE(asking("verbosee").has_query("verbose"));
  EXPECT_FALSE(asking("a=verbose").has_query("verbose"));
  EXPECT_FALSE(asking("").has_query("verbose"));
}

TEST(Health, AStandbyIsReadyOnlyWhereItMayBe) {
  for (const bool may_be : {false, true}) {
    HealthState health({"guard", "nri"});
    health.let_standby_be_ready(may_be);
    EXPECT_EQ(health.readyz({}).status, 503) << "starting is not standby";
    health.set_standby("another instance owns this node");
    EXPECT_EQ(health.readyz({}).status, may_be ? 200 : 503);
    EXPECT_EQ(health.livez().status, 200);
    EXPECT_EQ(health.healthz().status, 503);
    health.set_owner();
    EXPECT_EQ(health.readyz({}).status, 503) << "an owner has to work";
    health.set_ok("nri");
    EXPECT_EQ(health.readyz({}).status, 200);
  }
}

// Once for the log, however often and with whatever text; the listing has the last, and nothing fails by it.
TEST(Health, AdviceIsNewOnce) {
  HealthState health({"guard"});
  health.set_owner();
  health.set_ok("guard");
  EXPECT_TRUE(health.advise("kubelet-cpu-manager", "asks for 4-5"));
  EXPECT_FALSE(health.advise("kubelet-cpu-manager", "asks for 4-5"));
  EXPECT_FALSE(health.advise("kubelet-cpu-manager", "asks for 6-7"));
  EXPECT_TRUE(health.advise("nri-request-timeout", "too short"));
  ASSERT_EQ(health.advice().size(), 2U);
  EXPECT_EQ(health.advice()[0].text, "asks for 6-7");
  const HttpResponse answer = health.readyz({"GET", "/readyz", "verbose", ""});
  EXPECT_EQ(answer.status, 200);
  EXPECT_NE(answer.body.find("[!]kubelet-cpu-manager: asks for 6-7\n"), std::string::npos) << answer.body;
}

}  // namespace
}  // namespace dracpu::observe
