// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Settings of the kubelet and the container runtime that weaken what this driver promises, found from what
// those programs do, and what to write in their place. docs/user/runtime-settings.md has the same lines.
//
// Source  spec nri-wire 1.1 (time limits), 3 (default validator), 4 (CPU Manager); driver-behaviours 1
// Output  One piece of advice per setting, with a fixed name; nothing where the setting does no harm.
// Threads Pure.

#ifndef DRACPU_AGENT_RUNTIME_SETTINGS_H_
#define DRACPU_AGENT_RUNTIME_SETTINGS_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "observe/health.h"

namespace dracpu::agent {

// The runtime's limit for one answer of a plugin: a late one closes the connection, and the container starts
// as if there were no driver.
std::optional<observe::Advice> advice_on_timeout(std::chrono::milliseconds limit);
// The time that was left when a hook was answered.
std::optional<observe::Advice> advice_on_margin(std::string_view hook, double seconds_left,
                                                std::chrono::milliseconds limit);
// Containers with claims that ran on other CPUs when the runtime listed them: they were started while no
// driver was connected, and nothing made the runtime wait.
std::optional<observe::Advice> advice_on_unpinned(std::size_t containers);
// What the kubelet asked for a new container.
observe::Advice advice_on_cpu_manager(std::string_view cpus);
observe::Advice advice_on_memory_manager(std::string_view nodes);
// Why there is no connection, with what to do if the runtime has NRI off.
std::string advice_on_no_socket(const Error& error);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_RUNTIME_SETTINGS_H_
