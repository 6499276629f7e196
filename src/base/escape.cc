// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/escape.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace dracpu {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) { return static_cast<std::uint8_t>(text[i]); }

// C1 controls (U+0080 to U+009F) are two bytes in UTF-8 and move a terminal's cursor like C0 ones. The line
// separators U+2028 and U+2029 end a line for some readers.
bool is_hidden_control(std::string_view sequence) {
  if (sequence.size() == 2) return byte_at(sequence, 0) == 0xc2 && byte_at(sequence, 1) < 0xa0;
  return sequence == "\xe2\x80\xa8" || sequence == "\xe2\x80\xa9";
}

std::uint32_t code_point(std::string_view sequence) {
  if (sequence.size() == 2) return (byte_at(sequence, 0) & 0x1fU) << 6U | (byte_at(sequence, 1) & 0x3fU);
  return (byte_at(sequence, 0) & 0x0fU) << 12U | (byte_at(sequence, 1) & 0x3fU) << 6U |
         (byte_at(sequence, 2) & 0x3fU);
}

// Appends the two-character escape that both forms share; false if `c` has none.
bool append_short_escape(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return true;
    case '\\':
      out += "\\\\";
      return true;
    case '\n':
      out += "\\n";
      return true;
    case '\r':
      out += "\\r";
      return true;
    case '\t':
      out += "\\t";
      return true;
    default:
      return false;
  }
}

enum class Form { kQuoted, kJson };

void append_escaped(std::string& out, std::string_view text, Form form) {
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      if (form == Form::kQuoted) {
        fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte_at(text, 0));
      } else {
        out += "\\ufffd";
      }
      text.remove_prefix(1);
      continue;
    }
    const std::string_view sequence = text.substr(0, length);
    if (length == 1) {
      if (!append_short_escape(out, c)) {
        const std::uint8_t b = byte_at(text, 0);
        if (b >= 0x20 && b != 0x7f) {
          out += c;
        } else {
          fmt::format_to(std::back_inserter(out),
                         fmt::runtime(form == Form::kQuoted ? "\\x{:02x}" : "\\u{:04x}"), b);
        }
      }
    } else if (is_hidden_control(sequence)) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", code_point(sequence));
    } else {
      out += sequence;
    }
    text.remove_prefix(length);
  }
}

void append_with_quotes(std::string& out, std::string_view text, Form form) {
  out += '"';
  append_escaped(out, text, form);
  out += '"';
}

// At most `limit` bytes, whole characters only.
std::string_view front_of(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  std::size_t end = limit;
  while (end > 0 && limit - end < 3 && (byte_at(text, end) & 0xc0U) == 0x80U) --end;
  // No character lies across the cut: these are stray bytes.
  if (utf8_length(text.substr(end)) <= limit - end) end = limit;
  return text.substr(0, end);
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const std::uint8_t first = byte_at(text, 0);
  if (first < 0x80) return 1;
  // Second-byte limits keep out overlong forms, surrogates and numbers above U+10FFFF (RFC 3629, section 4).
  std::size_t length = 0;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xbf;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  if (text.size() < length || byte_at(text, 1) < low || byte_at(text, 1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte_at(text, i) & 0xc0U) != 0x80U) return 0;
  }
  return length;
}

void append_quoted(std::string& out, std::string_view text) { append_with_quotes(out, text, Form::kQuoted); }

void append_json_string(std::string& out, std::string_view text) {
  append_with_quotes(out, text, Form::kJson);
}

void append_key(std::string& out, std::string_view key) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
  if (!key.empty() && key.find_first_not_of(kPlain) == std::string_view::npos) {
    out += key;
  } else {
    append_quoted(out, key);
  }
}

std::string in_quotes(std::string_view text, std::size_t limit) {
  const std::string_view shown = front_of(text, limit);
  std::string out;
  append_quoted(out, shown);
  if (shown.size() < text.size()) fmt::format_to(std::back_inserter(out), "… ({} bytes)", text.size());
  return out;
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  std::string_view rest = front_of(text, limit);
  const std::size_t left_out = text.size() - rest.size();
  while (!rest.empty()) {
    const char c = rest.front();
    const std::size_t length = utf8_length(rest);
    const std::string_view piece = rest.substr(0, length == 0 ? 1 : length);
    if (c == '\n' || c == '"' || c == '\\') {
      out += c;
    } else {
      append_escaped(out, piece, Form::kQuoted);
    }
    rest.remove_prefix(piece.size());
  }
  if (left_out != 0) fmt::format_to(std::back_inserter(out), "… ({} bytes more)", left_out);
  return out;
}

}  // namespace dracpu
