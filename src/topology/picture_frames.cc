// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What is in the SVG picture: a frame for each box, core and CPU, bands for the rest, the legend.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "topology/picture_frame.h"
#include "topology/picture_tree.h"

namespace dracpu::topology {
namespace {

// Pixels.
constexpr int kNarrowest = 600;  // so that heading and legend have room
constexpr int kCpuHeight = 20;
constexpr int kCpuWidth = 26;            // at least
constexpr int kCpuGap = 3;               // room for a thick border
constexpr std::size_t kLegendText = 60;  // characters in a line

const char* css_of(CoreType type) {
  switch (type) {
    case CoreType::kPerformance:
      return " cpu-pcore";
    case CoreType::kMiddle:
      return " cpu-mcore";
    case CoreType::kEfficiency:
      return " cpu-ecore";
    case CoreType::kStandard:
      break;
  }
  return "";
}

int radius_of(CoreType type) {
  if (type == CoreType::kEfficiency) return 9;
  return type == CoreType::kMiddle ? 6 : 2;
}

// The machine as frames, not yet arranged.
class FrameBuilder {
 public:
  FrameBuilder(const Topology& t, const SvgOptions& options)
      : t_(t), options_(options), roots_(root_groups(t)) {
    for (const CpuSet* const cpus : {&t.usable, &t.online, &t.offline}) {
      const std::string last = fmt::format("{}", cpus->last().value_or(CpuId(0)).get());
      cpu_width_ = std::max(cpu_width_, text_width(last.size(), kNumberFont) + 6);
    }
  }

  Frame machine() {
    Frame out = box_frame(machine_tree(t_));
    out.padding = 0;
    out.gap = 2 * kGap;
    out.width = kNarrowest;
    for (const std::string& line : summary(t_)) out.label += line + "\n";
    add_band(out, side_nodes_band());
    add_band(out, homeless_roots_band());
    add_band(out, cpus_band("Offline", "cpu-offline", offline()));
    add_band(out, cpus_band("Online but not readable", "cpu-unknown", unreadable()));
    add_band(out, legend());
    return out;
  }

 private:
  static void add_band(Frame& frame, Frame band) {
    if (!band.inside.empty() || !band.label.empty()) frame.bands.push_back(std::move(band));
  }

  Frame box_frame(const Box& box) {
    Frame out;
    if (box.level == Level::kSocket) out.css = "box socket";
    if (box.level == Level::kNode) out.css = "box node";
    if (box.level == Level::kL3) out.css = "box l3";
    if (box.level != Level::kMachine) {
      out.label = box.name + (box.facts.empty() ? "" : ", " + box.facts);
      out.tip = box.name + "\n" + cpus_text(box.cpus);
    }
    for (const Box& inner : box.boxes) {
      if (inner.level == Level::kL3) out.flow = Flow::kSquare;
      out.inside.push_back(box_frame(inner));
    }
    if (!box.cores.empty()) {
      out.flow = Flow::kSquare;
      out.gap = 4;
      for (const CpuSet& core : box.cores) out.inside.push_back(core_frame(core));
    }
    if (box.node) add_band(out, roots_band(*box.node));
    return out;
  }

  static Frame core_box() {
    Frame out;
    out.css = "box core";
    out.flow = Flow::kThreads;
    out.padding = kCpuGap;
    out.gap = kCpuGap;
    return out;
  }

  Frame core_frame(const CpuSet& cpus) {
    Frame out = core_box();
    cpus.for_each([&](CpuId id) {
      const Cpu& cpu = t_.cpus.at(id);
      Frame frame = cpu_frame(id, fmt::format("{}{}", css_of(cpu.type), cpu.isolated ? " cpu-isolated" : ""));
      frame.radius = radius_of(cpu.type);
      frame.tip += facts_of(cpu);
      if (!paint(frame)) unpainted_.insert(cpu.type);
      out.inside.push_back(std::move(frame));
    });
    return out;
  }

  Frame cpu_frame(CpuId id, std::string_view classes) const {
    Frame out = swatch(classes);
    out.css = fmt::format("cpu{}", classes);
    out.cpu = id;
    out.label = fmt::format("{}", id.get());
    out.tip = fmt::format("CPU {}", id.get());
    out.width = cpu_width_;
    return out;
  }

  static Frame swatch(std::string_view classes) {
    Frame out;
    out.css = fmt::format("swatch{}", classes);
    out.flow = Flow::kFixed;
    out.width = kCpuWidth;
    out.height = kCpuHeight;
    out.radius = 2;
    return out;
  }

  // False if the caller leaves the CPU as it is.
  bool paint(Frame& frame) const {
    const std::optional<CpuPaint> paint = options_.paint ? options_.paint(*frame.cpu) : std::nullopt;
    if (!paint) return false;
    if (!paint->css_class.empty()) frame.css += " " + plain(paint->css_class);
    if (!paint->title.empty()) frame.tip += "\n" + plain(paint->title);
    return true;
  }

