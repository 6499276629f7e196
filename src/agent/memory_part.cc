// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/memory_part.h"

#include <algorithm>
#include <set>
#include <utility>

#include "memory/types.h"
#include "observe/log.h"

namespace dracpu::agent {
namespace {

using observe::log_error;
using observe::log_info;
using observe::log_warning;

constexpr const char* kKubeletCheck = "memory-kubelet";
constexpr const char* kSlicesCheck = "memory-slices";

std::string lack_of(const memory::Standing& s) {
  return fmt::format("claims hold {}, NUMA node {} has {} for them", memory::text_of(s.held), s.node.get(),
                     memory::text_of(s.capacity));
}

// Claims that the kubelet may end at the memory driver's sockets.
bool has_claims_of_its_own(const MemoryBook& book) {
  const auto& claims = book.accounts.claims();
  return std::any_of(claims.begin(), claims.end(), [](const auto& entry) {
    return memory::mode_of(entry.second) != config::MemoryMode::kCombined;
  });
}

}  // namespace

kubelet::ServerOptions memory_server_options(const config::Config& config) {
  kubelet::ServerOptions out;
  out.kubelet_root_dir = config.runtime.kubelet_root_dir;
  out.driver_name = memory::kDriverName;
  return out;
}

std::vector<kubelet::DeviceHealth> memory_health(const Node& node, const std::vector<memory::Standing>& now) {
  std::vector<kubelet::DeviceHealth> out;
  out.reserve(now.size());
  for (const memory::Standing& s : now) {
    const std::string device = s.device.empty() ? memory::device_name(s.kind, s.node) : s.device;
    if (s.is_healthy()) {
      out.push_back({node.name, device, kubelet::Health::kHealthy, "device initialized"});
    } else {
      out.push_back({node.name, device, kubelet::Health::kUnhealthy, lack_of(s)});
    }
  }
  return out;
}

std::map<std::string, std::string> memory_lacks(const MemoryBook& book) {
  std::map<std::string, std::string> out;
  for (const memory::Standing& s : book.accounts.standings()) {
    if (s.is_healthy()) continue;
    std::set<std::string> devices;
    for (const auto& [uid, claim] : book.accounts.claims()) {
      for (const memory::Grant& g : claim.grants) {
        if (g.kind == s.kind && g.node == s.node && !g.device.empty() && book.comes_with_cpus(uid))
          devices.insert(g.device);
      }
    }
    for (const std::string& device : devices) {
      std::string& text = out[device];
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", memory::resource_name(s.kind), lack_of(s));
    }
  }
  return out;
}

std::vector<StatusMemory> memory_status(const MemoryBook& book) {
  std::vector<StatusMemory> out;
  for (const memory::Standing& s : book.accounts.standings()) {
    out.push_back({memory::resource_name(s.kind),
                   s.node.get(),
                   memory::text_of(s.capacity),
                   memory::text_of(s.held),
                   memory::text_of(s.left()),
                   s.is_healthy(),
                   {}});
    for (const auto& [uid, claim] : book.accounts.claims()) {
      memory::Bytes of_claim;
      for (const memory::Grant& g : claim.grants) {
        if (g.kind == s.kind && g.node == s.node) of_claim += g.bytes;
      }
      if (of_claim == memory::Bytes()) continue;
      out.back().claims.push_back(fmt::format(
          "{}: {}", claim.name.empty() ? uid.get() : claim.ns + "/" + claim.name, memory::text_of(of_claim)));
    }
  }
  return out;
}

MemoryPart::MemoryPart(const Node& node, std::shared_ptr<const MemoryView> view, Books& books, Worker& worker,
                       Wake& wake, observe::Metrics& metrics, observe::HealthState& health,
                       MemoryService::Hooks hooks, ClaimReader reader, std::function<void()> republish_cpus)
    : node_(node),
      books_(books),
      wake_(wake),
      metrics_(metrics),
      health_(health),
      is_combined_(comes_with_memory(node.config)),
      has_sockets_(!is_combined_ || books.with_memory(has_claims_of_its_own)),
      republish_cpus_(std::move(republish_cpus)),
      view_(std::move(view)),
      slice_report_(kSlicesCheck, "Memory slices", health, metrics),
      drift_(node.name, *metrics.memory),
      service_(node, books, worker, std::move(reader), metrics, with_own(std::move(hooks))) {
  set_gauges(*this->view());
  if (!has_sockets_) return;
  health_.set_failed(kKubeletCheck, "not registered yet");
  health_.set_failed(kSlicesCheck, "not published yet");
}

MemoryService::Hooks MemoryPart::with_own(MemoryService::Hooks hooks) {
  hooks.registration = [this](bool registered, const std::string& error) {
    on_registration(registered, error);
  };
  hooks.view = [this] { return view(); };
  return hooks;
}

std::shared_ptr<const MemoryView> MemoryPart::view() const {
  const Locked lock(mutex_);
  return view_;
}

void MemoryPart::start_publisher(kube::HttpClient& client) {
  if (!has_sockets_) return;
  kube::PublisherOptions options;
  options.driver = memory::kDriverName;
  options.node = node_.name;
  kube::PublisherCallbacks callbacks;
  callbacks.on_state = [this](const kube::PublisherState& state) { slice_report_.on_state(state); };
  callbacks.on_warning = [](const std::string& text) {
    log_warning("Part of the memory slices cannot be published", {{"err", text}});
  };
  publisher_ = kube::SlicePublisher::start(client, std::move(options), std::move(callbacks));
  client_ = &client;
}

Status MemoryPart::start_kubelet() {
  if (!has_sockets_) return ok_status();
  told_.reset();
  Result<std::unique_ptr<kubelet::Server>> server =
      kubelet::Server::start(memory_server_options(node_.config), service_);
  if (!server.ok()) return std::move(server).error();
  server_ = *std::move(server);
  report_health();
  registration_.offered(Clock::now());
  return ok_status();
}

void MemoryPart::publish() {
  if (is_combined_) {
    if (publisher_) publisher_->publish({});
    return;
  }
  const std::shared_ptr<const MemoryView> now = view();
  log_info(2, "Publishing memory",
           {{"devices", now->published.offers.size()}, {"slices", now->published.slices.size()}});
  if (now->published.offers.empty())
    log_warning("No memory to publish: everything is reserved, or memory.nodes leaves nothing");
  publisher_->publish(now->published.slices);
}

void MemoryPart::tick(Clock::time_point now, const Machine& machine) {
  if (publisher_) slice_report_.count(publisher_->stats());
  retry_registration(now);
  const std::chrono::seconds pause(node_.config.memory.rescan_seconds);
  const bool is_due = pause.count() > 0 && now >= next_look_;
  const bool cpus_changed = machine.topology.online != seen_online_;
  if (is_due || cpus_changed) {
    const bool is_first = next_look_ == Clock::time_point{};
    next_look_ = now + pause;
    seen_online_ = machine.topology.online;
    if (!is_first) look(machine);  // it was read for the start
  }
  if (client_ != nullptr) drift_.tick(now, view()->inventory, *client_);
  report_health();
}

void MemoryPart::look(const Machine& machine) {
  Result<std::shared_ptr<const MemoryView>> read = read_memory_view(node_, machine);
  if (!read.ok()) {
    metrics_.memory->rescans_total.inc(observe::Rescan::kError);
    if (look_error_ != read.error().text)
      log_error("The memory cannot be read again; what was read before counts", read.error());
    look_error_ = read.error().text;
    return;
  }
  look_error_.clear();
  const std::shared_ptr<const MemoryView> before = view();
  const bool changed = (*read)->inventory != before->inventory || (*read)->published != before->published;
  metrics_.memory->rescans_total.inc(changed ? observe::Rescan::kChanged : observe::Rescan::kUnchanged);
  set_gauges(**read);
  if (!changed) return;
  {
    const Locked lock(mutex_);
    view_ = *read;
  }
  books_.set_memory(**read);
  update_memory_gauges(books_, metrics_);
  log_info(0, "Memory changed", {{"devices", (*read)->published.offers.size()}});
  for (const topology::Warning& w : (*read)->inventory.warnings)
    log_warning("The memory is odd", {{"what", fmt::format("{}: {}; {}", w.path, w.found, w.assumed)}});
  if ((*read)->published == before->published) return;
  if (is_combined_) return republish_cpus_();
  publish();
}

// The kubelet hears of it at once, the log of what changed.
void MemoryPart::report_health() {
  const std::vector<memory::Standing> standings =
      books_.with_memory([](const MemoryBook& m) { return m.accounts.standings(); });
  std::vector<kubelet::DeviceHealth> now = memory_health(node_, standings);
  const auto same = [](const kubelet::DeviceHealth& a, const kubelet::DeviceHealth& b) {
    return a.device == b.device && a.health == b.health && a.message == b.message;
  };
  if (!server_ || is_combined_ ||
      (told_ && std::equal(now.begin(), now.end(), told_->begin(), told_->end(), same)))
    return;
  for (const kubelet::DeviceHealth& d : now) {
    if (d.health == kubelet::Health::kUnhealthy)
      log_warning("Memory device is held beyond what it has", {{"device", d.device}, {"what", d.message}});
  }
  server_->set_health(now);
  told_ = std::move(now);
}

void MemoryPart::set_gauges(const MemoryView& view) {
  observe::SpanGauge::Values capacity;
  observe::SpanGauge::Values reserved;
  for (const memory::Span& s : view.inventory.spans) {
    const std::pair<int, std::string> span{s.node.get(), memory::resource_name(s.kind)};
    capacity[span] = static_cast<double>(s.capacity.count);
    reserved[span] = static_cast<double>(s.reserved.count);
  }
  observe::SpanGauge::Values free;
  for (const auto& [span, pages] : memory::free_pages_of(view.machine)) {
    free[{span.second.get(), memory::resource_name(span.first)}] =
        static_cast<double>(pages) * static_cast<double>(span.first.page().count);
  }
  metrics_.memory->capacity_bytes.set(std::move(capacity));
  metrics_.memory->reserved_bytes.set(std::move(reserved));
  metrics_.memory->hugepages_free_bytes.set(std::move(free));
}

void MemoryPart::retry_registration(Clock::time_point now) {
  if (!has_sockets_) return;
  if (registered_) return registration_.reset();
  if (!registration_.due(now)) return;
  log_warning("The kubelet has not registered the memory driver; offering its sockets anew",
              {{"kubeletRootDir", node_.config.runtime.kubelet_root_dir.string()},
               {"nextTrySeconds", registration_.wait().count()}});
  server_.reset();  // stops; null if opening the sockets failed last time
  if (Status s = start_kubelet(); !s.ok())
    log_error("Kubelet sockets of the memory driver not open", s.error());
  registration_.offered(now);
}

void MemoryPart::on_registration(bool registered, const std::string& error) {
  registered_ = registered;
  if (registered) {
    health_.set_ok(kKubeletCheck);
  } else {
    health_.set_failed(kKubeletCheck, error);
  }
  wake_.notify();
}

void MemoryPart::stop_publisher() {
  client_ = nullptr;
  publisher_.reset();  // stops
}

void MemoryPart::stop_server() {
  server_.reset();  // stops
  if (has_sockets_) health_.set_failed(kKubeletCheck, "stopping");
}

}  // namespace dracpu::agent
