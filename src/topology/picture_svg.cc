// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include <fmt/format.h>

#include <iterator>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "topology/picture.h"
#include "topology/picture_frame.h"
#include "topology/picture_tree.h"

namespace dracpu::topology {
namespace {

// Pixels.
constexpr int kMargin = 12;
constexpr int kWidest = 1576;  // with margins 1600
constexpr int kTitleFont = 15;
constexpr int kTitleLine = 20;

// Everything is below .machine, for this sheet applies to the whole page around. Colours differ in lightness
// as well as in hue; the tones are those of Okabe and Ito (https://jfly.uni-koeln.de/color/). What a CPU is
// shows in its shape and border too: round for weaker cores, dashed for isolated, hatched for offline.
constexpr std::string_view kStyle = R"(<style>
.machine{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.machine text{fill:#1b2430}
.machine .title{font-weight:bold}
.machine .number{text-anchor:middle;pointer-events:none}
.machine .page{fill:#fff}
.machine .frame{fill:none;stroke:#8a94a3}
.machine .socket>.frame{fill:#edf0f4;stroke:#5b6675;stroke-width:1.5}
.machine .node>.frame{fill:#dce4ee;stroke:#6f7d90}
.machine .l3>.frame{fill:#f8fafc;stroke:#9aa7b8}
.machine .core>.frame{fill:#c3cedb;stroke:none}
.machine .band>.frame{stroke-dasharray:2 3}
.machine .cpu,.machine .swatch{fill:#b4d4f4;stroke:#3f5f80}
.machine .cpu-mcore{fill:#d0e6ae;stroke:#56702c}
.machine .cpu-ecore{fill:#f8dc9c;stroke:#806020}
.machine .cpu-shared{fill:#e9edf2}
.machine .cpu-reserved{fill:#a7b0bb;stroke-dasharray:1 2}
.machine .cpu-isolated{stroke:#000;stroke-width:2.5;stroke-dasharray:5 3}
.machine .hatch{fill:#f1f3f6;stroke:#b9c1cc}
.machine .cpu-offline+.number{paint-order:stroke;stroke:#fff;stroke-width:4px}
@media (prefers-color-scheme:dark){
.machine text{fill:#e4e9f0}
.machine .page{fill:#11151a}
.machine .frame{stroke:#5d6978}
.machine .socket>.frame{fill:#1a2028;stroke:#7c8998}
.machine .node>.frame{fill:#232d39;stroke:#66758a}
.machine .l3>.frame{fill:#171c23;stroke:#566477}
.machine .core>.frame{fill:#3a4757}
.machine .cpu,.machine .swatch{fill:#275a8c;stroke:#9cc4ee}
.machine .cpu-mcore{fill:#486325;stroke:#b9d694}
.machine .cpu-ecore{fill:#7a5a14;stroke:#efcf86}
.machine .cpu-shared{fill:#46515f}
.machine .cpu-reserved{fill:#6d7681}
.machine .cpu-isolated{stroke:#fff}
.machine .hatch{fill:#1d232b;stroke:#4a5563}
.machine .cpu-offline+.number{stroke:#11151a}
}
.machine .cpu-tone-0{fill:#e69f00}
.machine .cpu-tone-1{fill:#56b4e9}
.machine .cpu-tone-2{fill:#009e73}
.machine .cpu-tone-3{fill:#f0e442}
.machine .cpu-tone-4{fill:#0072b2}
.machine .cpu-tone-5{fill:#d55e00}
.machine .cpu-tone-6{fill:#cc79a7}
.machine .cpu-tone-7{fill:#7f3b08}
.machine .cpu-offline{fill:url(#dracpu-hatch);stroke:#808b99;stroke-dasharray:2 2}
.machine .cpu-unknown{fill:none;stroke:#808b99}
.machine [class*="cpu-tone"]+.number{fill:#111}
.machine .cpu-tone-4+.number,.machine .cpu-tone-7+.number{fill:#fff}
</style>
<defs><pattern id="dracpu-hatch" width="6" height="6" patternUnits="userSpaceOnUse">
<path class="hatch" d="M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2"/></pattern></defs>
)";

std::string escaped(std::string_view text) {
  std::string out;
  append_html(out, text);
  return out;
}

// Frames as elements, each group with its own rectangle first.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  // `left` and `top` are those of the frame around.
  void write(const Frame& f, int left, int top) {
    left += f.x;
    top += f.y;
    if (f.cpu) {
      write_cpu(f, left, top);
      return;
    }
    if (f.lines.empty() && f.inside.empty() && f.bands.empty()) {
      rectangle(f.css, f, left, top, "");
      return;
    }
    append("<g{}>\n", f.css.empty() ? "" : fmt::format(" class=\"{}\"", f.css));
    if (!f.css.empty()) rectangle("frame", f, left, top, "");
    int baseline = top + f.padding + kFont;
    for (const std::string& line : f.lines) {
      text("label", left + f.label_x, baseline, kFont, line);
      baseline += kLine;
    }
    for (const Frame& inner : f.inside) write(inner, left, top);
    for (const Frame& band : f.bands) write(band, left, top);
    out_ += "</g>\n";
  }

  void text(std::string_view css, int x, int y, int font, std::string_view line) {
    append("<text class=\"{}\" x=\"{}\" y=\"{}\" font-size=\"{}\">{}</text>\n", css, x, y, font,
           escaped(line));
  }

 private:
  template <typename... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void rectangle(std::string_view css, const Frame& f, int x, int y, std::string_view more) {
    append("<rect class=\"{}\"{} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"", escaped(css), more,
           x, y, f.width, f.height, f.radius);
    if (f.tip.empty()) {
      out_ += "/>\n";
    } else {
      append("><title>{}</title></rect>\n", escaped(f.tip));
    }
  }

  void write_cpu(const Frame& f, int x, int y) {
    rectangle(f.css, f, x, y, fmt::format(" data-cpu=\"{}\"", f.cpu->get()));
    text("number", x + f.width / 2, y + (f.height + kNumberFont) / 2 - 1, kNumberFont, f.label);
  }

  std::string& out_;
};

}  // namespace

std::string svg_picture(const Topology& topology, const SvgOptions& options) {
  const std::string title = options.title.empty() ? "CPU topology" : plain(options.title);
  Frame machine = machine_frame(topology, options);
  arrange(machine, kWidest);
  const std::vector<std::string> title_lines =
      wrap(title, static_cast<std::size_t>(machine.width / (kAdvance * kTitleFont)));
  machine.x = kMargin;
  machine.y = kMargin + static_cast<int>(title_lines.size()) * kTitleLine;
  const int width = machine.width + 2 * kMargin;
  const int height = machine.y + machine.height + kMargin;

  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"machine\" role=\"img\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\">\n<title>{2}</title>\n{3}<rect class=\"page\" width=\"{0}\" "
      "height=\"{1}\"/>\n",
      width, height, escaped(title), kStyle);
  Writer writer(out);
  int baseline = kMargin + kTitleFont;
  for (const std::string& line : title_lines) {
    writer.text("title", kMargin, baseline, kTitleFont, line);
    baseline += kTitleLine;
  }
  writer.write(machine, 0, 0);
  out += "</svg>\n";
  return out;
}

}  // namespace dracpu::topology
