// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One YAML document as a tree in which every key and value knows its place, read strictly.
//
// Input   A text in memory. Refused: more than one document, a key twice in one mapping, keys that are not
//         plain texts, control characters, tags other than !!str, more than `max_nodes` values after aliases
//         are written out, or nesting deeper than kMaxDepth.
// Errors  kInvalidInput with line and column, both from 1.
// Threads Any; no state. The only file that sees yaml-cpp is yaml.cc.

#ifndef DRACPU_CONFIG_YAML_H_
#define DRACPU_CONFIG_YAML_H_

#include <compare>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dracpu::config {

inline constexpr std::size_t kMaxNodes = 2000;
inline constexpr std::size_t kMaxDepth = 32;

struct Position {
  int line = 1;
  int column = 1;
  friend auto operator<=>(const Position&, const Position&) = default;
};
std::string to_string(Position at);  // "line 3, column 5"

struct YamlKey {
  std::string text;
  Position at;
};

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMapping };
  Kind kind = Kind::kNull;
  Position at;
  std::string text;       // of a scalar
  bool is_plain = false;  // a scalar without quotes, whose type is told by its looks
  std::vector<YamlKey> keys;
  std::vector<YamlNode> items;  // of a sequence, or the values of `keys`

  // The value of a key, or nullptr.
  const YamlNode* find(std::string_view key) const;
};

// An empty text, or one with comments only, is a null node.
Result<YamlNode> parse_yaml(std::string_view text, std::size_t max_nodes = kMaxNodes);

// All documents of a text, empty ones left out. For manifests; a configuration is one document.
Result<std::vector<YamlNode>> parse_yaml_documents(std::string_view text, std::size_t max_nodes);

// What a value is to YAML 1.1, which most readers of our files follow: `0` is a number and no text, and 010
// is eight to some and ten to others.
enum class YamlType { kNull, kBool, kOldBool, kInteger, kOctalLookAlike, kFloat, kText, kSequence, kMapping };
YamlType type_of(const YamlNode& node);
std::string_view describe(YamlType type);  // "a number"

// A text in double quotes that any YAML reader takes back as it was (bytes that are no UTF-8 excepted).
std::string yaml_quoted(std::string_view text);

}  // namespace dracpu::config

#endif  // DRACPU_CONFIG_YAML_H_
