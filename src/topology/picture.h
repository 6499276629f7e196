// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The picture of a machine: for a terminal as text, for a page as SVG.
//
// Input    A Topology as the reader makes it, however odd the machine. Sockets, NUMA nodes, L3 groups and
//          cores become nested boxes. Where nodes do not lie inside sockets but sockets inside nodes, nodes
//          are the outer boxes. What does not nest is cut: each piece says "part of" and how much of it is
//          there. Levels of which nothing is known are left out.
// Output   Equal for equal input. Each usable CPU is drawn once, in the node that Cpu::node names.
//          Text: plain ASCII lines, ended by a newline each, no wider than `columns` (40 at least).
//          SVG: one element, without XML declaration, scripts, links or outside files; it may be saved as a
//          file or set into a page. Light and dark follow the reader's settings. At most about 1600 pixels
//          wide.
// Texts    From options and from the machine come out as printable ASCII; every other byte becomes "?".
// Errors   None.
// Cost     SVG: about 400 bytes per CPU. Not for a request handler under a lock.
// Threads  Keep no state; call them from any thread. `paint` is called on the caller's thread.

#ifndef DRACPU_TOPOLOGY_PICTURE_H_
#define DRACPU_TOPOLOGY_PICTURE_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "topology/topology.h"

namespace dracpu::topology {

struct TextOptions {
  std::string title = {};  // first line; empty: none
  int columns = 100;
};

std::string text_picture(const Topology& topology, const TextOptions& options = {});

// What a caller adds to one CPU. The classes that the picture's own style knows:
//   cpu-shared                    in the pool of everybody
//   cpu-reserved                  kept for the system
//   cpu-tone-0 … cpu-tone-7       colours that colour-blind people can tell apart, for claims and the like
// Others are for the style sheet of the page around it. The shape and border of a CPU (efficiency core,
// isolated) come from the topology and stay; an offline CPU stays hatched.
struct CpuPaint {
  std::string css_class;
  std::string title;  // another line of the CPU's tooltip; empty: none
};

struct LegendEntry {
  std::string css_class;
  std::string text;
};

struct SvgOptions {
  std::string title = {};  // empty: "CPU topology"
  // Asked for each CPU, offline ones too. None, or nothing returned: the CPU looks as the topology says.
  std::function<std::optional<CpuPaint>(CpuId)> paint = {};
  std::vector<LegendEntry> legend = {};  // after the picture's own entries
};

// Every CPU is a <rect> of class "cpu" with its number in "data-cpu"; offline ones have a box of their own.
std::string svg_picture(const Topology& topology, const SvgOptions& options = {});

}  // namespace dracpu::topology

#endif  // DRACPU_TOPOLOGY_PICTURE_H_
