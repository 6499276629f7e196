// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include <algorithm>

#include "base/strings.h"
#include "config/parts.h"

namespace dracpu::config {
namespace {

// Levenshtein, for words of a few letters.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

// A known key that `key` was probably meant to be; empty if none is near.
std::string_view nearest(std::string_view key, std::span<const std::string_view> known) {
  constexpr std::size_t kLongestKey = 64;
  if (key.size() > kLongestKey) return {};
  std::string_view best;
  std::size_t least = 3;
  for (const std::string_view candidate : known) {
    const std::size_t d = distance(lower(key), lower(candidate));
    if (d < least && d < candidate.size() / 2) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

// "0,1" of a list with such items.
std::string joined(const YamlNode& list) {
  std::string out;
  for (const YamlNode& item : list.items) out += (out.empty() ? "" : ",") + item.text;
  return out;
}

}  // namespace

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string one_of(std::span<const std::string_view> words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i != 0) out += i + 1 == words.size() ? " or " : ", ";
    out += words[i];
  }
  return out;
}

Error Problems::to_error() const {
  std::vector<std::pair<Position, std::string>> sorted = all_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text = fmt::format("{} \"{}\": ", kind_, file_);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    text += fmt::format("{}{}: {}", i == 0 ? "" : "; ", to_string(sorted[i].first), sorted[i].second);
  }
  return Error{Errc::kInvalidInput, std::move(text)};
}

const YamlNode* Section::find(std::string_view key) {
  known_.push_back(key);
  return node_.find(key);
}

const YamlNode* Section::value(std::string_view key, YamlType wanted, std::string_view wanted_text) {
  const YamlNode* node = find(key);
  if (node == nullptr) return nullptr;
  const YamlType type = type_of(*node);
  if (type == wanted) return node;
  if (rules_ == Rules::kFlat) {
    if (type == YamlType::kNull) return nullptr;
    if (wanted == YamlType::kBool && type == YamlType::kOldBool) {
      const bool yes = node->text[0] == 'y' || node->text[0] == 'Y' || lower(node->text) == "on";
      warnings_.push_back(
          {"Boolean written in an old manner", name(key),
           fmt::format("{}: write {} instead of {}", problems_.place(node->at), yes, node->text)});
      return node;
    }
  }
  const bool is_scalar = node->kind == YamlNode::Kind::kScalar;
  const bool is_old_word = type == YamlType::kOldBool && wanted == YamlType::kBool;
  std::string text = fmt::format("{} must be {}, not {}", name(key), wanted_text,
                                 is_old_word ? in_quotes(node->text) : std::string(describe(type)));
  if (type == YamlType::kNull) {
    text += "; give it a value or take the key out";
  } else if (wanted == YamlType::kText && is_scalar) {
    text += fmt::format("; put it in quotes: {}", in_quotes(node->text));
  } else if (wanted == YamlType::kText && type == YamlType::kSequence) {
    text += fmt::format("; write one text: {}", in_quotes(joined(*node)));
  } else if (is_scalar && !is_old_word) {
    text += fmt::format(" ({})", in_quotes(node->text));
  }
  problems_.add(node->at, std::move(text));
  return nullptr;
}

bool Section::text(std::string_view key, std::string& out) {
  const YamlNode* node = value(key, YamlType::kText, "a text");
  if (node == nullptr) return false;
  out = node->text;
  return true;
}

bool Section::text(std::string_view key, Stated& out) {
  const YamlNode* node = value(key, YamlType::kText, "a text");
  if (node == nullptr) return false;
  out = {node->text, name(key), problems_.place(node->at)};
  return true;
}

bool Section::boolean(std::string_view key, bool& out) {
  const YamlNode* node = value(key, YamlType::kBool, "true or false");
  if (node == nullptr) return false;
  const std::string word = lower(node->text);
  out = word == "true" || word == "y" || word == "yes" || word == "on";
  return true;
}

bool Section::integer(std::string_view key, int low, int high, int& out) {
  const YamlNode* node = value(key, YamlType::kInteger, "a whole number");
  if (node == nullptr) return false;
  const std::optional<int> number = parse_number<int>(node->text);
  if (!number || *number < low || *number > high) {
    problems_.add(node->at, fmt::format("{} {} must be a whole number from {} to {}", name(key),
                                        in_quotes(node->text), low, high));
    return false;
  }
  out = *number;
  return true;
}

bool Section::word(std::string_view key, std::initializer_list<std::string_view> words) {
  std::string got;
  if (!text(key, got)) return false;
  if (std::find(words.begin(), words.end(), got) != words.end()) return true;
  refuse_choice(key, got, std::span(words.begin(), words.size()));
  return false;
}

const YamlNode* Section::section(std::string_view key) { return value(key, YamlType::kMapping, "a mapping"); }

void Section::refuse_choice(std::string_view key, std::string_view word,
                            std::span<const std::string_view> names) {
  problems_.add(node_.find(key)->at,
                fmt::format("{} {} is not known; use {}", name(key), in_quotes(word), one_of(names)));
}

void Section::finish() {
  for (const YamlKey& key : node_.keys) {
    if (std::find(known_.begin(), known_.end(), key.text) != known_.end()) continue;
    const std::string_view near = nearest(key.text, known_);
    if (near.empty()) {
      problems_.add(key.at, fmt::format("key {} is not known; take it out", in_quotes(name(key.text))));
    } else {
      problems_.add(key.at, fmt::format("key {} is not known; did you mean \"{}\"?",
                                        in_quotes(name(key.text)), name(near)));
    }
  }
}

}  // namespace dracpu::config
