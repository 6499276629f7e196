// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/utf8.h"

#include <algorithm>

#include "base/escape.h"

namespace dracpu::kubelet {

std::string to_utf8(std::string_view text, std::size_t limit) {
  std::string out;
  std::size_t begin = 0;  // of the good run that is not in `out` yet
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text.substr(at));
    const std::size_t taken = std::max(length, std::size_t{1});
    if (taken > limit - at) break;  // bad bytes are replaced one by one, so the length so far is `at`
    if (length == 0) {
      out.append(text, begin, at - begin);
      out += '?';
      begin = at + 1;
    }
    at += taken;
  }
  out.append(text, begin, at - begin);
  return out;
}

}  // namespace dracpu::kubelet
