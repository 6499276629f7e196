// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "topology/picture_frame.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "topology/picture_tree.h"

namespace dracpu::topology {
namespace {

constexpr int kLabelGap = 3;                // between label and what is inside
constexpr int kRowGap = 12;                 // at most
constexpr int kLabelRoom = 270;             // a label may make its frame this wide
constexpr std::size_t kThreadsPerRow = 16;  // of a core that is not one (missing ids)

// Up to `fit` columns for n frames: no empty places first, then the right proportions.
std::size_t square_columns(std::size_t n, std::size_t fit) {
  const double root = std::sqrt(static_cast<double>(n));
  std::size_t best = std::min(n, fit);
  double best_cost = 1e9;
  for (std::size_t c = 1; c <= std::min(n, fit); ++c) {
    const auto columns = static_cast<double>(c);
    if (columns < root || columns > 2 * root) continue;
    const std::size_t empty = (c - n % c) % c;
    const double cost = static_cast<double>(empty) + std::abs(columns - 1.4 * root) / (root + 1);
    if (cost < best_cost) {
      best = c;
      best_cost = cost;
    }
  }
  return best;
}

// How many stand in each row but the last.
std::size_t columns_of(const Frame& f, int room) {
  const std::size_t n = f.inside.size();
  int widest = 1;
  for (const Frame& inner : f.inside) widest = std::max(widest, inner.width);
  const auto fit = static_cast<std::size_t>(std::max(1, (room + f.gap) / (widest + f.gap)));
  switch (f.flow) {
    case Flow::kThreads:
      return n <= 2 ? 2 : std::min((n + 1) / 2, kThreadsPerRow);
    case Flow::kSquare:
      return square_columns(n, fit);
    case Flow::kRows: {
      const std::size_t rows = (n + fit - 1) / fit;
      return (n + rows - 1) / rows;
    }
    case Flow::kWords:
    case Flow::kFixed:
      break;
  }
  return n;
}

// Row by row; returns the lower edge. Frames of a row are made equally high.
int place_inside(Frame& f, int top, int room) {
  if (f.inside.empty()) return top;
  const std::size_t columns = columns_of(f, room);
  int x = f.padding;
  int y = top;
  std::size_t first = 0;  // of the row
  for (std::size_t i = 0; i < f.inside.size(); ++i) {
    Frame& inner = f.inside[i];
    const bool is_full = f.flow == Flow::kWords && x + inner.width > f.padding + room;
    if (i > first && (i - first == columns || is_full)) {
      x = f.padding;
      y += f.inside[first].height + std::min(f.gap, kRowGap);
      first = i;
    }
    inner.x = x;
    inner.y = y;
    x += inner.width + f.gap;
    const int height = std::max(inner.height, f.inside[first].height);
    for (std::size_t j = first; j <= i; ++j) f.inside[j].height = height;
  }
  return y + f.inside[first].height;
}

void wrap_label(Frame& f, int room) {
  const auto characters = static_cast<std::size_t>(room / (kAdvance * kFont));
  std::string_view rest = f.label;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    for (std::string& line : wrap(rest.substr(0, end), characters)) f.lines.push_back(std::move(line));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace

int text_width(std::size_t characters, int font) {
  return static_cast<int>(std::ceil(static_cast<double>(characters) * kAdvance * font));
}

void arrange(Frame& f, int widest) {
  if (f.flow == Flow::kFixed) return;
  const int room = widest - 2 * f.padding;
  for (Frame& inner : f.inside) arrange(inner, room);
  int content = f.width - 2 * f.padding;
  place_inside(f, 0, room);
  for (const Frame& inner : f.inside) content = std::max(content, inner.x + inner.width - f.padding);

  wrap_label(f, std::max(content, std::min(kLabelRoom, room)));
  f.label_x = f.padding;
  for (const std::string& line : f.lines) content = std::max(content, text_width(line.size(), kFont));

  for (Frame& band : f.bands) {
    arrange(band, std::max(content, std::min(kLabelRoom, room)));
    content = std::max(content, band.width);
  }

  int y = f.padding + static_cast<int>(f.lines.size()) * kLine;
  if (!f.lines.empty() && !f.inside.empty()) y += kLabelGap;
  y = place_inside(f, y, room);
  for (Frame& band : f.bands) {
    if (y > f.padding) y += std::clamp(f.gap, kGap, kRowGap);
    band.x = f.padding;
    band.y = y;
    band.width = content;
    y += band.height;
  }
  f.width = content + 2 * f.padding;
  f.height = y + f.padding;
}

}  // namespace dracpu::topology
