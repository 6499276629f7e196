// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "topology/picture.h"
#include "topology/picture_tree.h"

namespace dracpu::topology {
namespace {

constexpr int kNarrowest = 40;
constexpr std::size_t kLongLabel = 24;  // a longer label of an L3 group puts the cores on the next line
constexpr std::size_t kWideCore = 24;   // a longer core does not widen the column of all
constexpr std::size_t kManyNodes = 16;  // more nodes get no table of distances
constexpr std::string_view kTableLabel = "  node";

class TextPicture {
 public:
  TextPicture(const Topology& t, const TextOptions& options)
      : t_(t), columns_(static_cast<std::size_t>(std::max(options.columns, kNarrowest))) {
    if (!options.title.empty()) add(0, plain(options.title), 0);
  }

  std::string draw() {
    for (const std::string& line : summary(t_)) add(0, line, 2);
    const Box machine = machine_tree(t_);
    measure(machine);
    if (!machine.cpus.empty()) {
      begin(has_cut_cores_
                ? "Each item is one core as the list of its CPUs; + marks one that goes on in another group."
                : "Each item is one core as the list of its CPUs.");
      draw_box(machine, 0);
    }
    draw_side_nodes();
    draw_roots();
    draw_distances();
    return std::move(out_);
  }

 private:
  void begin(std::string_view heading) {
    out_ += '\n';
    add(0, heading, 2);
  }

  // One paragraph; lines after the first are indented by `hang` more.
  void add(std::size_t indent, std::string_view text, std::size_t hang) {
    const std::vector<std::string> first = wrap(text, columns_ - indent);
    if (first.empty()) return;
    out_ += std::string(indent, ' ') + first[0] + '\n';
    if (first.size() == 1) return;
    std::string_view rest = text.substr(first[0].size());
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    for (const std::string& line : wrap(rest, columns_ - indent - hang)) {
      out_ += std::string(indent + hang, ' ') + line + '\n';
    }
  }

  std::string item(const CpuSet& core) const {
    const bool is_whole = t_.siblings(*core.first()) == core;
    return core.to_string() + (is_whole ? "" : "+");
  }

  static std::string label_of(const Box& box) {
    std::string out = box.name;
    if (!box.facts.empty()) out += ", " + box.facts;
    return out;
  }

  // Widths that all lines share, so that items stand below each other.
  void measure(const Box& box) {
    for (const CpuSet& core : box.cores) {
      const std::string text = item(core);
      has_cut_cores_ |= text.ends_with('+');
      if (text.size() <= kWideCore) item_width_ = std::max(item_width_, text.size());
    }
    if (box.level == Level::kL3) label_width_ = std::max(label_width_, label_of(box).size());
    for (const Box& inner : box.boxes) measure(inner);
  }

  void draw_box(const Box& box, std::size_t indent) {
    if (box.level == Level::kL3) {
      draw_l3(box, indent);
      return;
    }
    if (box.level != Level::kMachine) {
      std::string label = box.name;
      if (!label.starts_with("part ")) {  // a part tells its size already
        const std::string list = cpus_text(box.cpus);
        label += list.size() <= kLongList ? " (" + list + ")" : fmt::format(" ({} CPUs)", box.cpus.size());
      }
      if (!box.facts.empty()) label += ", " + box.facts;
      add(indent, label, 4);
      indent += 2;
    }
    for (const Box& inner : box.boxes) draw_box(inner, indent);
    if (box.boxes.empty()) draw_cores(box, indent);
  }

  void draw_l3(const Box& box, std::size_t indent) {
    std::string label = label_of(box) + ":";
    if (has_types() || label_width_ > kLongLabel) {
      add(indent, label, 2);
      draw_cores(box, indent + 2);
      return;
    }
    label.resize(label_width_ + 1, ' ');
    draw_items(box.cores, indent, label + " ");
  }

  bool has_types() const { return t_.core_type_source != CoreTypeSource::kNone; }

