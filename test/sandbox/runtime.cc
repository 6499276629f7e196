// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "runtime.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/cpuset.h"
#include "base/strings.h"
#include "cdi_files.h"
#include "runtime_parts.h"
#include "trunk.h"

namespace dracpu::sandbox {
namespace {

using Clock = std::chrono::steady_clock;
using Updates = google::protobuf::RepeatedPtrField<api::ContainerUpdate>;

constexpr std::chrono::seconds kRegistrationTimeout{5};

struct Plugin {
  std::string name;  // index-name
  std::int32_t events = 0;
  std::shared_ptr<Trunk> trunk;
};

class Engine final : public Runtime {
 public:
  explicit Engine(RuntimeOptions options) : options_(std::move(options)) {}
  ~Engine() override {
    go_away();
    for (const auto& [id, c] : containers_) {
      if (options_.host != nullptr && c.running) options_.host->stop(id);
    }
  }

  Status come_back() override {
    Result<UniqueFd> fd = listen_on(options_.socket);
    if (!fd.ok()) return std::move(fd).error();
    listener_ = *std::move(fd);
    up_ = true;
    accepting_ = std::thread([this] { accept_all(); });
    return ok_status();
  }

  void go_away() override {
    if (!up_.exchange(false)) return;
    ::shutdown(listener_.get(), SHUT_RDWR);
    if (const std::shared_ptr<Trunk> greeting = take_greeting()) greeting->close();
    accepting_.join();
    listener_.reset();
    ::unlink(options_.socket.c_str());
    std::vector<Plugin> ended;
    {
      const std::lock_guard<std::mutex> node(node_);
      ended.swap(plugins_);
      std::move(dead_.begin(), dead_.end(), std::back_inserter(ended));
      dead_.clear();
    }
    for (const Plugin& p : ended) p.trunk->close();
    const std::lock_guard<std::mutex> lock(mutex_);
    counts_.plugins = 0;
  }

  Result<std::string> create(const ContainerWish& wish) override {
    Result<std::vector<std::string>> from_cdi = cdi_env(options_.cdi_dir, wish.devices);
    if (!from_cdi.ok()) return std::move(from_cdi).error().while_doing("CDI device injection failed");
    ContainerView made;
    made.id = random_hex(32);
    made.pod = wish.pod;
    made.name = wish.name;
    made.env = wish.env;
    made.env.insert(made.env.end(), from_cdi->begin(), from_cdi->end());
    const std::string id = made.id;
    const std::lock_guard<std::mutex> node(node_);
    if (Status s = ask_to_create(made); !s.ok()) {
      undo_creation(made);
      return std::move(s).error();
    }
    if (options_.host != nullptr) {
      Result<pid_t> pid = options_.host->start(id, made.cpus, made.env);
      if (!pid.ok()) {
        undo_creation(made);
        return std::move(pid).error();
      }
      made.pid = *pid;
    }
    made.running = true;
    const std::lock_guard<std::mutex> lock(mutex_);
    containers_.emplace(id, std::move(made));
    return id;
  }

  Status stop(const std::string& id) override {
    const std::lock_guard<std::mutex> node(node_);
    Result<ContainerView> view = container(id);
    if (!view.ok()) return std::move(view).error();
    if (!view->running) return ok_status();
    if (options_.host != nullptr) options_.host->stop(id);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      containers_.at(id).running = false;
    }
    Updates all;
    for (const Plugin& plugin : alive(api::STOP_CONTAINER)) {
      api::StopContainerRequest request;
      fill(*view, api::CONTAINER_STOPPED, request);
      api::StopContainerResponse response;
      if (ask(plugin, "StopContainer", request, response).ok())
        all.MergeFrom(response.update());  // errors: logged
    }
    apply(all);
    return ok_status();
  }

  Status remove(const std::string& id) override {
    if (Status s = stop(id); !s.ok()) return s;
    const std::lock_guard<std::mutex> node(node_);
    Result<ContainerView> view = container(id);
    if (!view.ok()) return std::move(view).error();
    tell_removed(*view);
    const std::lock_guard<std::mutex> lock(mutex_);
    containers_.erase(id);
    return ok_status();
  }

