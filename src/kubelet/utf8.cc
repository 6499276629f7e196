// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kubelet/utf8.h"

#include <algorithm>

namespace dracpu::kubelet {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

// The length of the character that begins at `text`, 0 if there is none: a stray or missing continuation
// byte, an encoding longer than needed, a surrogate, or a value above U+10FFFF (RFC 3629 section 4).
std::size_t character_length(std::string_view text) {
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  unsigned low = 0x80;  // bounds of the second byte
  unsigned high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  }
  if (length == 0 || text.size() < length) return 0;
  if (byte_at(text, 1) < low || byte_at(text, 1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte_at(text, i) < 0x80 || byte_at(text, i) > 0xBF) return 0;
  }
  return length;
}

}  // namespace

std::string to_utf8(std::string_view text, std::size_t limit) {
  std::string out;
  std::size_t begin = 0;  // of the good run that is not in `out` yet
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = character_length(text.substr(at));
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
