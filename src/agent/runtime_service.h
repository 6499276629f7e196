// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The container runtime's hooks turned into steps of the ledger.
//
// A hook takes the lock for the step and nothing else: no file but those of the kernel's cgroups, where
// limits of pods are raised, and no network. A changed owner is saved later by the worker; until then the CDI
// file and the running container say the same. Threads As nri::Handler: one call after the other, on the
// plugin's worker thread.

#ifndef DRACPU_AGENT_RUNTIME_SERVICE_H_
#define DRACPU_AGENT_RUNTIME_SERVICE_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/books.h"
#include "agent/pod_cgroups.h"
#include "agent/pod_events.h"
#include "agent/worker.h"
#include "base/mutex.h"
#include "memory/adjust.h"
#include "nri/plugin.h"
#include "observe/health.h"
#include "observe/metrics.h"

namespace dracpu::agent {

// "v0.12.3", "0.12.1-rc1" → true if at least 0.12.1, the first without the deadlock on unsolicited updates
// (spec nri-wire 4.13). Unknown text is false.
bool takes_unsolicited_updates(std::string_view nri_version);

class RuntimeService final : public nri::Handler {
 public:
  struct Hooks {
    std::function<void()> synchronized;
    std::function<void(const std::string& reason)> disconnected;
    TellPod tell_pod{};
    std::function<void(std::string who, std::string what)> refused{};
    std::function<void(const observe::Advice& advice)> advise{};
  };
  using Push = std::function<Status(const std::vector<nri::ContainerUpdate>& updates,
                                    std::chrono::milliseconds timeout)>;

  RuntimeService(const Node& node, Books& books, Worker& worker, observe::Metrics& metrics, Hooks hooks);

  // How to send unsolicited updates; set once the plugin exists, which may be connected by then.
  void set_push(Push push);

  void on_configure(const nri::RuntimeInfo& runtime) override;
  Result<std::vector<nri::ContainerUpdate>> on_synchronize(std::vector<nri::ContainerInfo> containers,
                                                           Deadline deadline) override;
  void on_synchronized() override;
  Result<nri::CreateAnswer> on_create(const nri::ContainerInfo& container, Deadline deadline) override;
  Result<std::vector<nri::ContainerUpdate>> on_update(const nri::ContainerInfo& container,
                                                      Deadline deadline) override;
  Result<std::vector<nri::ContainerUpdate>> on_stop(const nri::ContainerInfo& container,
                                                    Deadline deadline) override;
  void on_remove(const nri::ContainerInfo& container) override;
  void on_not_applied(const std::optional<ContainerId>& created,
                      const std::vector<ContainerId>& updated) override;
  void on_disconnect(const Error& reason) override;

  // Connected, synchronized, and no pushed update in doubt: prepare is safe.
  Status may_prepare() const;
  // "containerd v2.1.4, NRI v0.12.0"; empty while it is not connected.
  std::string runtime() const;
  // The pool grew: widen the running shared containers soon (RULINGS 15).
  void pool_grew();

 private:
  struct Created {
    ledger::Placement cpus;
    memory::Placement memory;
    bool new_owner = false;
  };
  Result<Created> place(const nri::ContainerInfo& container);
  Status make_room_in_pod(const nri::ContainerInfo& container);
  void synchronize_memory(const std::string& op, const std::vector<nri::ContainerInfo>& containers,
                          std::vector<nri::ContainerUpdate>& updates);
  void note_margin(std::string_view hook, Deadline deadline);
  void refused(const nri::ContainerInfo& container, std::string_view reason, const std::string& text);
  void repinned(const std::string& op, const nri::ContainerInfo& container);
  void advise(const std::optional<observe::Advice>& advice);
  void grow();
  bool can_push() const;

  const Node& node_;
  Books& books_;
  Worker& worker_;
  observe::Metrics& metrics_;
  Hooks hooks_;
  const bool serves_memory_;
  const memory::Policy policy_;
  std::optional<Result<PodCgroups>> pod_cgroups_;  // only where limits of pods are raised
  std::atomic<bool> synchronized_{false};
  std::atomic<bool> push_is_safe_{false};
  std::atomic<bool> in_doubt_{false};
  std::atomic<bool> growth_planned_{false};
  std::chrono::milliseconds request_timeout_{0};  // hooks only
  mutable Mutex mutex_;
  Push push_ DRACPU_GUARDED_BY(mutex_);
  std::string lost_ DRACPU_GUARDED_BY(mutex_) = "not connected yet";
  std::string runtime_ DRACPU_GUARDED_BY(mutex_);
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_RUNTIME_SERVICE_H_
