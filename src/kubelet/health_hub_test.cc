// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/health_hub.h"

#include <gtest/gtest.h>

#include <atomic>

namespace dracpu::kubelet {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeWatcher final : public Watcher {
 public:
  void offer(std::shared_ptr<const Report> report) override {
    const Locked lock(mutex_);
    seen_.push_back(std::move(report));
    changed_.notify_all();
  }
  void end() override {
    const Locked lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  // The reports, once there are `n` or five seconds have passed.
  std::vector<std::shared_ptr<const Report>> wait_for(std::size_t n) {
    const Deadline deadline = Deadline::after(seconds(5));
    const Locked lock(mutex_);
    while (seen_.size() < n && !deadline.passed()) changed_.wait_until(mutex_, deadline.at());
    return seen_;
  }
  bool ended() {
    const Locked lock(mutex_);
    return ended_;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  std::vector<std::shared_ptr<const Report>> seen_ DRACPU_GUARDED_BY(mutex_);
  bool ended_ DRACPU_GUARDED_BY(mutex_) = false;
};

std::vector<DeviceHealth> one(Health health, std::string message = "") {
  return {{"node-1", "cpudev000", health, std::move(message)}};
}

TEST(HealthHub, SendsAtOnceAndOnChange) {
  HealthHub hub(seconds(100), seconds(200));
  const auto early = std::make_shared<FakeWatcher>();
  hub.add(early);
  EXPECT_TRUE(early->wait_for(0).empty()) << "nothing is known yet";
  hub.set(one(Health::kHealthy));
  const auto late = std::make_shared<FakeWatcher>();
  hub.add(late);
  ASSERT_EQ(late->wait_for(1).size(), 1U);
  hub.set(one(Health::kUnhealthy));
  ASSERT_EQ(early->wait_for(2).size(), 2U);
  ASSERT_EQ(late->wait_for(2).size(), 2U);
  EXPECT_EQ(late->wait_for(2)[1]->devices[0].health, Health::kUnhealthy);
  EXPECT_EQ(late->wait_for(2)[1], early->wait_for(2)[1]) << "one copy for all";
  EXPECT_GT(late->wait_for(2)[1]->sequence, late->wait_for(2)[0]->sequence);
  EXPECT_EQ(late->wait_for(2)[0]->lease_seconds, 200);
  hub.close();
}

TEST(HealthHub, BreaksTheSilence) {
  HealthHub hub(milliseconds(20), seconds(1));
  hub.set(one(Health::kHealthy));
  const auto watcher = std::make_shared<FakeWatcher>();
  hub.add(watcher);
  const auto seen = watcher->wait_for(4);
  ASSERT_GE(seen.size(), 4U);
  EXPECT_EQ(seen[3], seen[0]) << "the same report: a resend claims nothing new";
}

TEST(HealthHub, ForgetsWatchersThatLeft) {
  HealthHub hub(milliseconds(5), seconds(1));
  hub.set(one(Health::kHealthy));
  const auto stays = std::make_shared<FakeWatcher>();
  const auto leaves = std::make_shared<FakeWatcher>();
  hub.add(stays);
  hub.add(leaves);
  EXPECT_EQ(hub.watchers(), 2U);
  hub.remove(leaves.get());
  hub.remove(leaves.get());
  EXPECT_EQ(hub.watchers(), 1U);
  const std::size_t before = stays->wait_for(0).size();
  ASSERT_GE(stays->wait_for(before + 3).size(), before + 3);
  EXPECT_LE(leaves.use_count(), 2);
}

TEST(HealthHub, CutsMessagesBetweenCharacters) {
  HealthHub hub(seconds(100), seconds(200));
  hub.set({{"p", "a", Health::kHealthy, std::string(5000, 'x')},
           {"p", "b", Health::kHealthy, std::string(1023, 'x') + "\xe2\x82\xac"},
           {"p", "c", Health::kHealthy, "bad \xff byte"}});
  const auto watcher = std::make_shared<FakeWatcher>();
  hub.add(watcher);
  const auto seen = watcher->wait_for(1);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0]->devices[0].message, std::string(1024, 'x'));
  EXPECT_EQ(seen[0]->devices[1].message, std::string(1023, 'x'));
  EXPECT_EQ(seen[0]->devices[2].message, "bad ? byte");
}

TEST(HealthHub, EndsThoseThereAndThoseThatCome) {
  HealthHub hub(seconds(100), seconds(200));
  hub.set(one(Health::kHealthy));
  const auto there = std::make_shared<FakeWatcher>();
  hub.add(there);
  hub.close();
  EXPECT_TRUE(there->ended());
  const auto late = std::make_shared<FakeWatcher>();
  hub.add(late);
  EXPECT_TRUE(late->ended());
  EXPECT_TRUE(late->wait_for(0).empty());
  hub.close();
}

TEST(HealthHub, ManySettersAndWatchersAtOnce) {
  HealthHub hub(milliseconds(1), seconds(1));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&hub, t] {
      for (int i = 0; i < 200; ++i) {
        hub.set(one(t % 2 == 0 ? Health::kHealthy : Health::kUnknown));
        const auto watcher = std::make_shared<FakeWatcher>();
        hub.add(watcher);
        hub.remove(watcher.get());
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(hub.watchers(), 0U);
}

}  // namespace
}  // namespace dracpu::kubelet
