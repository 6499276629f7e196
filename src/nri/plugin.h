// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The NRI plugin: connects to the runtime, registers, serves the hooks, reconnects for ever.
//
// Source  spec nri-wire. Subscribes with an explicit mask of bits 0-10 only (create, update, stop, remove).
// Errors  Nothing after start() is fatal: every lost connection is reported to the handler and dialled again
//         with capped back-off (0.1 s doubling to 5 s).
// Threads start() and stop() from the owner's thread; update_containers() from any thread but the handler's
// own.

#ifndef DRACPU_NRI_PLUGIN_H_
#define DRACPU_NRI_PLUGIN_H_

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "nri/handler.h"

namespace dracpu::nri {

struct PluginOptions {
  std::filesystem::path socket = "/var/run/nri/nri.sock";
  std::string name = "dra.cpu";
  std::string index = "00";
  std::chrono::milliseconds first_retry{100};
  std::chrono::milliseconds max_retry{5000};
  std::chrono::milliseconds register_timeout{60000};  // generous: the runtime may be busy (spec 1.2)
  std::chrono::milliseconds configure_timeout{5000};  // from "registered" to Configure (spec 4.2)
  // On the connector's thread: the socket cannot be dialled, told once per reason.
  std::function<void(const Error& why)> unreachable{};
};

class Plugin {
 public:
  virtual ~Plugin() = default;  // stops

  // If NRI_PLUGIN_SOCKET is set in the environment, uses that descriptor for the first connection.
  static std::unique_ptr<Plugin> start(PluginOptions options, Handler& handler);

  // Finishes the hook in progress (at most `grace`), closes, joins its threads. No handler call afterwards.
  virtual void stop(std::chrono::milliseconds grace = std::chrono::milliseconds(1500)) = 0;

  // Unsolicited updates (spec 4.13): only where the runtime's NRI is known to be >= 0.12.1. Waits until no
  // hook is open and then for the answer; lists over 4 MiB go in several calls. kConflict when the runtime
  // answered that some failed: it is done with them. kUnavailable when not connected and synchronized, or
  // not answered in time: it may still carry them out; kInternal from a handler call, where the
  // runtime would wait for us while we wait for it, and for an update without CPUs.
  virtual Status update_containers(const std::vector<ContainerUpdate>& updates,
                                   std::chrono::milliseconds timeout) = 0;

  // Connections made so far that reached Synchronize; for the metric.
  virtual unsigned long connections() const = 0;
};

}  // namespace dracpu::nri

#endif  // DRACPU_NRI_PLUGIN_H_
