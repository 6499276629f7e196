// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/pod_events.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <vector>

namespace dracpu::agent {
namespace {

class PodEventsTest : public ::testing::Test {
 protected:
  PodEventsTest() { node_.name = "node1"; }
  Node node_;
  std::vector<std::pair<std::string, std::string>> sent_;
  PodEvents events_{node_, [this](std::string path, std::string body) {
                      sent_.emplace_back(std::move(path), std::move(body));
                    }};
  const PodRef pod_{"team", "web-0", "uid-1"};
  const PodEvents::Clock::time_point t0_{std::chrono::hours(1)};
};

TEST_F(PodEventsTest, NamesThePodTheReasonAndTheNode) {
  events_.warn(pod_, "ClaimRefused", "needs 9 CPUs", t0_);
  ASSERT_EQ(sent_.size(), 1U);
  EXPECT_EQ(sent_[0].first, "/api/v1/namespaces/team/events");
  const boost::json::value event = boost::json::parse(sent_[0].second);
  EXPECT_EQ(event.at("involvedObject").at("uid"), "uid-1");
  EXPECT_EQ(event.at("involvedObject").at("kind"), "Pod");
  EXPECT_EQ(event.at("type"), "Warning");
  EXPECT_EQ(event.at("reason"), "ClaimRefused");
  EXPECT_EQ(event.at("message"), "needs 9 CPUs");
  EXPECT_EQ(event.at("source").at("host"), "node1");
  EXPECT_TRUE(event.at("metadata").at("name").as_string().starts_with("web-0."));
}

TEST_F(PodEventsTest, TheSameIsSaidOnceInAWhile) {
  for (int i = 0; i < 10; ++i) events_.warn(pod_, "ClaimRefused", "x", t0_ + std::chrono::seconds(i * 10));
  EXPECT_EQ(sent_.size(), 1U);
  events_.warn(pod_, "ClaimRefused", "y", t0_ + std::chrono::seconds(100));
  events_.warn({"team", "web-1", "uid-2"}, "ClaimRefused", "x", t0_ + std::chrono::seconds(101));
  EXPECT_EQ(sent_.size(), 3U);
  events_.warn(pod_, "ClaimRefused", "x", t0_ + std::chrono::minutes(5));
  EXPECT_EQ(sent_.size(), 4U);
}

TEST_F(PodEventsTest, ManyAreHeldBack) {
  const auto burst = [&](PodEvents::Clock::time_point at, const std::string& mark) {
    const std::size_t before = sent_.size();
    for (int i = 0; i < 100; ++i) events_.warn({"team", "p", mark + std::to_string(i)}, "R", "x", at);
    return sent_.size() - before;
  };
  EXPECT_EQ(burst(t0_, "a"), 20U);
  EXPECT_EQ(burst(t0_ + std::chrono::seconds(3), "b"), 3U);
  EXPECT_EQ(burst(t0_ + std::chrono::hours(1), "c"), 20U);
}

TEST_F(PodEventsTest, OffMeansOffAndLongTextsAreCutBetweenCharacters) {
  std::string text(1023, 'x');
  text += "\u20ac and more";
  events_.warn(pod_, "R", text, t0_);
  EXPECT_EQ(boost::json::parse(sent_.at(0).second).at("message").as_string().size(), 1023U);
  events_.warn({"", "p", "u"}, "R", "no namespace", t0_);
  node_.config.observe.events = false;
  events_.warn(pod_, "R", "off", t0_);
  EXPECT_EQ(sent_.size(), 1U);
}

}  // namespace
}  // namespace dracpu::agent
