// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "duel.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cdi_view.h"
#include "child.h"
#include "data/random.h"
#include "machine.h"
#include "node.h"
#include "witness.h"

namespace dracpu::chaos {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using sandbox::Child;
using std::chrono::milliseconds;
using test::Random;

constexpr milliseconds kLimit{10'000};  // for anything that must happen
constexpr std::size_t kTrail = 40;

double ms_since(Clock::time_point at, Clock::time_point now = Clock::now()) {
  return std::chrono::duration<double, std::milli>(now - at).count();
}

struct Driver {
  Child child;
  std::string name;
};

class Arena {
 public:
  Arena(const DuelOptions& options, Report& report)
      : options_(options), report_(report), random_(options.seed) {}

  Status setup() {
    Result<sandbox::Folder> folder = sandbox::Folder::make("dracpu-duel-");
    if (!folder.ok()) return std::move(folder).error();
    folder_.emplace(*std::move(folder));
    const fs::path host = folder_->path() / "host";
    if (Status s = sandbox::write_machine(host, {1, 4, 2}); !s.ok()) return s;
    const fs::path registry = folder_->path() / "kubelet" / "plugins_registry";
    witness_ = std::make_unique<Witness>(registry / "dra.cpu-reg.sock",
                                         folder_->path() / "kubelet" / "plugins" / "dra.cpu" / "dra.sock");
    sandbox::NodeOptions node;
    node.driver = options_.driver;
    node.host_root = host;
    // A socket that a killed process left must not keep the kubelet from the next one for long.
    node.kubelet = {milliseconds(50), milliseconds(5)};
    node.runtime.on_connect = [this](int socket) { witness_->connected_to_runtime(socket); };
    Result<std::unique_ptr<sandbox::Node>> made = sandbox::Node::create(folder_->path(), std::move(node));
    if (!made.ok()) return std::move(made).error();
    node_ = *std::move(made);
    node_->api().on_request([this](const sandbox::SeenRequest& r) {
      if (r.method != "GET" && r.target.find("resourceslices") != std::string::npos) witness_->wrote(r.who);
    });
    config_ = slurp(folder_->path() / "dracpu.yaml").value_or("");
    return ok_status();
  }

  Status run() {
    for (std::size_t i = 0; i < options_.rounds; ++i) {
      if (Status s = round(i); !s.ok()) return s;
      const std::vector<std::string> found = witness_->findings();
      for (const std::string& what : found) report_.violation({"C", options_.seed, what, trail_});
      if (!found.empty() || stuck_) break;
    }
    const Witness::Counts seen = witness_->counts();
    report_.count("seen", "connections to the runtime", seen.connections);
    report_.count("seen", "processes that listened for the kubelet", seen.listeners);
    report_.count("seen", "writes to the API server", seen.writes);
    report_.count("seen", "looks at the kubelet's sockets", seen.looks);
    report_.note("time", "kill to lock taken by the other", spread(to_lock_));
    report_.note("time", "kill to the other connected to the runtime", spread(to_runtime_));
    report_.note("time", "lock taken to connected to the runtime", spread(from_lock_));
    return ok_status();
  }

 private:
  void say(std::string text) {
    trail_.push_back(std::move(text));
    if (trail_.size() > kTrail) trail_.erase(trail_.begin());
  }

  Result<Driver> start() {
    const std::string name = fmt::format("p{}", next_++);
    const fs::path folder = folder_->path();
    std::string config = config_;
    const std::string plain = (folder / "kubeconfig").string();
    config.replace(config.find(plain), plain.size(), (folder / ("kubeconfig-" + name)).string());
    if (Status s = sandbox::write_text(folder / ("kubeconfig-" + name), node_->api().kubeconfig(name));
        !s.ok())
      return std::move(s).error();
    if (Status s = sandbox::write_text(folder / (name + ".yaml"), config); !s.ok())
      return std::move(s).error();
    Result<Child> child = Child::start(
        {options_.driver.string(), "--config=" + (folder / (name + ".yaml")).string()},
        {"DRACPU_SOCKET=" + (folder / (name + ".sock")).string(), "HOST_ROOT=" + (folder / "host").string()},
        folder / (name + ".log"));
    if (!child.ok()) return std::move(child).error();
    witness_->born(child->pid(), name);
    return Driver{*std::move(child), name};
  }

  void clean_up(const Driver& d) {
    std::error_code ec;
    for (const std::string& file :
         {"kubeconfig-" + d.name, d.name + ".yaml", d.name + ".sock", d.name + ".log"})
      fs::remove(folder_->path() / file, ec);
  }

  Clock::time_point kill(Driver& d) {
    witness_->killed(d.child.pid());
    d.child.signal(SIGKILL);
    return Clock::now();
  }

  void end(Driver& d) {
    const pid_t pid = d.child.pid();
    kill(d);
    (void)d.child.wait(kLimit);
    witness_->reaped(pid);
    clean_up(d);
  }

  std::optional<pid_t> holder() const { return lock_holder(folder_->path() / "cdi" / ".dracpu.lock"); }

  // False if it did not come true in time.
  template <typename F>
  bool wait(F good, std::chrono::microseconds pause = std::chrono::microseconds(300)) {
    for (const auto until = Clock::now() + kLimit; !good();) {
      if (Clock::now() > until) return false;
      std::this_thread::sleep_for(pause);
    }
    return true;
  }

  void broken(std::string what, const Driver& d) {
    stuck_ = true;
    const std::string log = slurp(folder_->path() / (d.name + ".log")).value_or("");
    say(log.substr(log.size() > 3000 ? log.size() - 3000 : 0));
    report_.violation({"C", options_.seed, std::move(what), trail_});
  }

  void nap(std::size_t most_ms) {
    std::this_thread::sleep_for(std::chrono::microseconds(random_.pick(most_ms * 1000)));
  }

  void delete_slices() {
    for (const auto& slice : node_->slices()) {
      node_->api().store().handle(sandbox::Caller::kSandbox, "DELETE",
                                  "/apis/resource.k8s.io/v1/resourceslices/" +
                                      std::string(slice.at("metadata").at("name").as_string()),
                                  "");
    }
  }

  Status round(std::size_t number) {
    Result<Driver> first = start();
    if (!first.ok()) return std::move(first).error();
    if (random_.chance(30)) nap(20);
    Result<Driver> second = start();
    if (!second.ok()) return std::move(second).error();
    const std::array<Driver*, 2> both{&*first, &*second};
    say(fmt::format("round {}: processes {} and {}", number, first->child.pid(), second->child.pid()));
    report_.count("run", "rounds");
    std::size_t victim = random_.pick(2);
    const bool early = random_.chance(40);
    if (early) {
      // Half of them as soon as one has the lock.
      if (random_.chance(50)) (void)wait([&] { return holder().has_value(); }, std::chrono::microseconds(50));
      static constexpr std::array<std::size_t, 4> kNaps{1, 2, 6, 40};
      nap(random_.one_of(kNaps));
    } else {
      const bool connected = wait([&] {
        for (std::size_t i = 0; i < 2; ++i) {
          if (witness_->connected(both[i]->child.pid())) victim = i;
        }
        return witness_->connected(both[victim]->child.pid()).has_value();
      });
      if (!connected) broken("neither of two processes came to the runtime", *both[0]);
      nap(random_.chance(30) ? 60 : 15);
      if (random_.chance(25)) delete_slices();  // so that the owner has something to write
    }
    if (const std::optional<pid_t> owner = holder()) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (both[i]->child.pid() == *owner) victim = i;
      }
    }
    Driver& dying = *both[victim];
    Driver& other = *both[1 - victim];
    const pid_t pid = dying.child.pid();
    const bool was_connected = witness_->connected(pid).has_value();
    const bool was_owner = was_connected || holder() == pid;
    const std::string moment = witness_->listens(pid) ? "listening for the kubelet"
                               : was_connected        ? "connected to the runtime, no further"
                               : was_owner            ? "with the lock, no further"
                                                      : "before either had the lock";
    report_.count("kill", moment);
    const Clock::time_point at = kill(dying);
    say(fmt::format("kill {}, {}", pid, moment));
    if (random_.chance(20)) delete_slices();
    take_over(other, at, was_owner);
    (void)dying.child.wait(kLimit);
    witness_->reaped(pid);
    if (random_.chance(10) && !stuck_) {
      if (wait([&] { return witness_->listens(other.child.pid()); })) {
        report_.count("run", "takeovers followed until the kubelet's sockets");
      } else {
        broken("the other process did not come to listen for the kubelet", other);
      }
    }
    clean_up(dying);
    end(other);
    return ok_status();
  }

