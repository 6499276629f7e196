// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Cuts a byte stream into lines, however the reads fell.
//
// Output  Lines without the line feed (and without a carriage return before it); empty lines are left out.
//         A last line without a line feed is not handed out: the stream was cut.
// Errors  push() gives kCorrupt when a line grows above the limit; the splitter is then of no further use.
// Threads One at a time.

#ifndef DRACPU_KUBE_LINE_SPLITTER_H_
#define DRACPU_KUBE_LINE_SPLITTER_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dracpu::kube {

class LineSplitter {
 public:
  explicit LineSplitter(std::size_t limit) : limit_(limit) {}

  // Calls on_line(std::string_view) for each line that `piece` completes; stops early when it says false.
  template <typename OnLine>
  Status push(std::string_view piece, OnLine&& on_line) {
    for (std::size_t end = 0; (end = piece.find('\n')) != std::string_view::npos;) {
      std::string_view line = piece.substr(0, end);
      piece.remove_prefix(end + 1);
      std::string joined;
      if (!rest_.empty()) {
        joined = std::move(rest_);
        rest_.clear();
        joined += line;
        line = joined;
      }
      if (line.size() > limit_) return too_long();
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty() && !on_line(line)) return ok_status();
    }
    rest_ += piece;
    if (rest_.size() > limit_) return too_long();
    return ok_status();
  }

 private:
  Error too_long() const {
    return make_error(Errc::kCorrupt, "a watch line is longer than {} bytes", limit_);
  }

  std::size_t limit_;
  std::string rest_;
};

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_LINE_SPLITTER_H_