  Status update(const std::string& id, const std::string& cpus) override {
    const std::lock_guard<std::mutex> node(node_);
    Result<ContainerView> view = container(id);
    if (!view.ok()) return std::move(view).error();
    std::string wanted = cpus;
    Owners owners;
    Updates others;
    for (const Plugin& plugin : alive(api::UPDATE_CONTAINER)) {
      api::UpdateContainerRequest request;
      fill(*view, api::CONTAINER_RUNNING, request);
      // What the kubelet did not set arrives as wrappers that hold 0 (spec 5.7).
      request.mutable_linux_resources()->mutable_cpu()->mutable_shares();
      request.mutable_linux_resources()->mutable_cpu()->mutable_quota();
      request.mutable_linux_resources()->mutable_cpu()->set_cpus(wanted);
      api::UpdateContainerResponse response;
      if (Status s = ask(plugin, "UpdateContainer", request, response); !s.ok()) return s;
      for (const api::ContainerUpdate& u : response.update()) {
        const std::string& set = u.linux().resources().cpu().cpus();
        if (set.empty()) continue;
        if (Status s = owners.claim(u.container_id(), plugin.name); !s.ok()) return s;
        if (u.container_id() == id) {
          wanted = set;
        } else {
          *others.Add() = u;
        }
      }
    }
    apply(others);
    return wanted.empty() ? ok_status() : set_cpus(id, wanted);
  }

  std::vector<ContainerView> containers() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<ContainerView> out;
    for (const auto& [id, c] : containers_) out.push_back(c);
    return out;
  }