  void take_over(Driver& other, Clock::time_point at, bool was_owner) {
    const pid_t pid = other.child.pid();
    std::optional<Clock::time_point> locked;
    const bool came = wait([&] {
      if (!locked && holder() == pid) locked = Clock::now();
      return witness_->connected(pid).has_value() || !other.child.running();
    });
    const std::optional<Clock::time_point> connected = witness_->connected(pid);
    if (!came || !connected) return broken("the other process did not take over", other);
    if (!was_owner) return;
    report_.count("run", "takeovers timed");
    to_runtime_.push_back(ms_since(at, *connected));
    if (!locked) return;
    to_lock_.push_back(ms_since(at, *locked));
    from_lock_.push_back(ms_since(*locked, *connected));
  }

  const DuelOptions options_;
  Report& report_;
  Random random_;
  std::optional<sandbox::Folder> folder_;
  std::unique_ptr<Witness> witness_;
  std::unique_ptr<sandbox::Node> node_;
  std::string config_;
  std::size_t next_ = 0;
  bool stuck_ = false;
  std::vector<double> to_lock_;
  std::vector<double> to_runtime_;
  std::vector<double> from_lock_;
  std::vector<std::string> trail_;
};

}  // namespace

Status run_duels(const DuelOptions& options, Report& report) {
  Arena arena(options, report);
  if (Status s = arena.setup(); !s.ok()) return s;
  return arena.run();
}

}  // namespace dracpu::chaos
