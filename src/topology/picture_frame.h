// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The SVG picture as nested rectangles with labels. Internal to this folder.
//
// Units    Pixels. Text is monospace; kAdvance is a little more than such fonts need, so that labels keep
//          inside their frames whatever font the reader has.
// Threads  Values and functions of their arguments.

#ifndef DRACPU_TOPOLOGY_PICTURE_FRAME_H_
#define DRACPU_TOPOLOGY_PICTURE_FRAME_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "topology/picture.h"

namespace dracpu::topology {

inline constexpr double kAdvance = 0.62;  // width of a character, in parts of its font size
inline constexpr int kFont = 11;
inline constexpr int kNumberFont = 10;
inline constexpr int kLine = 15;  // from one line of a label to the next
inline constexpr int kGap = 6;

// How the frames inside a frame are set out.
enum class Flow {
  kFixed,    // sizes and places are known already
  kRows,     // as many in a row as fit, all rows alike
  kWords,    // one after the other, as words in a text
  kSquare,   // a few more columns than rows
  kThreads,  // of one core: one row, or two if there are more than two
};

struct Frame {
  std::string css;    // classes; empty: no rectangle
  std::string label;  // paragraphs, separated by newlines
  std::string tip;
  Flow flow = Flow::kRows;
  int padding = kGap;
  int gap = kGap;
  int radius = 4;
  std::optional<CpuId> cpu;   // then the label is its number
  std::vector<Frame> inside;  // below the label
  std::vector<Frame> bands;   // below those, as wide as this frame

  int width = 0;  // before arrange(): at least so wide
  int height = 0;
  int x = 0;  // in the frame around
  int y = 0;
  int label_x = kGap;
  std::vector<std::string> lines;  // of the label
};

// What the picture holds, not yet arranged.
Frame machine_frame(const Topology& topology, const SvgOptions& options);

int text_width(std::size_t characters, int font);

// Sets sizes and places from the inside out. Not wider than `widest`, unless one frame inside is.
void arrange(Frame& frame, int widest);

}  // namespace dracpu::topology

#endif  // DRACPU_TOPOLOGY_PICTURE_FRAME_H_
