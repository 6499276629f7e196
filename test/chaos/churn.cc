// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "churn.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cdi_view.h"
#include "data/random.h"
#include "facts.h"
#include "machine.h"
#include "node.h"
#include "pods.h"

namespace dracpu::chaos {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kThreads = 3;
constexpr std::size_t kTrail = 60;
constexpr std::size_t kKillsBetweenRests = 40;
constexpr seconds kReady{60};

class Churn {
 public:
  Churn(const ChurnOptions& options, Report& report)
      : options_(options), report_(report), random_(options.seed) {}
  ~Churn() { stop_pods(); }

  Status setup() {
    Result<sandbox::Folder> folder = sandbox::Folder::make("dracpu-churn-");
    if (!folder.ok()) return std::move(folder).error();
    folder_.emplace(*std::move(folder));
    const fs::path host = folder_->path() / "host";
    if (Status s = sandbox::write_machine(host, {1, 8, 2}); !s.ok()) return s;
    sandbox::NodeOptions node;
    node.driver = options_.driver;
    node.host_root = host;
    node.kubelet = {milliseconds(200), milliseconds(20)};
    node.runtime.request_timeout = milliseconds(500);
    Result<std::unique_ptr<sandbox::Node>> made = sandbox::Node::create(folder_->path(), std::move(node));
    if (!made.ok()) return std::move(made).error();
    node_ = *std::move(made);
    facts_ = std::make_unique<Facts>(cdi(), state(), node_->runtime());
    if (Status s = node_->start_driver(); !s.ok()) return s;
    if (Status s = node_->wait_ready(kReady); !s.ok()) return s;
    for (std::size_t i = 0; i < kThreads; ++i) {
      pods_.push_back(
          std::make_unique<Pods>(*node_, *facts_, report_, fmt::format("t{}", i), random_.next()));
      threads_.emplace_back([p = pods_.back().get()] { p->run(); });
    }
    return ok_status();
  }

  void run() {
    std::size_t kills = 0;
    while (kills < options_.kills && !is_broken_) {
      std::this_thread::sleep_for(milliseconds(20 + random_.pick(380)));
      lift(false);
      check();
      if (random_.chance(58)) {
        kill();
        if (++kills % kKillsBetweenRests == 0) rest();
      } else {
        disturb();
      }
    }
    if (!is_broken_) rest();
    stop_pods();
    if (!is_broken_) finish();
    report_.count("seen", "looks of the observer", facts_->looks());
  }

 private:
  struct Fault {
    Clock::time_point until;
    std::function<void()> lift;
  };

  fs::path cdi() const { return folder_->path() / "cdi"; }
  fs::path state() const { return folder_->path() / "kubelet" / "plugins" / "dracpu" / "state.json"; }

  void say(const std::string& text) {
    const std::chrono::duration<double> at = Clock::now() - begun_;
    trail_.push_back(fmt::format("{:8.3f} {}", at.count(), text));
    if (trail_.size() > kTrail) trail_.erase(trail_.begin());
  }

  void broken(std::string what) {
    is_broken_ = true;
    std::vector<std::string> trail = trail_;
    trail.push_back("the driver's log ends:\n" + node_->driver_log(60));
    report_.violation({"B", options_.seed, std::move(what), std::move(trail)});
  }

  void check() {
    for (const std::string& what : facts_->findings()) broken(what);
    for (const auto& p : pods_) {
      for (const std::string& what : p->findings()) broken(what);
    }
  }

  void kill() {
    if (!node_->driver_runs()) return broken("the driver ended by itself");
    say("kill");
    report_.count("crash", "kill -9");
    node_->kill_driver();
    if (random_.chance(20)) std::this_thread::sleep_for(milliseconds(random_.pick(300)));
    if (Status s = node_->start_driver(); !s.ok()) broken(s.error().text);
  }

  void begin(const std::string& what, milliseconds least, milliseconds most, std::function<void()> lift) {
    const milliseconds lasts =
        least + milliseconds(random_.pick(static_cast<std::size_t>((most - least).count()) + 1));
    say(fmt::format("{} for {} ms", what, lasts.count()));
    report_.count("fault", what);
    faults_.push_back({Clock::now() + lasts, std::move(lift)});
  }

  void lift(bool all) {
    std::vector<Fault> over;
    for (auto it = faults_.begin(); it != faults_.end();) {
      if (all || it->until <= Clock::now()) {
        over.push_back(std::move(*it));
        it = faults_.erase(it);
      } else {
        ++it;
      }
    }
    for (const Fault& f : over) f.lift();
  }

  // What is wrong with a neighbour lasts while others begin; each kind of neighbour has one fault at a time.
  void disturb() {
    switch (random_.pick(4)) {
      case 0:
        return freeze();
      case 1:
        return is_runtime_odd_ ? void() : disturb_runtime();
      case 2:
        return is_kubelet_odd_ ? void() : disturb_kubelet();
      default:
        return is_api_odd_ ? void() : disturb_api();
    }
  }

  void freeze() {
    const pid_t pid = node_->driver_pid();
    ::kill(pid, SIGSTOP);
    begin("driver frozen", milliseconds(50), milliseconds(900), [this, pid] {
      if (node_->driver_pid() == pid) ::kill(pid, SIGCONT);
    });
  }

