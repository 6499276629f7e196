// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/runtime_service.h"

#include <utility>

#include "agent/memory_hooks.h"
#include "agent/runtime_settings.h"
#include "base/strings.h"
#include "observe/log.h"

namespace dracpu::agent {
namespace {

double seconds(Deadline::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

using observe::log_info;
using observe::log_warning;

constexpr std::chrono::milliseconds kGrowthDelay{1000};  // RULINGS 15: at least one second
constexpr std::size_t kGrowthBatch = 16;  // runtimes apply updates one by one at tens of milliseconds
constexpr std::chrono::seconds kPushLimit{20};

std::string pod_name_of(const nri::ContainerInfo& c) { return c.pod_namespace + "/" + c.pod_name; }

ledger::ContainerFacts facts_of(const nri::ContainerInfo& c) {
  return {c.id, {c.pod_uid, c.name}, pod_name_of(c), &c.env, c.cpus};
}

PodRef pod_of(const nri::ContainerInfo& c) { return {c.pod_namespace, c.pod_name, c.pod_uid.get()}; }

std::vector<nri::ContainerUpdate> to_wire(std::vector<ledger::Update> updates) {
  std::vector<nri::ContainerUpdate> out;
  out.reserve(updates.size());
  for (ledger::Update& u : updates) out.push_back({std::move(u.id), std::move(u.cpus)});
  return out;
}

std::vector<ContainerId> ids_of(const std::vector<ledger::Update>& updates) {
  std::vector<ContainerId> out;
  out.reserve(updates.size());
  for (const ledger::Update& u : updates) out.push_back(u.id);
  return out;
}

observe::AllocationMode mode_of(ledger::Kind kind) {
  return kind == ledger::Kind::kShared ? observe::AllocationMode::kShared
                                       : observe::AllocationMode::kExclusive;
}

}  // namespace

bool takes_unsolicited_updates(std::string_view nri_version) {
  if (nri_version.starts_with('v')) nri_version.remove_prefix(1);
  const std::size_t end = nri_version.find_first_not_of("0123456789.");
  const std::vector<std::string_view> parts = split(nri_version.substr(0, end), '.');
  if (parts.size() < 3) return false;
  const std::optional<int> major = parse_number<int>(parts[0]);
  const std::optional<int> minor = parse_number<int>(parts[1]);
  const std::optional<int> patch = parse_number<int>(parts[2]);
  if (!major || !minor || !patch) return false;
  const bool prerelease = end != std::string_view::npos && nri_version[end] == '-';
  const std::tuple<int, int, int> version{*major, *minor, *patch};
  const std::tuple<int, int, int> first_safe{0, 12, 1};
  return prerelease ? version > first_safe : version >= first_safe;
}

RuntimeService::RuntimeService(const Node& node, Books& books, Worker& worker, observe::Metrics& metrics,
                               Hooks hooks)
    : node_(node),
      books_(books),
      worker_(worker),
      metrics_(metrics),
      hooks_(std::move(hooks)),
      serves_memory_(node.config.memory.enabled),
      policy_(memory_policy(node.config)) {
  if (serves_memory_ && policy_.hugetlb == config::HugetlbEnforcement::kPod)
    pod_cgroups_.emplace(open_pod_cgroups(node));
}

void RuntimeService::set_push(Push push) {
  const Locked lock(mutex_);
  push_ = std::move(push);
}

void RuntimeService::on_configure(const nri::RuntimeInfo& runtime) {
  push_is_safe_ = node_.config.runtime.grow_pool == config::GrowPool::kAuto &&
                  takes_unsolicited_updates(runtime.nri_version);
  request_timeout_ = runtime.request_timeout;
  advise(advice_on_timeout(runtime.request_timeout));
  {
    const Locked lock(mutex_);
    runtime_ = fmt::format("{} {}{}{}", runtime.name, runtime.version,
                           runtime.nri_version.empty() ? "" : ", NRI ", runtime.nri_version);
  }
  log_info(0, "Container runtime connected",
           {{"runtime", runtime.name},
            {"version", runtime.version},
            {"nriVersion", runtime.nri_version},
            {"requestTimeoutMs", runtime.request_timeout.count()},
            {"poolGrowth", push_is_safe_ ? "at once" : "with the next hook"}});
}

Result<std::vector<nri::ContainerUpdate>> RuntimeService::on_synchronize(
    std::vector<nri::ContainerInfo> containers, Deadline deadline) {
  const std::string op = observe::new_op_id();
  const auto begun = Deadline::Clock::now();
  std::vector<ledger::ContainerFacts> facts;
  facts.reserve(containers.size());
  for (const nri::ContainerInfo& c : containers) facts.push_back(facts_of(c));
  const std::vector<std::string> moved = books_.settle(facts);
  for (const std::string& m : moved) log_warning("Claim follows its container", {{"opID", op}, {"what", m}});
  ledger::Synchronized result = books_.with_ledger([&](ledger::Ledger& l) { return l.synchronize(facts); });
  note_margin("Synchronize", deadline);
  in_doubt_ = false;  // what was pushed on the old connection can no longer arrive
  for (const ledger::Finding& f : result.findings) {
    log_warning("Container is treated as shared", {{"opID", op},
                                                   {"pod", f.pod},
                                                   {"container", f.container},
                                                   {"containerID", f.id.get()},
                                                   {"err", f.what.text}});
    refused(containers[f.index], "ContainerNotPinned", "runs in the shared pool: " + f.what.text);
  }
  for (const std::size_t i : result.elsewhere) repinned(op, containers[i]);
  advise(advice_on_unpinned(result.elsewhere.size()));
  metrics_.claim_conflicts.set(books_.conflicts() + result.findings.size());
  if (result.new_owner || !moved.empty()) worker_.post([this] { (void)books_.save(); });
  metrics_.nri_synchronize_duration_seconds.observe(observe::Outcome::kSuccess,
                                                    seconds(Deadline::Clock::now() - begun));
  log_info(0, "Synchronized with the runtime",
           {{"opID", op},
            {"containers", containers.size()},
            {"exclusive", result.exclusive},
            {"shared", result.shared},
            {"updates", result.updates.size()}});
  std::vector<nri::ContainerUpdate> updates = to_wire(std::move(result.updates));
  if (serves_memory_) synchronize_memory(op, containers, updates);
  return updates;
}

void RuntimeService::synchronize_memory(const std::string& op,
                                        const std::vector<nri::ContainerInfo>& containers,
                                        std::vector<nri::ContainerUpdate>& updates) {
  const memory::Synchronized result =
      books_.with_memory([&](MemoryBook& m) { return synchronize(m, containers, policy_); });
  for (const memory::SyncFinding& f : result.findings) {
    const nri::ContainerInfo& c = containers[f.index];
    log_warning("Container's memory claims do not count", {{"opID", op},
                                                           {"pod", pod_name_of(c)},
                                                           {"container", c.name},
                                                           {"containerID", c.id.get()},
                                                           {"err", f.what.text}});
    refused(c, "ContainerNotPinned", "its memory claims do not count: " + f.what.text);
  }
  for (const memory::SyncUpdate& u : result.updates) {
    const nri::ContainerInfo& c = containers[u.index];
    log_warning("Container was not on its claims' memory; it is put right",
                {{"opID", op},
                 {"pod", pod_name_of(c)},
                 {"container", c.name},
                 {"wasMems", c.memory.mems},
                 {"memory", text_of(u.adjustment)}});
    merge(updates, c.id, u.adjustment);
  }
  if (!result.without_limit.empty()) {
    advise(
        observe::Advice{"runtime-hugetlb",
                        fmt::format("{} running containers with hugepage claims have no hugepage limit: set "
                                    "disable_hugetlb_controller to false in the container runtime",
                                    result.without_limit.size())});
  }
  if (!result.bound.empty()) worker_.post([this] { (void)books_.save(); });
}

void RuntimeService::on_synchronized() {
  {
    const Locked lock(mutex_);
    lost_.clear();
  }
  synchronized_ = true;
  metrics_.nri_connected.set(1);
  metrics_.nri_connections_total.inc();
  hooks_.synchronized();
}

void RuntimeService::on_disconnect(const Error& reason) {
  const bool was = synchronized_.exchange(false);
  {
    const Locked lock(mutex_);
    lost_ = reason.text;
    runtime_.clear();
  }
  metrics_.nri_connected.set(0);
  if (was) log_info(0, "Container runtime disconnected", {{"err", reason.text}});
  hooks_.disconnected(reason.text);
}

void RuntimeService::note_margin(std::string_view hook, Deadline deadline) {
  const double left = seconds(deadline.at() - Deadline::Clock::now());
  metrics_.hook_deadline_margin_seconds.lower(hook, left);
  advise(advice_on_margin(hook, left, request_timeout_));
}

void RuntimeService::refused(const nri::ContainerInfo& container, std::string_view reason,
                             const std::string& text) {
  const std::string who = fmt::format("container \"{}\"", container.name);
  if (hooks_.tell_pod) hooks_.tell_pod(pod_of(container), reason, fmt::format("{}: {}", who, text));
  if (hooks_.refused) hooks_.refused(fmt::format("{} of pod {}", who, pod_name_of(container)), text);
}

void RuntimeService::repinned(const std::string& op, const nri::ContainerInfo& container) {
  const std::optional<CpuSet> cpus =
      books_.with_ledger([&](const ledger::Ledger& l) { return l.placement_of(container.id); });
  const std::string now = cpus ? cpus->to_string() : "";
  const std::string was = container.cpus.empty() ? "all CPUs" : "CPUs " + container.cpus;
  log_warning("Container was not on its claim's CPUs; it is moved there",
              {{"opID", op},
               {"pod", pod_name_of(container)},
               {"container", container.name},
               {"containerID", container.id.get()},
               {"was", container.cpus},
               {"cpus", now}});
  if (!hooks_.tell_pod) return;
  hooks_.tell_pod(
      pod_of(container), "ContainerRepinned",
      fmt::format("container \"{}\" ran on {} and is moved to the CPUs of its claims, {}; it was started "
                  "or changed while the CPU driver of the node was away",
                  container.name, was, now));
}

void RuntimeService::advise(const std::optional<observe::Advice>& advice) {
  if (advice && hooks_.advise) hooks_.advise(*advice);
}

std::string RuntimeService::runtime() const {
  const Locked lock(mutex_);
  return runtime_;
}

Status RuntimeService::may_prepare() const {
  if (!synchronized_) {
    const Locked lock(mutex_);
    return make_error(Errc::kUnavailable, "the container runtime is not connected ({}); try again", lost_);
  }
  if (in_doubt_) {
    return make_error(
        Errc::kUnavailable,
        "the container runtime has not answered an update of the shared containers; try again when it has "
        "reconnected");
  }
  return ok_status();
}

// Before anything is bound. What a creation that fails later leaves raised is what its next try needs, and
// ends with the pod.
Status RuntimeService::make_room_in_pod(const nri::ContainerInfo& container) {
  const memory::ContainerFacts facts = memory_facts_of(container);
  const Result<memory::Placement> planned = books_.with_memory(
      [&](const MemoryBook& m) { return memory::place(m.accounts, facts, m.nodes_with_memory, policy_); });
  if (!planned.ok()) return ok_status();  // place() refuses it, with the reason
  for (const auto& [page, bytes] : planned->claimed_hugepages) {
    const auto own = facts.resources.hugepage_limits.find(page);
    const std::uint64_t own_limit = own == facts.resources.hugepage_limits.end() ? 0 : own->second;
    const Status raised =
        pod_cgroups_->ok()
            ? (**pod_cgroups_).allow(container.pod_cgroup, page, container.name, {{bytes}, {own_limit}})
            : Status(pod_cgroups_->error());
    if (raised.ok()) continue;
    metrics_.memory->container_rejections_total.inc(observe::Rejection::kPodCgroup);
    return Error(raised.error())
        .while_doing(fmt::format("pod {}: cannot raise hugetlb.{} by {}", container.pod_uid.get(), page,
                                 memory::text_of({bytes})));
  }
  return ok_status();
}

// Nothing is changed unless both halves stand.
Result<RuntimeService::Created> RuntimeService::place(const nri::ContainerInfo& container) {
  if (pod_cgroups_) {
    if (Status s = make_room_in_pod(container); !s.ok()) return std::move(s).error();
  }
  memory::Refusal why{};
  bool is_of_memory = false;
  Result<Created> out = books_.with_both([&](ledger::Ledger& l, MemoryBook& m) -> Result<Created> {
    Created made;
    if (serves_memory_) {
      Result<memory::Placement> memory =
          memory::place(m.accounts, memory_facts_of(container), m.nodes_with_memory, policy_, &why);
      is_of_memory = !memory.ok();
      if (!memory.ok()) return std::move(memory).error();
      made.memory = *std::move(memory);
    }
    Result<ledger::Placement> cpus = l.create(facts_of(container));
    if (!cpus.ok()) return std::move(cpus).error();
    made.cpus = *std::move(cpus);
    made.new_owner = settle(m, container, made.memory.claims) || made.cpus.new_owner;
    return made;
  });
  if (is_of_memory) metrics_.memory->container_rejections_total.inc(rejection_of(why));
  return out;
}

Result<nri::CreateAnswer> RuntimeService::on_create(const nri::ContainerInfo& container, Deadline deadline) {
  const std::string op = observe::new_op_id();
  const auto begun = Deadline::Clock::now();
  Result<Created> made = place(container);
  const auto took = Deadline::Clock::now() - begun;
  const std::string pod = pod_name_of(container);
  note_margin("CreateContainer", deadline);
  // With the policies `none` the kubelet asks for no CPUs and no nodes.
  if (!container.cpus.empty()) advise(advice_on_cpu_manager(container.cpus));
  if (!container.memory.mems.empty()) advise(advice_on_memory_manager(container.memory.mems));
  if (!made.ok()) {
    metrics_.containers_refused_total.inc(name_of(made.error().code));
    metrics_.nri_create_container_duration_seconds.observe(observe::Outcome::kError,
                                                           observe::AllocationMode::kUnknown, seconds(took));
    log_info(0, "Container refused",
             {{"opID", op},
              {"pod", pod},
              {"podUID", container.pod_uid.get()},
              {"container", container.name},
              {"containerID", container.id.get()},
              {"reason", name_of(made.error().code)},
              {"err", made.error().text}});
    refused(container, "ContainerRefused", made.error().text);
    return std::move(made).error();
  }
  ledger::Placement* const placed = &made->cpus;
  metrics_.nri_create_container_duration_seconds.observe(observe::Outcome::kSuccess, mode_of(placed->kind),
                                                         seconds(took));
  if (made->new_owner) worker_.post([this] { (void)books_.save(); });
  if (observe::log_enabled(2)) {
    log_info(2,
             placed->kind == ledger::Kind::kExclusive ? "Container pinned" : "Container in the shared pool",
             {{"opID", op},
              {"pod", pod},
              {"podUID", container.pod_uid.get()},
              {"container", container.name},
              {"containerID", container.id.get()},
              {"cpus", placed->cpus.to_string()},
              {"updates", placed->updates.size()}});
  }
  if (!made->memory.claims.empty()) {
    log_info(2, "Container's memory pinned",
             {{"opID", op},
              {"pod", pod},
              {"container", container.name},
              {"containerID", container.id.get()},
              {"memory", text_of(made->memory.adjustment)}});
  }
  nri::CreateAnswer answer;
  answer.memory = to_wire(made->memory.adjustment);
  answer.cpus = std::move(placed->cpus);
  answer.updates = to_wire(std::move(placed->updates));
  return answer;
}

Result<std::vector<nri::ContainerUpdate>> RuntimeService::on_update(const nri::ContainerInfo& container,
                                                                    Deadline deadline) {
  memory::Adjustment memory;
  std::optional<CpuSet> cpus = books_.with_both([&](const ledger::Ledger& l, const MemoryBook& m) {
    if (serves_memory_) memory = correction(m, container, policy_);
    return l.placement_of(container.id);
  });
  note_margin("UpdateContainer", deadline);
  std::vector<nri::ContainerUpdate> out;
  if (cpus && !cpus->empty()) {
    log_info(4, "Container keeps its CPUs through an update",
             {{"pod", pod_name_of(container)}, {"container", container.name}, {"cpus", cpus->to_string()}});
    out.push_back({container.id, *std::move(cpus)});
  }
  merge(out, container.id, memory);
  return out;
}

Result<std::vector<nri::ContainerUpdate>> RuntimeService::on_stop(const nri::ContainerInfo& container,
                                                                  Deadline deadline) {
  const auto begun = Deadline::Clock::now();
  const bool carry = !can_push();
  struct Ended {
    std::optional<ledger::Kind> kind;
    std::vector<ledger::Update> updates;
  };
  Ended ended = books_.with_both([&](ledger::Ledger& l, MemoryBook& m) {
    Ended e;
    e.kind = l.kind_of(container.id);
    l.remove(container.id);
    m.containers.erase(container.id);
    if (carry) {
      e.updates = l.stale(kGrowthBatch);
      l.note_told(e.updates);
    }
    return e;
  });
  note_margin("StopContainer", deadline);
  if (ended.kind) {
    metrics_.nri_stop_container_duration_seconds.observe(observe::Outcome::kSuccess, mode_of(*ended.kind),
                                                         seconds(Deadline::Clock::now() - begun));
    log_info(2, "Container stopped",
             {{"pod", pod_name_of(container)},
              {"container", container.name},
              {"containerID", container.id.get()}});
  }
  return to_wire(std::move(ended.updates));
}

void RuntimeService::on_remove(const nri::ContainerInfo& container) {
  const auto begun = Deadline::Clock::now();
  const std::optional<ledger::Kind> kind = books_.with_both([&](ledger::Ledger& l, MemoryBook& m) {
    const std::optional<ledger::Kind> k = l.kind_of(container.id);
    l.remove(container.id);
    m.containers.erase(container.id);
    return k;
  });
  if (!kind) return;
  metrics_.nri_remove_container_duration_seconds.observe(observe::Outcome::kSuccess, mode_of(*kind),
                                                         seconds(Deadline::Clock::now() - begun));
  log_info(
      2, "Container removed without a stop before",
      {{"pod", pod_name_of(container)}, {"container", container.name}, {"containerID", container.id.get()}});
}

void RuntimeService::on_not_applied(const std::optional<ContainerId>& created,
                                    const std::vector<ContainerId>& updated) {
  books_.with_both([&](ledger::Ledger& l, MemoryBook& m) {
    if (created) {
      l.remove(*created);
      m.containers.erase(*created);
    }
    l.forget_told(updated);
  });
  if (!updated.empty()) pool_grew();
}

bool RuntimeService::can_push() const {
  if (!push_is_safe_ || !synchronized_) return false;
  const Locked lock(mutex_);
  return push_ != nullptr;
}

void RuntimeService::pool_grew() {
  if (!can_push() || growth_planned_.exchange(true)) return;
  worker_.post_after(kGrowthDelay, [this] { grow(); });
}

void RuntimeService::grow() {
  growth_planned_ = false;
  if (!can_push() || in_doubt_) return;
  const std::vector<ledger::Update> updates =
      books_.with_ledger([&](const ledger::Ledger& l) { return l.stale(kGrowthBatch); });
  if (updates.empty()) return;
  Push push;
  {
    const Locked lock(mutex_);
    push = push_;
  }
  const Status pushed = push(to_wire(updates), kPushLimit);
  books_.with_ledger([&](ledger::Ledger& l) {
    if (pushed.ok()) {
      l.note_told(updates);
    } else {
      l.forget_told(ids_of(updates));
    }
  });
  if (!pushed.ok()) {
    log_warning("Running containers could not be told their CPUs; the next hook carries it",
                {{"containers", updates.size()}, {"err", pushed.error().text}});
    // No answer in time: the runtime may still carry it out, over a claim that would be prepared meanwhile.
    // An answer, also one that says that some failed (a container that just ended), is the end of it.
    if (pushed.error().code == Errc::kUnavailable && synchronized_) in_doubt_ = true;
    return;
  }
  log_info(4, "Running containers told their CPUs",
           {{"containers", updates.size()}, {"cpus", updates[0].cpus.to_string()}});
  if (!growth_planned_.exchange(true))
    worker_.post([this] { grow(); });  // prepares that wait come in between
}

}  // namespace dracpu::agent
