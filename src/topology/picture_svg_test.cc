// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The SVG picture: well-formed, each CPU once and in the right boxes, nothing on top of anything else.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/strings.h"
#include "data/corpus.h"
#include "topology/picture.h"
#include "topology/test_machines.h"

namespace dracpu::topology {
namespace {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  // directly in it
  std::vector<Element> inside;

  bool is(std::string_view css) const {
    const auto it = attributes.find("class");
    if (it == attributes.end()) return false;
    const std::vector<std::string_view> classes = split(it->second, ' ');
    return std::find(classes.begin(), classes.end(), css) != classes.end();
  }
  double number(const std::string& attribute) const {
    const auto it = attributes.find(attribute);
    return it == attributes.end() ? 0 : std::stod(it->second);
  }
};

// As much of XML as the picture uses, and no more.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Element document() {
    Element root = element();
    if (rest_ != "\n") fail("something after the element");
    return root;
  }
  bool is_good() const { return error_.empty(); }
  const std::string& error() const { return error_; }

 private:
  void fail(std::string_view what) {
    if (error_.empty()) error_ = std::string(what) + " before: " + std::string(rest_.substr(0, 60));
    rest_ = {};
  }
  std::string_view take(std::size_t n) {
    const std::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(out.size());
    return out;
  }
  std::string_view until(std::string_view ends) { return take(rest_.find_first_of(ends)); }
  void expect(std::string_view text) {
    if (take(text.size()) != text) fail("no " + std::string(text));
  }
  std::string unescaped(std::string_view text) {
    std::string out;
    while (!text.empty()) {
      std::size_t length = 1;
      char c = text[0];
      for (const auto& [entity, plain] :
           {std::pair{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}}) {
        if (!text.starts_with(entity)) continue;
        length = std::string_view(entity).size();
        c = plain;
      }
      if (text[0] == '&' && length == 1) fail("bare &");
      if (c != '\n' && (c < ' ' || c > '~')) fail("not printable");
      out += c;
      text.remove_prefix(length);
    }
    return out;
  }

  Element element() {
    Element out;
    expect("<");
    out.name = until(" />");
    while (rest_.starts_with(' ')) {
      take(1);
      const std::string key(until("= "));
      expect("=\"");
      const bool is_new = out.attributes.emplace(key, unescaped(until("\"<"))).second;
      if (!is_new) fail("attribute twice");
      expect("\"");
    }
    if (rest_.starts_with("/>")) {
      take(2);
      return out;
    }
    expect(">");
    while (is_good()) {
      out.text += unescaped(until("<"));
      if (rest_.starts_with("</")) break;
      out.inside.push_back(element());
    }
    expect("</" + out.name + ">");
    return out;
  }

  std::string_view rest_;
  std::string error_;
};

struct Area {
  double left = 0, top = 0, right = 0, bottom = 0;
  std::string about;

  bool holds(const Area& a) const {
    return left <= a.left && top <= a.top && right >= a.right && bottom >= a.bottom;
  }
  bool overlaps(const Area& a) const {
    return left < a.right && a.left < right && top < a.bottom && a.top < bottom;
  }
};

Area area_of_rect(const Element& e) {
  const double x = e.number("x"), y = e.number("y");
  return {x, y, x + e.number("width"), y + e.number("height"), e.attributes.at("class")};
}

Area area_of_text(const Element& e) {
  const double font = e.number("font-size");
  const double width = 0.62 * font * static_cast<double>(e.text.size());
  const double left = e.number("x") - (e.is("number") ? width / 2 : 0);
  EXPECT_GE(font, 9);
  return {left, e.number("y") - 0.75 * font, left + width, e.number("y") + 0.25 * font, e.text};
}

// Walks through the boxes and keeps what it finds.
class Checker {
 public:
  explicit Checker(const Element& svg) {
    walk_box(svg, {0, 0, svg.number("width"), svg.number("height"), "svg"});
  }

  struct CpuRect {
    Area area;
    std::string css;
    std::string tip;
    std::string boxes;  // labels of those around it, each ended by a newline
  };
  std::map<std::uint32_t, CpuRect> cpus;
  std::vector<std::string> classes;  // of groups

