// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/yaml_form.h"

#include <boost/json.hpp>

#include "base/strings.h"

namespace dracpu::cli {
namespace {

namespace json = boost::json;
using config::YamlNode;
using config::YamlType;

std::string scalar(const json::value& value) {
  if (!value.is_string()) return json::serialize(value);
  const std::string text(value.get_string());
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-./_";
  const bool is_simple = !text.empty() && text.find_first_not_of(kPlain) == std::string::npos &&
                         std::string_view("-.").find(text.front()) == std::string_view::npos;
  YamlNode as_plain;
  as_plain.kind = YamlNode::Kind::kScalar;
  as_plain.is_plain = true;
  as_plain.text = text;
  return is_simple && type_of(as_plain) == YamlType::kText ? text : config::yaml_quoted(text);
}

bool is_empty(const json::value& value) {
  return (value.is_object() && value.get_object().empty()) || (value.is_array() && value.get_array().empty());
}
bool is_leaf(const json::value& value) {
  return (!value.is_object() && !value.is_array()) || is_empty(value);
}

void write_yaml(std::string& out, const json::value& value, std::size_t indent, bool is_in_item) {
  const std::string pad(indent, ' ');
  if (is_leaf(value)) {
    out += scalar(value) + "\n";
    return;
  }
  if (const json::array* list = value.if_array()) {
    for (const json::value& item : *list) {
      out += pad + "- ";
      write_yaml(out, item, indent + 2, true);
    }
    return;
  }
  bool is_first = true;
  for (const auto& [key, member] : value.get_object()) {
    if (!is_first || !is_in_item) out += pad;
    is_first = false;
    out += scalar(json::string(key)) + ":";
    if (is_leaf(member)) {
      out += " " + scalar(member) + "\n";
      continue;
    }
    out += "\n";
    write_yaml(out, member, member.is_array() ? indent : indent + 2, false);
  }
}

void write_json(std::string& out, const json::value& value, std::size_t indent) {
  if (is_leaf(value)) {
    out += json::serialize(value);
    return;
  }
  const std::string pad(indent + 2, ' ');
  const bool is_list = value.is_array();
  const char* separator = is_list ? "[\n" : "{\n";
  const auto begin_element = [&] {
    out += separator + pad;
    separator = ",\n";
  };
  if (is_list) {
    for (const json::value& item : value.get_array()) {
      begin_element();
      write_json(out, item, indent + 2);
    }
  } else {
    for (const auto& [key, member] : value.get_object()) {
      begin_element();
      out += json::serialize(json::string(key)) + ": ";
      write_json(out, member, indent + 2);
    }
  }
  out += "\n" + std::string(indent, ' ') + (is_list ? "]" : "}");
}

}  // namespace

json::value to_json(const YamlNode& node) {
  switch (type_of(node)) {
    case YamlType::kNull:
      return nullptr;
    case YamlType::kBool:
    case YamlType::kOldBool:
      return node.text == "y" || node.text == "Y" || node.text == "on" || node.text == "On" ||
             node.text == "ON" || node.text == "yes" || node.text == "Yes" || node.text == "YES" ||
             node.text == "true" || node.text == "True" || node.text == "TRUE";
    case YamlType::kInteger:
      if (const auto number = parse_number<std::int64_t>(node.text)) return *number;
      return json::string(node.text);
    case YamlType::kSequence: {
      json::array out;
      for (const YamlNode& item : node.items) out.push_back(to_json(item));
      return out;
    }
    case YamlType::kMapping: {
      json::object out;
      for (std::size_t i = 0; i < node.keys.size(); ++i) out[node.keys[i].text] = to_json(node.items[i]);
      return out;
    }
    case YamlType::kFloat:
    case YamlType::kOctalLookAlike:
    case YamlType::kText:
      break;
  }
  return json::string(node.text);
}

std::string to_yaml(const json::value& value) {
  std::string out;
  write_yaml(out, value, 0, false);
  return out;
}

std::string to_pretty_json(const json::value& value) {
  std::string out;
  write_json(out, value, 0);
  return out + "\n";
}

}  // namespace dracpu::cli