  void disturb_runtime() {
    sandbox::Runtime& runtime = node_->runtime();
    const auto over = [this, &runtime] {
      is_runtime_odd_ = false;
      runtime.set_delay(milliseconds(0));
    };
    is_runtime_odd_ = true;
    switch (random_.pick(3)) {
      case 0:
        runtime.go_away();
        return begin("runtime gone", milliseconds(5), milliseconds(800), [this, &runtime] {
          is_runtime_odd_ = false;
          if (Status s = runtime.come_back(); !s.ok()) broken(s.error().text);
        });
      case 1:
        runtime.set_delay(milliseconds(20 + random_.pick(200)));
        return begin("runtime slow", milliseconds(200), milliseconds(1500), over);
      default:
        runtime.set_delay(milliseconds(-1));
        return begin("runtime hung", milliseconds(100), milliseconds(1200), over);
    }
  }

  void disturb_kubelet() {
    sandbox::Kubelet& kubelet = node_->kubelet();
    const auto over = [this, &kubelet] {
      is_kubelet_odd_ = false;
      kubelet.set_delay(milliseconds(0));
    };
    is_kubelet_odd_ = true;
    switch (random_.pick(3)) {
      case 0:
        kubelet.stop();
        return begin("kubelet restarted", milliseconds(5), milliseconds(500), [this, &kubelet] {
          is_kubelet_odd_ = false;
          kubelet.restart();
        });
      case 1:
        kubelet.set_delay(milliseconds(50 + random_.pick(300)));
        return begin("kubelet slow", milliseconds(300), milliseconds(1500), over);
      default:
        kubelet.set_delay(milliseconds(-1));
        return begin("kubelet hung", milliseconds(300), milliseconds(2000), over);
    }
  }

  void disturb_api() {
    sandbox::ApiServer& api = node_->api();
    const auto over = [this, &api] {
      is_api_odd_ = false;
      api.clear_faults();
    };
    is_api_odd_ = true;
    sandbox::Fault fault;
    fault.times = -1;
    switch (random_.pick(6)) {
      case 0:
        api.stop();
        return begin("API server down", milliseconds(200), milliseconds(4000), [this, &api] {
          is_api_odd_ = false;
          if (Status s = api.start(); !s.ok()) broken(s.error().text);
        });
      case 1:
        fault.delay = milliseconds(50 + random_.pick(400));
        api.inject(fault);
        return begin("API server slow", milliseconds(300), milliseconds(2000), over);
      case 2:
        fault.delay = seconds(60);
        api.inject(fault);
        return begin("API server hung", milliseconds(300), milliseconds(2500), [over, &api] {
          over();
          api.cut_connections();  // what hung is lost
        });
      case 3:
        fault.status = 500;
        api.inject(fault);
        return begin("API server answers 500", milliseconds(200), milliseconds(1500), over);
      case 4:
        fault.status = 429;
        fault.retry_after = 1;
        api.inject(fault);
        return begin("API server answers 429", milliseconds(200), milliseconds(1500), over);
      default:
        fault.cut = true;
        api.inject(fault);
        return begin("API server cuts connections", milliseconds(200), milliseconds(1500), over);
    }
  }

  // All is well again and nothing changes: then the containers run where they should.
  void rest() {
    say("rest");
    report_.count("run", "rests, with every container compared");
    lift(true);
    for (const auto& p : pods_) p->pause(true);
    const auto all_idle = [&] {
      return std::all_of(pods_.begin(), pods_.end(), [](const auto& p) { return p->is_idle(); });
    };
    if (!sandbox::eventually(seconds(90), all_idle))
      return broken("a pod's step does not end though all is well");
    check();
    if (is_broken_) return;
    if (Status s = node_->wait_ready(kReady); !s.ok()) return broken(s.error().text);
    if (!sandbox::eventually(seconds(20), [&] { return facts_->odd_containers().empty(); }))
      return broken(facts_->odd_containers());
    for (const auto& p : pods_) p->pause(false);
  }

  void stop_pods() {
    lift(true);
    for (const auto& p : pods_) p->stop();
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }

  // Everything given back, nothing is left, and what stays has all CPUs.
  void finish() {
    for (const auto& p : pods_) {
      if (Status s = p->end_all(); !s.ok()) return broken(s.error().text);
    }
    check();
    if (is_broken_) return;
    const auto saved = claims_in_state(state());
    if (!saved || !saved->empty())
      return broken("everything was unprepared, and the state file has claims still");
    if (const auto files = claims_in_cdi(cdi()); !files.empty())
      return broken("everything was unprepared, and there is a CDI file of " + files.begin()->first);
  }

  const ChurnOptions options_;
  Report& report_;
  Random random_;
  const Clock::time_point begun_ = Clock::now();
  std::optional<sandbox::Folder> folder_;
  std::unique_ptr<sandbox::Node> node_;
  std::unique_ptr<Facts> facts_;
  std::vector<std::unique_ptr<Pods>> pods_;
  std::vector<std::thread> threads_;
  std::vector<Fault> faults_;
  bool is_runtime_odd_ = false;
  bool is_kubelet_odd_ = false;
  bool is_api_odd_ = false;
  bool is_broken_ = false;
  std::vector<std::string> trail_;
};

}  // namespace

Status run_churn(const ChurnOptions& options, Report& report) {
  Churn churn(options, report);
  if (Status s = churn.setup(); !s.ok()) return s;
  churn.run();
  return ok_status();
}

}  // namespace dracpu::chaos