 private:
  // `e` is the group of one box, or the whole picture.
  void walk_box(const Element& e, const Area& frame) {
    std::vector<Area> areas;
    const std::string outer_labels = labels_;
    collect(e, frame, areas);
    labels_ = outer_labels;
    for (std::size_t i = 0; i < areas.size(); ++i) {
      EXPECT_TRUE(frame.holds(areas[i])) << areas[i].about << " leaves " << frame.about;
      for (std::size_t j = 0; j < i; ++j) {
        EXPECT_FALSE(areas[i].overlaps(areas[j])) << areas[i].about << " is on " << areas[j].about;
      }
    }
  }

  // What lies directly in a box: labels, CPUs, samples and boxes. Groups without a frame are looked through.
  void collect(const Element& e, const Area& frame, std::vector<Area>& areas) {
    for (const Element& inner : e.inside) {
      if (inner.name == "text" && !inner.is("number")) {
        areas.push_back(area_of_text(inner));
        labels_ += inner.text + "\n";
      } else if (inner.is("number")) {
        EXPECT_TRUE(areas.back().holds(area_of_text(inner))) << inner.text << " leaves its rectangle";
      } else if (inner.name == "rect" && !inner.is("frame") && !inner.is("page")) {
        areas.push_back(area_of_rect(inner));
        if (inner.is("cpu")) keep_cpu(inner);
      } else if (inner.name == "g") {
        classes.push_back(inner.attributes.contains("class") ? inner.attributes.at("class") : "");
        if (classes.back().empty()) {
          collect(inner, frame, areas);
        } else {
          ASSERT_TRUE(!inner.inside.empty() && inner.inside[0].is("frame"));
          areas.push_back(area_of_rect(inner.inside[0]));
          areas.back().about = classes.back();
          walk_box(inner, area_of_rect(inner.inside[0]));
        }
      }
    }
  }

  void keep_cpu(const Element& e) {
    const auto id = parse_number<std::uint32_t>(e.attributes.at("data-cpu"));
    ASSERT_TRUE(id.has_value());
    ASSERT_EQ(e.inside.size(), 1U);
    const CpuRect rect{area_of_rect(e), e.attributes.at("class"), e.inside[0].text, labels_};
    EXPECT_TRUE(cpus.emplace(*id, rect).second) << "CPU " << *id << " twice";
  }

  std::string labels_;
};

// "NUMA node 3" is told, and not only "NUMA node 31".
bool tells(const std::string& labels, const std::string& name) {
  const std::size_t at = labels.find(name);
  return at != std::string::npos && (labels[at + name.size()] < '0' || labels[at + name.size()] > '9');
}

void expect_in_its_boxes(const Topology& t, const Cpu& cpu, const std::string& boxes) {
  const auto expect = [&](const std::string& name) {
    EXPECT_TRUE(tells(boxes, name)) << name << " in\n" << boxes;
  };
  if (cpu.socket) expect("Socket " + std::to_string(cpu.socket->get()));
  if (cpu.node) expect("NUMA node " + std::to_string(cpu.node->get()));
  if (cpu.l3) expect("L3 " + std::to_string(t.l3_groups[*cpu.l3].label));
}