  std::string facts_of(const Cpu& cpu) const {
    std::string out = fmt::format("\nCore of {}", cpus_text(t_.siblings(cpu.id)));
    if (cpu.core_label) out += fmt::format(" (core id {})", *cpu.core_label);
    if (cpu.type != CoreType::kStandard) out += fmt::format("\n{}-core", letter_of(cpu.type));
    if (cpu.capacity) out += fmt::format("\nCapacity {}", *cpu.capacity);
    if (cpu.l3) {
      const CacheGroup& group = t_.l3_groups[*cpu.l3];
      out += fmt::format("\nL3 {}", group.label);
      if (group.size_bytes) out += ", " + bytes_text(*group.size_bytes);
    }
    out += cpu.node ? fmt::format("\nNUMA node {}", cpu.node->get()) : "\nNo NUMA node";
    out += cpu.socket ? fmt::format("\nSocket {}", cpu.socket->get()) : "\nSocket unknown";
    if (cpu.die) out += fmt::format(", die {}", *cpu.die);
    if (cpu.isolated) out += "\nIsolated";
    if (cpu.nohz_full) out += "\nWithout tick (nohz_full)";
    return out;
  }

  Frame roots_band(NumaNodeId node) const {
    Frame out;
    out.css = "box band pcie";
    for (const RootGroup& group : roots_) {
      if (group.home != node) continue;
      out.label += "PCIe " + group.names + (group.is_whole_node ? "" : ", " + group.cpus) + "\n";
      out.tip += (out.tip.empty() ? "" : "\n") + group.place + ": " + group.names;
    }
    return out;
  }

  Frame homeless_roots_band() const {
    Frame out;
    out.css = "box band pcie";
    for (const RootGroup& group : roots_) {
      if (!group.home) out.label += fmt::format("PCIe {}: {}\n", group.place, group.names);
    }
    return out;
  }

  Frame side_nodes_band() const {
    Frame out;
    for (const SideNode& node : side_nodes(t_)) {
      Frame frame;
      frame.css = "box node";
      frame.label = node.facts + "\n" + node.note;
      add_band(frame, roots_band(node.id));
      out.inside.push_back(std::move(frame));
    }
    if (!out.inside.empty()) out.label = "NUMA nodes without CPUs of their own";
    out.padding = 0;
    return out;
  }

  Frame cpus_band(std::string_view name, std::string_view css, const CpuSet& cpus) const {
    Frame out;
    if (cpus.empty()) return out;
    out.css = "box band";
    out.label = fmt::format("{}: {} CPU{}", name, cpus.size(), cpus.size() == 1 ? "" : "s");
    out.gap = kCpuGap;
    cpus.for_each([&](CpuId id) {
      Frame frame = cpu_frame(id, fmt::format(" {}", css));
      frame.tip += fmt::format("\n{}", name);
      paint(frame);
      out.inside.push_back(std::move(frame));
    });
    return out;
  }

  Frame legend() const {
    std::set<CoreType> types;
    for (const auto& [id, cpu] : t_.cpus) types.insert(cpu.type);
    Frame out;
    out.css = "box legend";
    out.flow = Flow::kWords;
    out.gap = 3 * kGap;
    if (unpainted_.contains(CoreType::kStandard)) out.inside.push_back(entry(swatch(""), "CPU"));
    for (const CoreType type : {CoreType::kPerformance, CoreType::kMiddle, CoreType::kEfficiency}) {
      if (!types.contains(type)) continue;
      Frame sample = swatch(css_of(type));
      sample.radius = radius_of(type);
      out.inside.push_back(entry(std::move(sample), fmt::format("{}-core CPU", letter_of(type))));
    }
    Frame core = core_box();
    core.inside = {swatch(""), swatch("")};
    arrange(core, 10 * kCpuWidth);
    out.inside.push_back(entry(std::move(core), "core with its CPUs"));
    if (t_.isolated.intersects(t_.usable)) out.inside.push_back(entry(swatch(" cpu-isolated"), "isolated"));
    if (!offline().empty()) out.inside.push_back(entry(swatch(" cpu-offline"), "offline"));
    if (!unreadable().empty()) out.inside.push_back(entry(swatch(" cpu-unknown"), "online but not readable"));
    for (const LegendEntry& e : options_.legend) {
      out.inside.push_back(entry(swatch(" " + plain(e.css_class)), plain(e.text)));
    }
    return out;
  }

  static Frame entry(Frame sample, std::string_view text) {
    Frame out;
    out.flow = Flow::kFixed;
    out.label_x = sample.width + kGap;
    out.lines = wrap(text, kLegendText);
    std::size_t longest = 0;
    for (const std::string& line : out.lines) longest = std::max(longest, line.size());
    out.width = out.label_x + text_width(longest, kFont);
    // All samples stand in the middle of the first line, also the highest, that of a core.
    sample.y = (kCpuHeight + 2 * kCpuGap - sample.height) / 2;
    out.height = std::max(kCpuHeight, static_cast<int>(out.lines.size()) * kLine) + 2 * kCpuGap;
    out.inside.push_back(std::move(sample));
    return out;
  }

  CpuSet offline() const { return t_.offline - t_.online - t_.usable; }
  CpuSet unreadable() const { return t_.online - t_.usable; }

  const Topology& t_;
  const SvgOptions& options_;
  const std::vector<RootGroup> roots_;
  int cpu_width_ = kCpuWidth;
  std::set<CoreType> unpainted_;  // types of which the legend shows the plain look
};

}  // namespace

Frame machine_frame(const Topology& topology, const SvgOptions& options) {
  return FrameBuilder(topology, options).machine();
}

}  // namespace dracpu::topology