  Result<ContainerView> container(const std::string& id) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = containers_.find(id);
    if (it == containers_.end()) return make_error(Errc::kNotFound, "no container \"{}\"", id);
    return it->second;
  }

  RuntimeCounts counts() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return counts_;
  }

  void set_delay(std::chrono::milliseconds delay) override { delay_ = delay; }

 private:
  void dawdle() const {
    const auto is_over = [this, begun = Clock::now()] {
      const std::chrono::milliseconds delay = delay_;
      return !up_ || (delay.count() >= 0 && Clock::now() >= begun + delay);
    };
    while (!is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

  template <typename Request>
  void fill(const ContainerView& view, api::ContainerState state, Request& request) const {
    fill_pod(view.pod, *request.mutable_pod());
    fill_container(view, state, *request.mutable_container());
  }

  // Under node_. Dead plugins are only set aside: a trunk's end waits for its server thread, which may wait
  // for node_.
  void drop_dead() {
    const auto gone = std::stable_partition(plugins_.begin(), plugins_.end(),
                                            [](const Plugin& p) { return p.trunk->is_open(); });
    std::move(gone, plugins_.end(), std::back_inserter(dead_));
    plugins_.erase(gone, plugins_.end());
    const std::lock_guard<std::mutex> lock(mutex_);
    counts_.plugins = plugins_.size();
  }

  // Plugins that want the event, in order of index. Under node_.
  std::vector<Plugin> alive(api::Event event) {
    drop_dead();
    std::vector<Plugin> out;
    for (const Plugin& p : plugins_) {
      if (has_event(p.events, event)) out.push_back(p);
    }
    return out;
  }

  // A lost plugin counts as "no change"; only its refusal is an error.
  template <typename Request, typename Response>
  Status ask(const Plugin& plugin, const std::string& method, const Request& request, Response& response) {
    dawdle();
    Result<nri::Response> answer =
        plugin.trunk->call(method, request.SerializeAsString(), options_.request_timeout);
    if (!answer.ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      ++counts_.late_answers;
      return ok_status();
    }
    if (answer->code != 0) return make_error(Errc::kConflict, "{}", answer->text);
    if (!response.ParseFromString(answer->payload)) {
      return make_error(Errc::kCorrupt, "{}: the answer does not decode", method);
    }
    return ok_status();
  }

  Status ask_to_create(ContainerView& made) {
    Owners owners;
    Updates others;
    for (const Plugin& plugin : alive(api::CREATE_CONTAINER)) {
      api::CreateContainerRequest request;
      fill(made, api::CONTAINER_UNKNOWN, request);
      api::CreateContainerResponse response;
      if (Status s = ask(plugin, "CreateContainer", request, response); !s.ok()) return s;
      const std::string& cpus = response.adjust().linux().resources().cpu().cpus();
      if (!cpus.empty()) {
        if (Status s = owners.claim(made.id, plugin.name); !s.ok()) return s;
        made.cpus = cpus;
      }
      take_memory(response.adjust().linux().resources(), made);
      for (const api::ContainerUpdate& u : response.update()) {
        if (u.container_id() == made.id) {
          return make_error(Errc::kConflict, "plugin \"{}\" asked update of \"{}\" during creation",
                            plugin.name, made.id);
        }
        if (says_nothing(u.linux().resources())) continue;
        if (Status s = owners.claim(u.container_id(), plugin.name); !s.ok()) return s;
        *others.Add() = u;
      }
    }
    if (Result<CpuSet> set = CpuSet::parse(made.cpus); !set.ok()) return std::move(set).error();
    apply(others);
    return ok_status();
  }

  // containerd undoes a failed creation with a stop and a removal (spec 4.5).
  void undo_creation(const ContainerView& made) {
    for (const Plugin& plugin : alive(api::STOP_CONTAINER)) {
      api::StopContainerRequest request;
      fill(made, api::CONTAINER_UNKNOWN, request);
      api::StopContainerResponse response;
      if (ask(plugin, "StopContainer", request, response).ok()) apply(response.update());
    }
    tell_removed(made);
  }

  void tell_removed(const ContainerView& view) {
    for (const Plugin& plugin : alive(api::REMOVE_CONTAINER)) {
      api::Empty nothing;
      if (!options_.nri_version.empty()) {
        api::RemoveContainerRequest request;
        fill(view, api::CONTAINER_STOPPED, request);
        (void)ask(plugin, "RemoveContainer", request, nothing);  // errors of this hook are only logged
      } else {
        api::StateChangeEvent event;
        fill(view, api::CONTAINER_STOPPED, event);
        event.set_event(api::REMOVE_CONTAINER);
        (void)ask(plugin, "StateChange", event, nothing);
      }
    }
  }

  Status set_cpus(const std::string& id, const std::string& cpus) {
    Result<CpuSet> set = CpuSet::parse(cpus);
    if (!set.ok()) return std::move(set).error();
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = containers_.find(id);
    if (it == containers_.end()) return ok_status();  // unknown ids: no error, no effect (spec 5.5)
    if (options_.host != nullptr && it->second.running) {
      if (Status s = options_.host->set_cpus(id, cpus); !s.ok()) return s;
    }
    it->second.cpus = cpus;
    ++it->second.updates;
    return ok_status();
  }

  bool apply(const Updates& updates) {
    bool good = true;
    for (const api::ContainerUpdate& u : updates) {
      const std::string& cpus = u.linux().resources().cpu().cpus();
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (const auto it = containers_.find(u.container_id()); it != containers_.end())
          take_memory(u.linux().resources(), it->second);
      }
      if (cpus.empty() || set_cpus(u.container_id(), cpus).ok()) continue;
      good = false;
      const std::lock_guard<std::mutex> lock(mutex_);
      ++counts_.failed_updates;
    }
    return good;
  }

  // One connection after the other, as the real adaptation does.
  void accept_all() {
    while (up_) {
      UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd.valid() || !up_) continue;
      if (options_.on_connect) options_.on_connect(fd.get());
      dawdle();
      greet(std::move(fd));
    }
  }

  struct Registration {
    std::mutex mutex;
    std::condition_variable changed;
    std::string name;
  };

  std::shared_ptr<Trunk> take_greeting() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(greeting_, nullptr);
  }

  void greet(UniqueFd fd) {
    auto registration = std::make_shared<Registration>();
    auto trunk = std::make_shared<Trunk>(
        std::move(fd), [this, registration](const nri::Request& r) { return serve(r, *registration); });
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      greeting_ = trunk;
    }
    introduce(trunk, *registration);
    take_greeting();
    std::vector<Plugin> ended;  // destroyed after node_ is free again
    const std::lock_guard<std::mutex> node(node_);
    ended.swap(dead_);
  }

  void introduce(const std::shared_ptr<Trunk>& trunk, Registration& registration) {
    Plugin plugin;
    plugin.trunk = trunk;
    {
      std::unique_lock<std::mutex> lock(registration.mutex);
      const auto until = Clock::now() + kRegistrationTimeout;
      while (registration.name.empty() && trunk->is_open() && Clock::now() < until) {
        registration.changed.wait_for(lock, std::chrono::milliseconds(2));
      }
      plugin.name = registration.name;
    }
    if (plugin.name.empty()) return trunk->close();
    api::ConfigureRequest configure;
    configure.set_runtime_name(options_.name);
    configure.set_runtime_version(options_.version);
    configure.set_registration_timeout(std::chrono::milliseconds(kRegistrationTimeout).count());
    configure.set_request_timeout(options_.request_timeout.count());
    configure.set_nri_version(options_.nri_version);
    api::ConfigureResponse configured;
    Result<nri::Response> answer =
        trunk->call("Configure", configure.SerializeAsString(), options_.request_timeout);
    if (!answer.ok() || answer->code != 0 || !configured.ParseFromString(answer->payload))
      return trunk->close();
    plugin.events = configured.events();
    const std::int32_t valid = options_.nri_version.empty() ? 0x07ff : 0x3fff;
    if (plugin.events == 0 || (plugin.events & ~valid) != 0) return trunk->close();
    const std::lock_guard<std::mutex> node(node_);
    if (!synchronize(*trunk)) return trunk->close();
    plugins_.push_back(plugin);
    drop_dead();
    std::stable_sort(plugins_.begin(), plugins_.end(),
                     [](const Plugin& a, const Plugin& b) { return a.name < b.name; });
    const std::lock_guard<std::mutex> lock(mutex_);
    ++counts_.synchronizations;
  }

  bool synchronize(Trunk& trunk) {
    std::vector<ContainerView> all = containers();
    std::erase_if(all, [](const ContainerView& c) { return !c.running; });
    std::vector<PodInfo> pods;
    std::set<std::string> seen;
    for (const ContainerView& c : all) {
      if (seen.insert(c.pod.uid).second) pods.push_back(c.pod);
    }
    const auto until = Clock::now() + options_.request_timeout;  // all chunks share one time-out
    std::size_t chunk = options_.chunk_objects != 0 ? options_.chunk_objects : pods.size() + all.size() + 1;
    std::size_t pod = 0;
    std::size_t one = 0;
    for (;;) {
      api::SynchronizeRequest request;
      std::size_t left = chunk;
      std::size_t next_pod = pod;
      std::size_t next_one = one;
      for (; left > 0 && next_pod < pods.size(); --left) fill_pod(pods[next_pod++], *request.add_pods());
      for (; left > 0 && next_one < all.size(); --left) {
        fill_container(all[next_one++], api::CONTAINER_RUNNING, *request.add_containers());
      }
      const bool more = next_pod < pods.size() || next_one < all.size();
      request.set_more(more);
      const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
      Result<nri::Response> answer = trunk.call("Synchronize", request.SerializeAsString(), wait);
      if (!answer.ok() && answer.error().code == Errc::kInvalidInput && chunk > 8) {
        chunk = chunk / 2;  // too long for one message
        continue;
      }
      api::SynchronizeResponse response;
      if (!answer.ok() || answer->code != 0 || !response.ParseFromString(answer->payload)) return false;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++counts_.sync_messages;
      }
      if (more && (!response.more() || response.update_size() != 0)) return false;
      pod = next_pod;
      one = next_one;
      if (more) continue;
      apply(response.update());
      return true;
    }
  }

  nri::Response serve(const nri::Request& request, Registration& registration) {
    const auto refuse = [](nri::Code code, std::string text) {
      return nri::Response{static_cast<std::int32_t>(code), std::move(text), {}};
    };
    if (request.service != "nri.pkg.api.v1alpha1.Runtime") {
      return refuse(nri::Code::kUnimplemented, "service " + request.service);
    }
    if (request.method == "RegisterPlugin") {
      const std::string name = plugin_name(request.payload);
      if (name.empty()) return refuse(nri::Code::kUnknown, "invalid plugin");
      const std::lock_guard<std::mutex> lock(registration.mutex);
      registration.name = name;
      registration.changed.notify_all();
      return {};
    }
    if (request.method == "UpdateContainers") {
      api::UpdateContainersRequest r;
      if (!r.ParseFromString(request.payload)) return refuse(nri::Code::kInvalidArgument, "does not decode");
      const std::lock_guard<std::mutex> node(node_);
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        counts_.unsolicited += static_cast<std::size_t>(r.update_size());
      }
      if (!apply(r.update())) return refuse(nri::Code::kUnknown, "NRI update of some containers failed");
      return {};
    }
    return refuse(nri::Code::kUnimplemented, "method " + request.method);
  }

  const RuntimeOptions options_;
  UniqueFd listener_;
  std::atomic<bool> up_ = false;
  std::atomic<std::chrono::milliseconds> delay_{std::chrono::milliseconds(0)};
  std::thread accepting_;
  std::mutex node_;  // one hook at a time, node-wide
  std::vector<Plugin> plugins_;
  std::vector<Plugin> dead_;
  mutable std::mutex mutex_;  // the maps below, never held over a hook
  std::map<std::string, ContainerView> containers_;
  RuntimeCounts counts_;
  std::shared_ptr<Trunk> greeting_;  // the connection that is being taken in
};

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::start(RuntimeOptions options) {
  auto engine = std::make_unique<Engine>(std::move(options));
  if (Status s = engine->come_back(); !s.ok()) return std::move(s).error();
  return std::unique_ptr<Runtime>(std::move(engine));
}

}  // namespace dracpu::sandbox