void expect_good_svg(const NamedMachine& machine, const SvgOptions& options) {
  SCOPED_TRACE(machine.name);
  const Topology& t = machine.topology;
  const std::string svg = svg_picture(t, options);
  EXPECT_EQ(svg, svg_picture(t, options));
  Parser parser(svg);
  const Element root = parser.document();
  ASSERT_TRUE(parser.is_good()) << parser.error();
  EXPECT_EQ(root.name, "svg");
  EXPECT_EQ(root.attributes.at("role"), "img");
  EXPECT_EQ(root.attributes.at("viewBox"),
            "0 0 " + root.attributes.at("width") + " " + root.attributes.at("height"));
  EXPECT_LE(root.number("width"), 1600);
  ASSERT_FALSE(root.inside.empty());
  EXPECT_EQ(root.inside[0].name, "title");
  for (const char* const outside : {"<script", "href", "@import", "url(h", "src="}) {
    EXPECT_EQ(svg.find(outside), std::string::npos) << outside;
  }

  const Checker checker(root);
  EXPECT_NE(std::find(checker.classes.begin(), checker.classes.end(), "box legend"), checker.classes.end());
  const CpuSet wanted = t.usable | t.online | t.offline;
  EXPECT_EQ(checker.cpus.size(), wanted.size());
  wanted.for_each([&](CpuId id) {
    SCOPED_TRACE(id.get());
    const auto it = checker.cpus.find(id.get());
    ASSERT_NE(it, checker.cpus.end());
    const std::string_view css = it->second.css;
    EXPECT_EQ(css.find("cpu-offline") != std::string_view::npos, !t.online.contains(id));
    EXPECT_EQ(css.find("cpu-unknown") != std::string_view::npos, (t.online - t.usable).contains(id));
    EXPECT_TRUE(it->second.tip.starts_with("CPU " + std::to_string(id.get()) + "\n"));
    if (!t.usable.contains(id)) return;
    const Cpu& cpu = t.cpus.at(id);
    EXPECT_EQ(css.find("cpu-isolated") != std::string_view::npos, cpu.isolated);
    EXPECT_EQ(css.find("cpu-ecore") != std::string_view::npos, cpu.type == CoreType::kEfficiency);
    expect_in_its_boxes(t, cpu, it->second.boxes);
  });
}

TEST(SvgPicture, OfMadeMachines) {
  for (const NamedMachine& machine : made_machines()) expect_good_svg(machine, {.title = machine.name});
}

TEST(SvgPicture, OfCollectedMachines) {
  const std::vector<NamedMachine>& machines = collected_machines();
  if (machines.empty()) GTEST_SKIP() << "no machines in " << test::data_dir() << "; set DRACPU_TEST_DATA";
  for (const NamedMachine& machine : machines) expect_good_svg(machine, {.title = machine.name});
}

TEST(SvgPicture, TakesPaintAndTextsFromOutside) {
  const NamedMachine machine{"8 CPUs", made_machine(made_machines(), "8 CPUs")};
  const std::string odd = "\"a\" <b> &c; \xc3\xa9\x01";
  SvgOptions options;
  options.title = odd + std::string(300, 'x');
  options.paint = [&](CpuId id) -> std::optional<CpuPaint> {
    if (id == CpuId(5)) return std::nullopt;
    return CpuPaint{id == CpuId(3) ? odd : "cpu-tone-2", odd};
  };
  options.legend = {{"cpu-tone-2", "claim " + odd}, {odd, std::string(500, 'y')}};
  expect_good_svg(machine, options);

  const std::string svg = svg_picture(machine.topology, options);
  Parser parser(svg);
  const Element root = parser.document();
  EXPECT_TRUE(root.inside[0].text.starts_with("\"a\" <b> &c; ???xxx"));
  const Checker checker(root);
  EXPECT_EQ(checker.cpus.at(3).css, "cpu \"a\" <b> &c; ???");
  EXPECT_EQ(checker.cpus.at(4).css, "cpu cpu-tone-2");
  EXPECT_TRUE(checker.cpus.at(4).tip.ends_with("\n\"a\" <b> &c; ???"));
  EXPECT_EQ(checker.cpus.at(5).css, "cpu");
  EXPECT_EQ(checker.cpus.at(5).tip,
            "CPU 5\nCore of CPUs 1,5 (core id 1)\nL3 0, 32 MiB\nNUMA node 0\nSocket 0, die 0");
  EXPECT_NE(svg.find("class=\"swatch cpu-tone-2\""), std::string::npos);
}

TEST(SvgPicture, PutsPcieRootsUnderTheirNode) {
  const std::string svg = svg_picture(made_machine(made_machines(), "memory-only nodes"));
  for (const char* const part :
       {">PCIe pci0000:10</text>", ">PCIe pci0000:20</text>", ">PCIe pci0000:30, CPU 2</text>",
        ">PCIe pci10000:40</text>", ">PCIe no node told, all CPUs: pci0000:00</text>",
        ">PCIe node 999, CPU 3: pci10000:50</text>", ">NUMA node 5, 6 TiB,</text>"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace dracpu::topology
