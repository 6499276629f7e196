// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A container runtime as an NRI plugin sees it: pods, containers, hooks, and what is done with the answers.
//
// Follows spec nri-wire: registration and Configure (4.1 to 4.3), Synchronize in chunks under the message
// limit
//         (4.4), one hook at a time on the whole node, a late answer drops the plugin and the operation goes
//         on without it (4.9), two settings of one container in one event are a conflict (4.11), updates of
//         others are applied one by one and failures only counted (5.5, 5.6), unsolicited updates (4.13).
// Processes  With a ProcessHost every container is a real process with real CPUs; without one only the books
//         are kept, which is what machines that are not this one need.
// Threads Any. Calls wait for the hooks in front of them.

#ifndef DRACPU_SANDBOX_RUNTIME_H_
#define DRACPU_SANDBOX_RUNTIME_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace dracpu::sandbox {

// Runs containers as processes.
class ProcessHost {
 public:
  virtual ~ProcessHost() = default;
  // Starts a process that may run on `cpus` only; empty: wherever the host may run.
  virtual Result<pid_t> start(const std::string& id, const std::string& cpus,
                              const std::vector<std::string>& env) = 0;
  virtual Status set_cpus(const std::string& id, const std::string& cpus) = 0;
  virtual void stop(const std::string& id) = 0;
};

struct RuntimeOptions {
  std::filesystem::path socket{};
  std::filesystem::path cdi_dir{};
  std::string name = "containerd";
  std::string version = "v2.4.2";
  std::string nri_version = "v0.12.3";  // empty: NRI before 0.12, where unsolicited updates are unsafe
  std::chrono::milliseconds request_timeout{2000};
  std::size_t chunk_objects = 0;  // most objects in one Synchronize message; 0: as many as fit
  ProcessHost* host = nullptr;
  std::function<void(int socket)> on_connect{};  // for every connection, before anything is read from it
};

struct PodInfo {
  std::string uid;
  std::string ns;
  std::string name;
};

struct ContainerWish {
  PodInfo pod;
  std::string name;
  std::vector<std::string> env;      // from the pod's spec
  std::vector<std::string> devices;  // CDI ids from the kubelet
};

struct ContainerView {
  std::string id;
  PodInfo pod;
  std::string name;
  std::vector<std::string> env;  // CDI edits included
  std::string cpus;              // what the runtime was last told; empty: its default
  std::string mems{};            // the same
  std::map<std::string, std::uint64_t> hugepage_limits{};
  std::size_t updates = 0;  // how often it was told after the creation
  pid_t pid = 0;
  bool running = false;
};

struct RuntimeCounts {
  std::size_t synchronizations = 0;  // completed
  std::size_t sync_messages = 0;
  std::size_t plugins = 0;  // connected and synchronized; a lost one is noticed at the next event
  std::size_t late_answers = 0;
  std::size_t failed_updates = 0;  // updates of others that could not be carried out
  std::size_t unsolicited = 0;     // updates the plugin sent by itself
};

class Runtime {
 public:
  virtual ~Runtime() = default;  // stops

  static Result<std::unique_ptr<Runtime>> start(RuntimeOptions options);

  // Creates and starts. The error is what the pod's events would say.
  virtual Result<std::string> create(const ContainerWish& wish) = 0;
  // The process ends by itself, or is stopped; the container is still known.
  virtual Status stop(const std::string& id) = 0;
  virtual Status remove(const std::string& id) = 0;
  // The kubelet changes resources, naming `cpus` (empty: it says nothing about them).
  virtual Status update(const std::string& id, const std::string& cpus) = 0;

  virtual std::vector<ContainerView> containers() const = 0;
  virtual Result<ContainerView> container(const std::string& id) const = 0;
  virtual RuntimeCounts counts() const = 0;

  // Greets and asks plugins this much later; negative: neither, until it is set again.
  virtual void set_delay(std::chrono::milliseconds delay) = 0;
  // The runtime ends or crashes: the socket is gone, plugins are cut; containers live on.
  virtual void go_away() = 0;
  virtual Status come_back() = 0;
};

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_RUNTIME_H_