  // On a machine with several types of core a paragraph for each of them.
  void draw_cores(const Box& box, std::size_t indent) {
    if (!has_types()) {
      draw_items(box.cores, indent, "");
      return;
    }
    for (const CoreType type :
         {CoreType::kPerformance, CoreType::kMiddle, CoreType::kEfficiency, CoreType::kStandard}) {
      std::vector<CpuSet> cores;
      for (const CpuSet& core : box.cores) {
        if (t_.cpus.at(*core.first()).type == type) cores.push_back(core);
      }
      const std::string_view letter = letter_of(type);
      if (!cores.empty())
        draw_items(cores, indent, letter.empty() ? "other: " : fmt::format("{}-cores: ", letter));
    }
  }

  void draw_items(const std::vector<CpuSet>& cores, std::size_t indent, std::string_view label) {
    const std::size_t start = indent + label.size();
    const std::size_t room = columns_ - start;
    // As many items in each line as in the others.
    const std::size_t most = std::max<std::size_t>((room + 1) / (item_width_ + 1), 1);
    const std::size_t rows = (cores.size() + most - 1) / most;
    const std::size_t per_row = (cores.size() + rows - 1) / rows;
    std::vector<std::string> lines;
    std::size_t in_row = per_row;
    for (const CpuSet& core : cores) {
      for (const std::string& piece : wrap(item(core), room)) {
        if (in_row == per_row || lines.back().size() + 1 + piece.size() > room) {
          lines.emplace_back();
          in_row = 0;
        } else {
          lines.back() += ' ';
        }
        ++in_row;
        lines.back() += piece;
        if (piece.size() < item_width_) lines.back().append(item_width_ - piece.size(), ' ');
      }
    }
    out_.append(indent, ' ');
    out_ += label;
    for (std::string& line : lines) {
      while (line.ends_with(' ')) line.pop_back();
      if (&line != &lines[0]) out_.append(start, ' ');
      out_ += line + '\n';
    }
  }

  void draw_side_nodes() {
    const std::vector<SideNode> nodes = side_nodes(t_);
    if (nodes.empty()) return;
    begin("NUMA nodes without CPUs of their own");
    for (const SideNode& node : nodes) {
      add(2, node.facts + (node.note.empty() ? "" : ", " + node.note), 4);
    }
  }

  void draw_roots() {
    const std::vector<RootGroup> groups = root_groups(t_);
    if (groups.empty()) return;
    begin("PCIe roots by the node and CPUs that they are local to");
    for (const RootGroup& group : groups) add(2, group.place + ": " + group.names, 4);
  }

  void draw_distances() {
    if (t_.nodes.size() < 2) return;
    std::vector<int> numbers;  // to other nodes
    std::size_t width = 3;
    for (const auto& [from, node] : t_.nodes) {
      width = std::max(width, fmt::format("{}", from.get()).size());
      for (const auto& [to, distance] : node.distance) {
        width = std::max(width, fmt::format("{}", distance).size());
        if (to != from) numbers.push_back(distance);
      }
    }
    if (numbers.empty()) return;
    if (t_.nodes.size() > kManyNodes || kTableLabel.size() + t_.nodes.size() * (width + 1) > columns_) {
      const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
      begin(fmt::format("NUMA distances between different nodes: {} to {} (10 is local)", *least, *most));
      return;
    }
    begin("NUMA distances (10 is local)");
    out_ += kTableLabel;
    for (const auto& [to, node] : t_.nodes) out_ += fmt::format(" {:>{}}", to.get(), width);
    out_ += '\n';
    for (const auto& [from, node] : t_.nodes) {
      out_ += fmt::format("{:>{}}", from.get(), kTableLabel.size());
      for (const auto& [to, unused] : t_.nodes) {
        const auto it = node.distance.find(to);
        out_ +=
            fmt::format(" {:>{}}", it == node.distance.end() ? "-" : fmt::format("{}", it->second), width);
      }
      out_ += '\n';
    }
  }

  const Topology& t_;
  std::size_t columns_;
  std::size_t item_width_ = 1;
  std::size_t label_width_ = 0;
  bool has_cut_cores_ = false;
  std::string out_;
};

}  // namespace

std::string text_picture(const Topology& topology, const TextOptions& options) {
  return TextPicture(topology, options).draw();
}

}  // namespace dracpu::topology
