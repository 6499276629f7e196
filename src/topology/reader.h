// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Builds a Topology from the kernel's description of one machine.
//
// Input    Files below `root`/sys (spec topology-sysfs). `root` is "/" or $HOST_ROOT on a node and an
// unpacked
//          capture in tests; no other path is opened, and there is no falling back to the real /sys.
// Output   Numbers as the kernel prints them; memory in bytes; distances in the kernel's scale. What the
// kernel
//          does not say stays empty: a CPU is not dropped because it lacks a cache, a node or a socket.
// Errors   kNotFound     no CPU can be found at all
//          kCorrupt      the list of online CPUs does not parse; the text names the file and the offset
//          kUnavailable  the list of online CPUs cannot be read
//          Everything else that is odd is a warning in the result, with what was assumed.
// Changes  The online list is read again at the end; if it moved, reading starts over, at most `rounds`
// times.
//          Then the CPUs that both lists name are kept.
// Cost     About a dozen small reads per CPU. For start-up and hotplug, not for a request handler.
// Threads  Keeps no state; call it from any thread.

#ifndef DRACPU_TOPOLOGY_READER_H_
#define DRACPU_TOPOLOGY_READER_H_

#include <filesystem>

#include "base/result.h"
#include "topology/overlay.h"
#include "topology/source.h"
#include "topology/topology.h"

namespace dracpu::topology {

struct ReadOptions {
  std::filesystem::path root = "/";
  OverlaySource::Table overlay{};  // files in front of those below `root`; empty: none
  int rounds = 4;
};

Result<Topology> read_topology(const ReadOptions& options = {});

// The same from any source of files.
Result<Topology> read_topology(Source& source, int rounds = 4);

// The online CPUs alone: one small file, for noticing hotplug.
Result<CpuSet> read_online(const ReadOptions& options);

}  // namespace dracpu::topology

#endif  // DRACPU_TOPOLOGY_READER_H_
