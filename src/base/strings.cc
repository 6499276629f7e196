// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/strings.h"

#include <sys/random.h>

#include <algorithm>
#include <random>

namespace dracpu {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (std::size_t at = 0;;) {
    const std::size_t next = text.find(separator, at);
    if (next == std::string_view::npos) {
      out.push_back(text.substr(at));
      return out;
    }
    out.push_back(text.substr(at, next - at));
    at = next + 1;
  }
}

bool is_dns_subdomain(std::string_view text) {
  constexpr std::size_t kLimit = 253;
  const auto is_label_character = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  if (text.empty() || text.size() > kLimit) return false;
  const std::vector<std::string_view> labels = split(text, '.');
  return std::all_of(labels.begin(), labels.end(), [&](std::string_view label) {
    return !label.empty() && std::all_of(label.begin(), label.end(), is_label_character) &&
           label.front() != '-' && label.back() != '-';
  });
}

void append_html(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
}

std::string random_hex(std::size_t bytes) {
  std::vector<unsigned char> raw(bytes);
  if (::getrandom(raw.data(), raw.size(), 0) != static_cast<ssize_t>(raw.size())) {
    std::random_device device;  // getrandom is missing or was interrupted
    for (unsigned char& b : raw) b = static_cast<unsigned char>(device());
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const unsigned char b : raw) {
    out += kDigits[b >> 4U];
    out += kDigits[b & 15U];
  }
  return out;
}

}  // namespace dracpu
