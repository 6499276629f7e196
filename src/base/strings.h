// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Small text helpers that the standard library lacks.

#ifndef DRACPU_BASE_STRINGS_H_
#define DRACPU_BASE_STRINGS_H_

#include <charconv>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dracpu {

// Without white space (space, tab, CR, LF, VT, FF) at both ends.
std::string_view trim(std::string_view text);

// Parts between separators; an empty text gives one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);
// Not of a temporary: the parts would dangle.
template <std::same_as<std::string> T>
void split(T&& text, char separator) = delete;

// The whole text as a decimal number of type T, or nothing (also on overflow or trailing bytes).
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A DNS subdomain in lower case, as names of nodes and drivers must be (RFC 1123; at most 253 bytes).
bool is_dns_subdomain(std::string_view text);

// For the text of an HTML or XML element, or a quoted attribute.
void append_html(std::string& out, std::string_view text);

// n random bytes as lower-case hex, from the kernel.
std::string random_hex(std::size_t bytes);

}  // namespace dracpu

#endif  // DRACPU_BASE_STRINGS_H_
