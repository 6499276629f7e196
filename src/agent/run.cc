// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/run.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "agent/guard.h"
#include "agent/memory_part.h"
#include "agent/node.h"
#include "agent/session.h"
#include "agent/start_step.h"
#include "agent/status_board.h"
#include "agent/status_page.h"
#include "agent/wake.h"
#include "base/bind_address.h"
#include "base/strings.h"
#include "config/load.h"
#include "kubelet/server.h"
#include "observe/health.h"
#include "observe/http_server.h"
#include "observe/log.h"
#include "observe/metrics.h"

namespace dracpu::agent {
namespace {

using Clock = std::chrono::steady_clock;
using observe::log_error;
using observe::log_info;
using observe::log_warning;

constexpr std::chrono::seconds kStandbyBeat{20};  // sign of life of a standby; the kernel wakes it
constexpr std::chrono::milliseconds kForeignPoll{200};
constexpr std::chrono::seconds kFirstStepBack{1};
constexpr std::chrono::seconds kMaxStepBack{60};
constexpr std::chrono::seconds kMainBeat{60};
constexpr std::chrono::seconds kStaleMachine{1};  // waited for the guard longer than this: read again

// Waits until the lock is ours. False: asked to stop.
Result<bool> take_lock(Guard& guard, Wake& wake, observe::HealthState& health) {
  bool told = false;
  while (!wake.stop_requested()) {
    Result<bool> taken = guard.try_take();
    if (!taken.ok() || *taken) return taken;
    if (!told) {
      told = true;
      log_info(0, "Another instance owns this node; waiting as standby", {{"lock", guard.path().string()}});
      health.set_standby("another instance owns this node");
    }
    LockWait wait(guard, [&wake] { wake.notify(); });
    while (!wait.done() && !wake.stop_requested()) {
      health.beat("main");
      wake.wait_until(Clock::now() + kStandbyBeat);
    }
    if (!wait.done()) break;
    taken = guard.take(wait);
    if (!taken.ok() || *taken) return taken;
  }
  return false;
}

Status check_alone(const std::vector<kubelet::ServerOptions>& drivers) {
  for (const kubelet::ServerOptions& driver : drivers) {
    Status s = kubelet::check_no_other_driver(driver);
    if (s.ok()) continue;
    if (driver.driver_name != memory::kDriverName) return s;
    return std::move(s).error().while_doing(
        fmt::format("driver name {} is already served on this node", driver.driver_name));
  }
  return ok_status();
}

// Waits until this process may own the node. False: asked to stop.
Result<bool> become_owner(const std::vector<kubelet::ServerOptions>& drivers, Guard& guard, Wake& wake,
                          observe::Metrics& metrics, observe::HealthState& health) {
  Result<bool> taken = take_lock(guard, wake, health);
  if (!taken.ok() || !*taken) return taken;
  bool told = false;
  while (!wake.stop_requested()) {
    health.beat("main");
    // A driver that takes no lock (RULINGS 4).
    const Status alone = check_alone(drivers);
    if (alone.ok()) {
      metrics.owner.set(1);
      health.set_owner();
      return true;
    }
    if (!told) {
      told = true;
      metrics.foreign_owner_total.inc();
      log_warning("Another driver runs on this node; waiting until it is gone",
                  {{"err", alone.error().text}});
      health.set_standby(alone.error().text);
    }
    wake.wait_until(Clock::now() + kForeignPoll);
  }
  return false;
}

void add_routes(observe::HttpServer& http, const observe::Metrics& metrics,
                const observe::HealthState& health) {
  http.route("/healthz", [&](const observe::HttpRequest&) { return health.healthz(); });
  http.route("/livez", [&](const observe::HttpRequest&) { return health.livez(); });
  http.route("/readyz", [&](const observe::HttpRequest& request) { return health.readyz(request); });
  http.route("/metrics", [&](const observe::HttpRequest& request) {
    const observe::TextFormat format = observe::negotiate(request.accept);
    return observe::HttpResponse{200, metrics.render(format), std::string(observe::content_type_of(format))};
  });
}

// What only the node's administrator may ask and set (RULINGS 24).
void add_control_routes(observe::HttpServer& control, const config::Config& config) {
  control.route("/config", [&config](const observe::HttpRequest&) {
    return observe::HttpResponse{200, config::to_yaml(config), "application/yaml"};
  });
  control.route("/loglevel", [](const observe::HttpRequest&) {
    return observe::HttpResponse{200, fmt::format("{}\n", observe::log_level())};
  });
  control.route_put("/loglevel", [](const observe::HttpRequest& request) {
    const std::optional<int> level = parse_number<int>(request.query_value("v"));
    if (!level || *level < 0 || *level > config::kMostVerbose) {
      return observe::HttpResponse{
          400, fmt::format("v must be a whole number from 0 to {}\n", config::kMostVerbose)};
    }
    log_info(0, "Log level switched", {{"from", observe::log_level()}, {"to", *level}});
    observe::set_log_level(*level);
    return observe::HttpResponse{200, fmt::format("{}\n", *level)};
  });
}

// It can do without: probes fail then, and say which socket they asked.
void open_control(observe::HttpServer& control, const std::filesystem::path& socket) {
  std::error_code ec;
  std::filesystem::create_directories(socket.parent_path(), ec);
  Status opened = ec ? make_error(Errc::kUnavailable, "make folder \"{}\": {}", socket.parent_path().string(),
                                  ec.message())
                     : control.start();
  if (opened.ok()) return;
  log_warning("Control socket not open; \"dracpu health\" cannot ask this process",
              {{"socket", socket.string()}, {"err", opened.error().text}});
}

std::unique_ptr<observe::HttpServer> open_status_page(const std::string& address, const StatusBoard& board) {
  auto page = std::make_unique<observe::HttpServer>(observe::HttpOptions{
      .bind_address = address,
      .on_bound = [] { log_info(0, "Status page open at last"); },
  });
  add_status_routes(*page, board);
  if (Status s = page->start(); !s.ok()) {
    log_error("Status page not open", s.error());
  } else {
    log_info(0, "Status page open", {{"address", address}});
  }
  const Result<BindAddress> at = parse_bind_address(address);
  if (at.ok() && !at->is_local()) {
    log_warning("Status page can be read from other machines; it names pods and containers",
                {{"address", address}, {"advice", "bind it to 127.0.0.1"}});
  }
  return page;
}

void log_machine(const Node& node, const Machine& machine) {
  for (const std::string& w : machine.warnings) log_warning("The machine is odd", {{"what", w}});
  if (machine.devices.empty())
    log_warning("No CPU is left to publish", {{"reserved", node.config.node.reserved_cpus.to_string()},
                                              {"offline", machine.topology.offline.to_string()}});
  for (const device::Device& d : machine.devices) {
    log_info(2, "Device", {{"device", d.name}, {"cpus", d.cpus.to_string()}});
  }
  if (machine.memory) {
    for (const memory::Offer& o : machine.memory->published.offers)
      log_info(2, "Memory device",
               {{"device", o.device},
                {"resource", memory::resource_name(o.kind)},
                {"size", memory::text_of(o.capacity)}});
  }
  log_info(0, "Machine read",
           {{"node", node.name},
            {"cpus", machine.topology.usable.to_string()},
            {"managed", machine.managed.to_string()},
            {"reserved", node.config.node.reserved_cpus.to_string()},
            {"devices", machine.devices.size()}});
}

Status read_again(const Node& node, std::shared_ptr<const Machine>& machine) {
  Result<std::shared_ptr<const Machine>> read = read_machine(node);
  if (!read.ok()) return std::move(read).error();
  machine = *std::move(read);
  return ok_status();
}

}  // namespace

int run(const config::Config& config) {
  Result<std::unique_ptr<Wake>> wake = Wake::create();
  if (!wake.ok()) {
    log_error("Cannot start", wake.error());
    return 1;
  }
  observe::Metrics metrics;
  observe::HealthState health({"guard", "nri", "kubelet", "slices"});
  health.let_standby_be_ready(config.observe.standby_ready);
  health.expect_beat("main", kMainBeat);

  std::vector<kubelet::ServerOptions> drivers{server_options(config)};
  if (config.memory.enabled) {
    drivers.push_back(memory_server_options(config));
    metrics.memory = std::make_unique<observe::MemoryMetrics>();
  }
  for (const kubelet::ServerOptions& driver : drivers) {
    if (Status s = kubelet::check_options(driver); !s.ok()) {
      log_error("Cannot start", s.error());
      return 1;
    }
  }
  Node node;
  std::shared_ptr<const Machine> machine;
  const Status read = timed_step(metrics, "topology", [&]() -> Status {
    Result<Node> built = build_node(config);
    if (!built.ok()) return std::move(built).error();
    node = *std::move(built);
    if (Status s = read_again(node, machine); !s.ok()) return s;
    return check_memory(node, *machine);
  });
  if (!read.ok()) {
    log_error("Cannot start", read.error());
    return 1;
  }
  log_machine(node, *machine);

  // Routes refer to metrics and health, which outlive the servers.
  observe::HttpServer control({.bind_address = "unix:" + config.observe.control_socket.string()});
  add_routes(control, metrics, health);
  add_control_routes(control, config);
  open_control(control, config.observe.control_socket);
  std::unique_ptr<observe::HttpServer> http;
  const bool has_page = !config.observe.status_page.empty();
  StatusBoard board(node, health);
  std::unique_ptr<observe::HttpServer> page;
  Guard guard(config.runtime.cdi_dir);
  Clock::time_point read_at = Clock::now();
  std::chrono::seconds pause = kFirstStepBack;
  for (;;) {
    const Result<bool> owner =
        timed_wait(metrics, "guard", [&] { return become_owner(drivers, guard, **wake, metrics, health); });
    if (!owner.ok()) {
      log_error("Cannot guard this node against a second driver", owner.error());
      return 1;
    }
    if (!*owner) break;
    const Clock::time_point owner_since = Clock::now();
    if (!http) {
      http = std::make_unique<observe::HttpServer>(observe::HttpOptions{
          .bind_address = config.observe.bind_address,
          .on_bound = [] { log_info(0, "HTTP endpoint open at last"); },
      });
      add_routes(*http, metrics, health);
      if (Status s = http->start(); !s.ok()) log_error("HTTP endpoint not open", s.error());
    }
    if (has_page && !page) page = open_status_page(config.observe.status_page, board);
    // It may be another machine by now (RULINGS 1).
    if (Clock::now() - read_at > kStaleMachine) {
      if (const Status s = read_again(node, machine); !s.ok())
        log_error("The machine cannot be read again", s.error());
    }
    read_at = Clock::time_point{};  // a later term reads it again
    const Clock::time_point begun = Clock::now();
    TermEnd end = TermEnd::kFatal;
    {
      Session session(node, machine, guard, **wake, metrics, health, board, owner_since);
      end = session.serve();
    }
    guard.release();
    metrics.owner.set(0);
    if (end == TermEnd::kFatal) return 1;
    if (end == TermEnd::kStop) break;
    pause = Clock::now() - begun > kMaxStepBack ? kFirstStepBack : std::min(pause * 2, kMaxStepBack);
    health.set_standby("stepped back: another driver was seen on this node");
    for (const Clock::time_point until = Clock::now() + pause;
         Clock::now() < until && !(*wake)->stop_requested();) {
      (*wake)->wait_until(until);
      health.beat("main");
    }
  }
  if (page) page->stop();
  if (http) http->stop();
  control.stop();
  log_info(0, "Stopped", {{"signal", (*wake)->signal()}});
  return 0;
}

}  // namespace dracpu::agent
