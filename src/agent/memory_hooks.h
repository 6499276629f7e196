// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The memory part of the runtime's hooks: its words to those of the accounts and back, and the steps that are
// done together with the CPUs' under one lock.
//
// Threads Pure, or under the lock of the books that the caller holds.

#ifndef DRACPU_AGENT_MEMORY_HOOKS_H_
#define DRACPU_AGENT_MEMORY_HOOKS_H_

#include <string>
#include <vector>

#include "agent/books.h"
#include "config/config.h"
#include "memory/adjust.h"
#include "nri/handler.h"
#include "observe/memory_metrics.h"

namespace dracpu::agent {

memory::Policy memory_policy(const config::Config& config);
memory::ContainerFacts memory_facts_of(const nri::ContainerInfo& container);
nri::MemorySettings to_wire(const memory::Adjustment& adjustment);
observe::Rejection rejection_of(memory::Refusal why);
// "mems 0-1, 2MB 96Mi, limit 768Mi", for the log.
std::string text_of(const memory::Adjustment& adjustment);

// Adds the change to the container's entry, or as a new one.
void merge(std::vector<nri::ContainerUpdate>& updates, const ContainerId& id,
           const memory::Adjustment& adjustment);

// Binds what place() allowed, once the whole answer stands. True if an owner is new: worth saving.
bool settle(MemoryBook& book, const nri::ContainerInfo& container, const std::vector<ClaimUid>& claims);
// Synchronize: owners and running containers anew.
memory::Synchronized synchronize(MemoryBook& book, const std::vector<nri::ContainerInfo>& containers,
                                 const memory::Policy& policy);
// UpdateContainer: what is to be put right in what is asked.
memory::Adjustment correction(const MemoryBook& book, const nri::ContainerInfo& container,
                              const memory::Policy& policy);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_MEMORY_HOOKS_H_
