// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "upgrade/chart_schema.h"

#include <regex.h>

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace dracpu::upgrade {
namespace {

namespace json = boost::json;
using config::YamlNode;
using config::YamlType;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string_view text_of(const json::value& value) {
  return {value.get_string().data(), value.get_string().size()};
}

const json::object* object_at(const json::object& from, std::string_view key) {
  const json::value* found = from.if_contains(key);
  return found == nullptr ? nullptr : found->if_object();
}

// The word for a value's type in a JSON schema.
std::string_view type_name(const YamlNode& node) {
  switch (type_of(node)) {
    case YamlType::kNull:
      return "null";
    case YamlType::kBool:
    case YamlType::kOldBool:
      return "boolean";
    case YamlType::kInteger:
    case YamlType::kOctalLookAlike:
      return "integer";
    case YamlType::kFloat:
      return "number";
    case YamlType::kText:
      return "string";
    case YamlType::kSequence:
      return "array";
    case YamlType::kMapping:
      return "object";
  }
  return "";
}

bool has_type(const YamlNode& node, const json::object& schema) {
  const json::value* type = schema.if_contains("type");
  if (type == nullptr || !type->is_string()) return true;
  const std::string_view is = type_name(node);
  return is == text_of(*type) || (is == "integer" && text_of(*type) == "number");
}

// A pattern of the schema, which uses what POSIX's extended form has in common with a schema's.
class Pattern {
 public:
  explicit Pattern(const std::string& text)
      : is_good_(::regcomp(&compiled_, text.c_str(), REG_EXTENDED | REG_NOSUB) == 0) {}
  ~Pattern() {
    if (is_good_) ::regfree(&compiled_);
  }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  // One that cannot be read lets everything pass: Helm will judge.
  bool matches(const std::string& text) const {
    return !is_good_ || ::regexec(&compiled_, text.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  regex_t compiled_{};
  bool is_good_;
};

bool matches(const std::string& text, std::string_view pattern) {
  return Pattern(std::string(pattern)).matches(text);
}

// A schema's constant beside a value.
bool equals(const YamlNode& node, const json::value& wanted) {
  if (wanted.is_string()) return type_of(node) == YamlType::kText && node.text == text_of(wanted);
  return node.text == json::serialize(wanted);
}

// The properties that `if` names are there with their constants.
bool holds(const YamlNode& node, const json::object& condition) {
  const json::object* properties = object_at(condition, "properties");
  if (properties == nullptr) return true;
  return std::all_of(properties->begin(), properties->end(), [&node](const auto& property) {
    const YamlNode* value = node.find(property.key());
    const json::object* schema = property.value().if_object();
    const json::value* wanted = schema == nullptr ? nullptr : schema->if_contains("const");
    return value != nullptr && (wanted == nullptr || equals(*value, *wanted));
  });
}

class Walk {
 public:
  explicit Walk(std::vector<WrongValue>& out) : out_(out) {}

  void check(const YamlNode& node, const json::object& schema, const std::string& path, bool is_whole) {
    if (node.kind == YamlNode::Kind::kNull) return;
    for (const char* choice : {"anyOf", "oneOf"}) {
      if (const json::value* list = schema.if_contains(choice); list != nullptr && list->is_array())
        return check_choice(node, list->get_array(), path, is_whole);
    }
    if (!has_type(node, schema)) {
      return invalid(node, path,
                     fmt::format("must be of type {}, is {}", text_of(schema.at("type")), type_name(node)));
    }
    check_scalar(node, schema, path);
    if (const json::object* items = object_at(schema, "items");
        items != nullptr && node.kind == YamlNode::Kind::kSequence) {
      for (std::size_t i = 0; i < node.items.size(); ++i)
        check(node.items[i], *items, fmt::format("{}[{}]", path, i), is_whole);
    }
    if (node.kind == YamlNode::Kind::kMapping) check_keys(node, schema, path, is_whole);
    if (const json::object* condition = object_at(schema, "if")) {
      const json::object* branch = object_at(schema, holds(node, *condition) ? "then" : "else");
      if (branch != nullptr) check(node, *branch, path, is_whole);
    }
  }

 private:
  void invalid(const YamlNode& node, const std::string& path, std::string what) {
    out_.push_back({WrongValue::Kind::kInvalid, node.at, path, std::move(what)});
  }

  // The alternatives of the chart differ in their types.
  void check_choice(const YamlNode& node, const json::array& branches, const std::string& path,
                    bool is_whole) {
    std::string types;
    for (const json::value& branch : branches) {
      const json::object* schema = branch.if_object();
      if (schema == nullptr) continue;
      if (has_type(node, *schema)) return check(node, *schema, path, is_whole);
      types += fmt::format("{}{}", types.empty() ? "" : " or ", text_of(schema->at("type")));
    }
    invalid(node, path, fmt::format("must be of type {}, is {}", types, type_name(node)));
  }

  void check_scalar(const YamlNode& node, const json::object& schema, const std::string& path) {
    if (node.kind != YamlNode::Kind::kScalar) return;
    if (const json::value* list = schema.if_contains("enum"); list != nullptr && list->is_array()) {
      std::string words;
      for (const json::value& word : list->get_array()) {
        if (equals(node, word)) return;
        words += (words.empty() ? "" : ", ") + json::serialize(word);
      }
      return invalid(node, path, fmt::format("\"{}\" must be one of {}", node.text, words));
    }
    if (const json::value* wanted = schema.if_contains("const"); wanted != nullptr && !equals(node, *wanted))
      return invalid(node, path, fmt::format("\"{}\" must be {}", node.text, json::serialize(*wanted)));
    if (const json::value* pattern = schema.if_contains("pattern");
        pattern != nullptr && pattern->is_string() && !matches(node.text, text_of(*pattern))) {
      return invalid(node, path, fmt::format("\"{}\" must look like {}", node.text, text_of(*pattern)));
    }
    if (schema.contains("minLength") && node.text.empty()) return invalid(node, path, "must not be empty");
    const std::optional<std::int64_t> number = parse_number<std::int64_t>(node.text);
    const json::value* least = schema.if_contains("minimum");
    const json::value* most = schema.if_contains("maximum");
    if (number && least != nullptr && *number < least->to_number<std::int64_t>())
      return invalid(node, path, fmt::format("{} must be at least {}", node.text, json::serialize(*least)));
    if (number && most != nullptr && *number > most->to_number<std::int64_t>())
      return invalid(node, path, fmt::format("{} must be at most {}", node.text, json::serialize(*most)));
  }

  void check_keys(const YamlNode& node, const json::object& schema, const std::string& path, bool is_whole) {
    const json::object* properties = object_at(schema, "properties");
    const json::value* others = schema.if_contains("additionalProperties");
    const bool is_closed = others != nullptr && others->is_bool() && !others->get_bool();
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const std::string& key = node.keys[i].text;
      const std::string below = path.empty() ? key : fmt::format("{}.{}", path, key);
      const json::object* known = properties == nullptr ? nullptr : object_at(*properties, key);
      if (known != nullptr) {
        check(node.items[i], *known, below, is_whole || below == "driverConfig");
      } else if (others != nullptr && others->is_object()) {
        check(node.items[i], others->get_object(), below, is_whole);
      } else if (is_closed && !fits_pattern(schema, key)) {
        out_.push_back({WrongValue::Kind::kUnknown, node.keys[i].at, below, meant(properties, key)});
      }
    }
    const json::value* required = schema.if_contains("required");
    if (!is_whole || required == nullptr || !required->is_array()) return;
    for (const json::value& key : required->get_array()) {
      if (node.find(text_of(key)) == nullptr)
        invalid(node, path, fmt::format("lacks \"{}\", which has to be stated", text_of(key)));
    }
  }

  static bool fits_pattern(const json::object& schema, const std::string& key) {
    const json::object* patterns = object_at(schema, "patternProperties");
    if (patterns == nullptr) return false;
    return std::any_of(patterns->begin(), patterns->end(),
                       [&key](const auto& p) { return matches(key, p.key()); });
  }

  // A known key in other letters.
  static std::string meant(const json::object* properties, const std::string& key) {
    if (properties == nullptr) return {};
    for (const auto& [known, schema] : *properties) {
      if (lower(known) == lower(key)) return known;
    }
    return {};
  }

  std::vector<WrongValue>& out_;
};

}  // namespace

std::vector<WrongValue> check_against(const YamlNode& values, const json::object& schema) {
  std::vector<WrongValue> out;
  Walk(out).check(values, schema, "", false);
  std::stable_sort(out.begin(), out.end(),
                   [](const WrongValue& a, const WrongValue& b) { return a.at < b.at; });
  return out;
}

std::vector<WrongValue> check_against_chart(const YamlNode& values) {
  static const json::value schema = json::parse(chart_schema_text());
  return check_against(values, schema.get_object());
}

}  // namespace dracpu::upgrade
