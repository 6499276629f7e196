// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/session.h"

#include <algorithm>

#include "agent/runtime_settings.h"
#include "agent/start_step.h"
#include "device/build.h"
#include "kube/claim.h"
#include "kube/credentials.h"
#include "observe/log.h"

namespace dracpu::agent {
namespace {

using observe::log_error;
using observe::log_info;
using observe::log_warning;

constexpr std::chrono::seconds kTick{2};          // also how late hotplug is noticed
constexpr std::chrono::seconds kLostCheck{3600};  // RULINGS 10
constexpr std::chrono::seconds kEventLimit{10};
constexpr std::chrono::seconds kUnconfirmedCheck{60};  // while a stale state is not confirmed (RULINGS 8)

}  // namespace

kubelet::ServerOptions server_options(const config::Config& config) {
  kubelet::ServerOptions out;
  out.kubelet_root_dir = config.runtime.kubelet_root_dir;
  out.driver_name = config.publish.driver_name;
  return out;
}

Session::Session(const Node& node, std::shared_ptr<const Machine> machine, const Guard& guard, Wake& wake,
                 observe::Metrics& metrics, observe::HealthState& health, StatusBoard& board,
                 Clock::time_point owner_since)
    : owner_since_(owner_since),
      node_(node),
      guard_(guard),
      wake_(wake),
      metrics_(metrics),
      health_(health),
      board_(board),
      slice_report_("slices", "Slices", health, metrics),
      watch_(node, std::move(machine)),
      books_(node, *watch_.machine()),
      runtime_(node, books_, worker_, metrics, runtime_hooks()),
      events_(node,
              [this](std::string path, std::string body) { post_event(std::move(path), std::move(body)); }) {}

Session::~Session() { stop(); }

RuntimeService::Hooks Session::runtime_hooks() {
  RuntimeService::Hooks hooks;
  hooks.synchronized = [this] {
    health_.set_ok("nri");
    synchronized_ = true;
    note_takeover("runtime", runtime_noted_);
    wake_.notify();
  };
  hooks.disconnected = [this](const std::string& reason) { health_.set_failed("nri", reason); };
  hooks.tell_pod = tell_pod();
  hooks.refused = note_refusal();
  hooks.advise = [this](const observe::Advice& advice) {
    if (health_.advise(advice.name, advice.text))
      log_warning("A setting of this node weakens the driver",
                  {{"setting", advice.name}, {"advice", advice.text}});
  };
  return hooks;
}

// For the status page, on its thread.
OwnerFacts Session::owner_facts() {
  OwnerFacts out;
  out.machine = watch_.machine();
  out.runtime = runtime_.runtime();
  if (memory_) out.memory = books_.with_memory(memory_status);
  books_.with_ledger([&](const ledger::Ledger& l) {
    out.pool = l.pool();
    out.shared_containers = l.shared_containers();
    out.stale_containers = l.stale_count();
    std::map<ClaimUid, std::string> pods;
    for (const ledger::Pinned& p : l.pinned()) {
      for (const ClaimUid& uid : p.claims) pods[uid] = p.pod;
    }
    for (const auto& [uid, claim] : l.claims()) {
      StatusClaim& shown = out.claims.emplace_back();
      shown.uid = uid;
      shown.ns = claim.ns;
      shown.name = claim.name;
      shown.cpus = claim.cpus;
      shown.prepared_at = claim.prepared_at;
      const auto pod = pods.find(uid);
      shown.is_running = pod != pods.end();
      if (claim.owner) shown.container = claim.owner->container;
      if (shown.is_running) {
        shown.pod = pod->second;
      } else if (claim.owner) {
        shown.pod = claim.owner->pod.get();
      }
    }
  });
  std::sort(out.claims.begin(), out.claims.end(),
            [](const StatusClaim& a, const StatusClaim& b) { return a.cpus.first() < b.cpus.first(); });
  return out;
}

Status Session::start_files() {
  books_.observe_saves([this](std::chrono::duration<double> took, bool ok) {
    metrics_.state_write_duration_seconds.observe(took.count());
    if (!ok) metrics_.state_write_errors_total.inc();
  });
  Result<Books::Loaded> loaded = books_.load();
  if (!loaded.ok()) return std::move(loaded).error();
  for (const std::string& w : loaded->warnings) log_warning("State needs attention", {{"err", w}});
  if (const Status s = books_.can_save(); !s.ok()) {
    log_error("The state cannot be written; every new claim will be refused", s.error());
    (void)health_.advise("state", s.error().text + "; new claims are refused until it can be written");
  }
  rewrite_cdi();
  log_info(0, "State loaded",
           {{"claimsFromStateFile", loaded->from_state},
            {"claimsFromCDI", loaded->from_cdi},
            {"conflicts", loaded->conflicts},
            {"stale", loaded->stale},
            {"newBoot", loaded->new_boot}});
  if (loaded->memory_claims > 0) {
    log_info(0, "Memory claims loaded",
             {{"claims", loaded->memory_claims}, {"fromCDI", loaded->memory_from_cdi}});
  }
  // A write costs two syncs: only when what is on disk is not what we hold.
  return loaded->from_cdi > 0 || loaded->memory_from_cdi > 0 || loaded->new_boot || loaded->renamed ||
                 !loaded->warnings.empty()
             ? books_.save()
             : ok_status();
}

TellPod Session::tell_pod() {
  return [this](const PodRef& pod, std::string_view reason, const std::string& text) {
    events_.warn(pod, reason, text);
  };
}

std::function<void(std::string who, std::string what)> Session::note_refusal() {
  return [this](std::string who, std::string what) { board_.note_refusal(std::move(who), std::move(what)); };
}

// Nothing waits for it; what failed is told once, since without the right to do so all of them fail.
void Session::post_event(std::string path, std::string body) {
  client_->send({kube::Method::kPost, std::move(path), std::move(body)}, Deadline::after(kEventLimit),
                [this](Result<kube::Response> answer) {
                  if (answer.ok() && answer->ok()) return;
                  const Error why = answer.ok() ? kube::status_error(*answer) : answer.error();
                  metrics_.api_errors_total.inc("events");
                  if (!event_failed_.exchange(true)) log_warning("Event not written", {{"err", why.text}});
                });
}

void Session::rewrite_cdi() {
  std::vector<Error> failed = books_.rewrite_missing_cdi();
  if (node_.config.memory.enabled) {
    for (Error& e : books_.rewrite_missing_memory_cdi()) failed.push_back(std::move(e));
  }
  for (const Error& e : failed) log_error("CDI file not written; its container cannot start", e);
}

Status Session::start_api() {
  Result<kube::ClientConfig> config = kube::load_client_config(node_.config.runtime.kubeconfig);
  if (!config.ok()) return std::move(config).error();
  Result<std::unique_ptr<kube::HttpClient>> client = kube::HttpClient::create(*std::move(config));
  if (!client.ok()) return std::move(client).error();
  client_ = *std::move(client);
  kube::PublisherOptions options;
  options.driver = node_.config.publish.driver_name;
  options.node = node_.name;
  if (node_.config.publish.node_allocatable_mapping) {
    options.mapping = kube::AllocatableMapping{"cpu", device::cpu_capacity_name(options.driver)};
  }
  kube::PublisherCallbacks callbacks;
  callbacks.on_state = [this](const kube::PublisherState& state) { slice_report_.on_state(state); };
  callbacks.on_warning = [](const std::string& text) {
    log_warning("Part of the slices cannot be published", {{"err", text}});
  };
  publisher_ = kube::SlicePublisher::start(*client_, std::move(options), std::move(callbacks));
  return ok_status();
}

void Session::start_runtime() {
  nri::PluginOptions options;
  options.socket = node_.config.runtime.nri_socket;
  options.unreachable = [this](const Error& why) { health_.set_failed("nri", advice_on_no_socket(why)); };
  plugin_ = nri::Plugin::start(std::move(options), runtime_);
  runtime_.set_push(
      [this](const std::vector<nri::ContainerUpdate>& updates, std::chrono::milliseconds timeout) {
        return plugin_->update_containers(updates, timeout);
      });
}

Status Session::start_kubelet() {
  Result<std::unique_ptr<kubelet::Server>> server =
      kubelet::Server::start(server_options(node_.config), *claims_);
  if (!server.ok()) return std::move(server).error();
  server_ = *std::move(server);
  is_health_due_ = true;
  report_lost_cpus();
  registration_.offered(Clock::now());
  return ok_status();
}

void Session::publish() {
  const std::shared_ptr<const Machine> machine = watch_.machine();
  const std::shared_ptr<const MemoryView> memory = memory_ ? memory_->view() : nullptr;
  std::vector<device::Slice> slices = cpu_slices(node_, *machine, memory ? &memory->inventory : nullptr);
  log_info(2, "Publishing", {{"devices", machine->devices.size()}, {"slices", slices.size()}});
  if (machine->devices.empty())
    log_warning("No device to publish: every CPU is reserved or its facts are incomplete");
  publisher_->publish(std::move(slices));
}

// Hotplug: the ledger and the published devices follow the machine, claims keep their CPUs.
void Session::look_at_machine() {
  const CpuSet before = watch_.machine()->topology.online;
  const Result<bool> changed = watch_.look();
  if (!changed.ok()) {
    if (machine_error_ != changed.error().text)
      log_error("The machine cannot be read again", changed.error());
    machine_error_ = changed.error().text;
    return;
  }
  machine_error_.clear();
  if (!*changed) return;
  const std::shared_ptr<const Machine> machine = watch_.machine();
  const CpuSet& now = machine->topology.online;
  log_info(0, "CPUs came or went",
           {{"online", (now - before).to_string()}, {"offline", (before - now).to_string()}});
  worker_.post([this, machine] {
    books_.set_machine(*machine);
    claims_->set_machine(machine);
    runtime_.pool_grew();
    wake_.notify();
  });
  is_health_due_ = true;
  publish();
}

// Combined mode: a pool shrank under its claims, or a node lost memory.
void Session::report_memory_lacks() {
  if (!memory_) return;
  std::map<std::string, std::string> now = books_.with_memory(memory_lacks);
  if (now == memory_lacks_) return;
  for (const auto& [device, what] : now)
    log_warning("Device is held beyond the memory that it has", {{"device", device}, {"what", what}});
  memory_lacks_ = std::move(now);
  is_health_due_ = true;
}

// The kubelet hears of devices whose claims lack CPUs; the log of claims that begin or cease to.
void Session::report_lost_cpus() {
  const std::vector<LostCpus> lost = books_.with_ledger([](const ledger::Ledger& l) { return lost_cpus(l); });
  std::map<ClaimUid, CpuSet> now;
  for (const LostCpus& l : lost) {
    now.emplace(l.uid, l.offline);
    const auto told = lost_.find(l.uid);
    if (told != lost_.end() && told->second == l.offline) continue;
    log_warning("Claim lacks CPUs that are offline", {{"claim", l.claim},
                                                      {"claimUID", l.uid.get()},
                                                      {"offline", l.offline.to_string()},
                                                      {"left", l.left.to_string()}});
  }
  for (const auto& [uid, cpus] : lost_) {
    if (!now.contains(uid)) log_info(0, "Claim lacks no CPUs any more", {{"claimUID", uid.get()}});
  }
  if (now == lost_ && !is_health_due_) return;
  lost_ = std::move(now);
  if (!server_) return;
  server_->set_health(device_health(node_, *watch_.machine(), lost, memory_lacks_));
  is_health_due_ = false;
}

bool Session::wait_for_runtime() {
  while (!synchronized_ && !wake_.stop_requested()) {
    wake_.wait_until(Clock::now() + kTick);
    health_.beat("main");
    if (!still_alone()) return false;
  }
  return !wake_.stop_requested();
}

ClaimReader Session::claim_reader() {
  return [this](const std::string& ns, const std::string& name, Deadline deadline,
                std::function<void(Result<kube::Claim>)> done) {
    kube::get_claim(*client_, ns, name, deadline, std::move(done));
  };
}

void Session::start_services() {
  ClaimService::Hooks hooks;
  hooks.may_prepare = [this] { return runtime_.may_prepare(); };
  hooks.pool_grew = [this] { runtime_.pool_grew(); };
  hooks.tell_pod = tell_pod();
  hooks.refused = note_refusal();
  hooks.registration = [this](bool registered, const std::string& error) {
    on_registration(registered, error);
  };
  claims_ = std::make_unique<ClaimService>(
      node_, watch_.machine(), books_, worker_, claim_reader(),
      [this](const kube::DeviceName& device, Deadline deadline,
             std::function<void(Result<std::vector<std::string>>)> done) {
        kube::get_attribute(*client_, node_.name, device, "resource.kubernetes.io/pcieRoot", deadline,
                            std::move(done));
      },
      metrics_, std::move(hooks));
  const std::shared_ptr<const MemoryView> memory = watch_.machine()->memory;
  if (!memory) return;
  MemoryService::Hooks memory_hooks;
  memory_hooks.may_prepare = [this] { return runtime_.may_prepare(); };
  memory_hooks.tell_pod = tell_pod();
  memory_hooks.refused = note_refusal();
  memory_ = std::make_unique<MemoryPart>(node_, memory, books_, worker_, wake_, metrics_, health_,
                                         std::move(memory_hooks), claim_reader(), [this] { publish(); });
  memory_->start_publisher(*client_);
}

TermEnd Session::serve() {
  health_.set_failed("nri", "not connected yet");
  health_.set_failed("kubelet", "not registered yet");
  health_.set_failed("slices", "not published yet");
  for (const auto& [name, work] : std::initializer_list<std::pair<const char*, std::function<Status()>>>{
           {"state", [this] { return start_files(); }}, {"api", [this] { return start_api(); }}}) {
    if (Status s = timed_step(metrics_, name, work); !s.ok()) {
      log_error("Cannot start", s.error());
      return TermEnd::kFatal;
    }
  }
  start_services();
  board_.set_source([this] { return owner_facts(); });
  const Result<bool> connected = timed_wait(metrics_, "runtime", [&]() -> Result<bool> {
    start_runtime();
    return wait_for_runtime();
  });
  if (wake_.stop_requested()) return TermEnd::kStop;
  if (!*connected) return TermEnd::kStepBack;
  if (Status s = timed_step(metrics_, "kubelet",
                            [this] {
                              if (Status cpus = start_kubelet(); !cpus.ok()) return cpus;
                              return memory_ ? memory_->start_kubelet() : ok_status();
                            });
      !s.ok()) {
    log_error("Cannot start", s.error());
    return TermEnd::kFatal;
  }
  publish();
  if (memory_) memory_->publish();
  worker_.post([this] { rewrite_cdi(); });  // what the running containers decided
  next_lost_check_ = Clock::now();
  while (!wake_.stop_requested()) {
    const Clock::time_point now = Clock::now();
    if (!still_alone()) return TermEnd::kStepBack;
    tick(now);
    wake_.wait_until(now + kTick);
  }
  return TermEnd::kStop;
}

bool Session::still_alone() {
  if (!guard_.still_ours()) {
    log_error("Stepping back", make_error(Errc::kConflict,
                                          "the lock \"{}\" was removed or replaced; another driver may have "
                                          "started",
                                          guard_.path().string()));
    metrics_.foreign_owner_total.inc();
    return false;
  }
  const bool is_memory = memory_ && memory_->sockets_replaced();
  if (is_memory || (server_ && server_->sockets_replaced())) {
    log_error("Stepping back",
              make_error(Errc::kConflict,
                         "the kubelet sockets of {} were replaced; another driver runs on this node",
                         is_memory ? std::string(memory::kDriverName) : node_.config.publish.driver_name));
    metrics_.foreign_owner_total.inc();
    return false;
  }
  return true;
}

void Session::tick(Clock::time_point now) {
  health_.beat("main");
  slice_report_.count(publisher_->stats());
  retry_registration(now);
  look_at_machine();
  report_memory_lacks();
  report_lost_cpus();
  report_config_conflict();
  if (now >= next_lost_check_) {
    next_lost_check_ = now + (books_.has_unconfirmed() ? kUnconfirmedCheck : kLostCheck);
    worker_.post([this] {
      claims_->collect_lost_claims();
      if (memory_) memory_->collect_lost_claims();
    });
  }
  if (memory_) memory_->tick(now, *watch_.machine());
  const std::size_t stale = books_.with_ledger([](const ledger::Ledger& l) { return l.stale_count(); });
  if (stale == 0) stale_since_ = Clock::time_point{};
  if (stale > 0 && stale_since_ == Clock::time_point{}) stale_since_ = now;
  metrics_.stale_pool_seconds.set(stale == 0 ? 0.0
                                             : std::chrono::duration<double>(now - stale_since_).count());
}

void Session::report_config_conflict() {
  std::vector<ConfigConflict> now = books_.with_both([this](const ledger::Ledger& l, const MemoryBook& m) {
    return config_conflicts(l, m, node_.config.memory.enabled);
  });
  if (now == config_conflicts_) return;
  config_conflicts_ = std::move(now);
  if (config_conflicts_.empty()) {
    log_info(0, "No claim contradicts the configuration any more");
    health_.set_ok("config");
    return;
  }
  std::string check;
  for (const ConfigConflict& c : config_conflicts_) {
    log_error(c.event, make_error(Errc::kConflict, "{}", c.claims));
    check += fmt::format("{}{}: {}", check.empty() ? "" : "; ", c.check, c.claims);
  }
  health_.set_failed("config", check);
}

void Session::retry_registration(Clock::time_point now) {
  if (registered_) return registration_.reset();
  if (!registration_.due(now)) return;
  log_warning("The kubelet has not registered this driver; offering the sockets anew",
              {{"kubeletRootDir", node_.config.runtime.kubelet_root_dir.string()},
               {"nextTrySeconds", registration_.wait().count()}});
  server_.reset();  // stops; null if opening the sockets failed last time
  if (Status s = start_kubelet(); !s.ok()) log_error("Kubelet sockets not open", s.error());
  registration_.offered(now);
}

void Session::note_takeover(std::string_view peer, std::atomic<bool>& noted) {
  if (noted.exchange(true)) return;
  const std::chrono::duration<double> took = Clock::now() - owner_since_;
  metrics_.takeover_seconds.set(peer, took.count());
}

void Session::on_registration(bool registered, const std::string& error) {
  registered_ = registered;
  if (registered) {
    health_.set_ok("kubelet");
    note_takeover("kubelet", kubelet_noted_);
    health_.set_started();
  } else {
    health_.set_failed("kubelet", error);
  }
  wake_.notify();
}

void Session::stop() {
  board_.set_source({});
  // Start order backwards. The kubelet's running calls and the runtime's running hook may finish.
  if (publisher_) publisher_->stop();
  if (memory_) memory_->stop_publisher();
  if (server_) server_->stop();
  if (memory_) memory_->stop_server();
  if (plugin_) plugin_->stop();
  worker_.stop();
  health_.set_failed("kubelet", "stopping");
  health_.set_failed("nri", "stopping");
}

}  // namespace dracpu::agent
