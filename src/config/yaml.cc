// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "config/yaml.h"

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <map>
#include <sstream>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "base/escape.h"
#include "base/strings.h"

namespace dracpu::config {
namespace {

Position position_of(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

std::size_t count_nodes(const YamlNode& node) {
  std::size_t n = 1;
  for (const YamlNode& item : node.items) n += count_nodes(item);
  return n;
}

std::size_t depth_of(const YamlNode& node) {
  std::size_t depth = 0;
  for (const YamlNode& item : node.items) depth = std::max(depth, depth_of(item));
  return depth + 1;
}

// Builds the tree from the parser's events. A refusal leaves it as the parser's own exception, which carries
// the place; both are caught in parse_yaml.
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(std::size_t max_nodes) : max_nodes_(max_nodes) {}
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(leaf(mark, YamlNode::Kind::kNull), mark, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto it = anchors_.find(anchor);
    if (it == anchors_.end()) throw YAML::ParserException(mark, "an alias to something that encloses it");
    nodes_ += count_nodes(it->second);
    if (nodes_ > max_nodes_) throw YAML::ParserException(mark, "aliases blow the file up beyond all reason");
    if (frames_.size() + depth_of(it->second) > kMaxDepth) {
      throw YAML::ParserException(mark, "aliases nest too deeply");
    }
    YamlNode copy = it->second;
    copy.at = position_of(mark);
    add(std::move(copy), mark, YAML::NullAnchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = leaf(mark, YamlNode::Kind::kScalar);
    node.is_plain = tag == "?";
    if (!node.is_plain && tag != "!" && tag != "tag:yaml.org,2002:str") refuse_tag(mark, tag);
    node.text = value;
    add(std::move(node), mark, anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kMapping);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    YamlNode node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    YAML::Mark mark;
  };

  [[noreturn]] static void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    throw YAML::ParserException(mark, "the tag " + in_quotes(tag) + " is not taken");
  }

  YamlNode leaf(const YAML::Mark& mark, YamlNode::Kind kind) {
    if (++nodes_ > max_nodes_) throw YAML::ParserException(mark, "more values than such a file can have");
    YamlNode node;
    node.kind = kind;
    node.at = position_of(mark);
    return node;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (!tag.empty() && tag != "?" && tag != "!") refuse_tag(mark, tag);
    if (frames_.size() >= kMaxDepth) throw YAML::ParserException(mark, "nested too deeply");
    frames_.push_back({leaf(mark, kind), anchor, mark});
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    add(std::move(frame.node), frame.mark, frame.anchor);
  }

  void add(YamlNode node, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    YamlNode& parent = frames_.back().node;
    if (parent.kind == YamlNode::Kind::kMapping && parent.keys.size() == parent.items.size()) {
      if (node.kind != YamlNode::Kind::kScalar)
        throw YAML::ParserException(mark, "a key must be a plain word");
      const auto first = std::find_if(parent.keys.begin(), parent.keys.end(),
                                      [&](const YamlKey& key) { return key.text == node.text; });
      if (first != parent.keys.end()) {
        throw YAML::ParserException(mark, "key " + in_quotes(node.text) + " is there twice, first at " +
                                              to_string(first->at) + "; keep one of them");
      }
      parent.keys.push_back({std::move(node.text), node.at});
      return;
    }
    // The parser notices that nothing follows a key only at what comes next.
    if (parent.kind == YamlNode::Kind::kMapping && node.kind == YamlNode::Kind::kNull && node.text.empty() &&
        node.at.line != parent.keys.back().at.line)
      node.at = parent.keys.back().at;
    parent.items.push_back(std::move(node));
  }

  YamlNode root_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, YamlNode> anchors_;
  std::size_t max_nodes_;
  std::size_t nodes_ = 0;
};

// Tells a second document by its first event, without building it.
class SecondDocument final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    throw YAML::ParserException(mark, "a second document begins here; only one is taken");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}
};

std::optional<Position> first_control_character(std::string_view text) {
  Position at;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0x7f || (byte < 0x20 && c != '\n' && c != '\r' && c != '\t')) return at;
    // YAML ends a line there, the reader does not: a key behind a comment would be lost.
    const bool ends_line = i + 1 == text.size() || text[i + 1] == '\n';
    if (c == '\r' && !ends_line) return at;
    if (c == '\n') {
      ++at.line;
      at.column = 1;
    } else {
      ++at.column;
    }
  }
  return std::nullopt;
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool only(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

YamlType number_type(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789_";
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  if (is_one_of(text, {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"})) return YamlType::kFloat;
  if (text.empty() || text[0] == '_') return YamlType::kText;
  if (text.size() > 2 && text[0] == '0') {
    const std::string_view rest = text.substr(2);
    if ((text[1] == 'x' || text[1] == 'X') && only(rest, "0123456789abcdefABCDEF_"))
      return YamlType::kInteger;
    if ((text[1] == 'b' || text[1] == 'B') && only(rest, "01_")) return YamlType::kInteger;
    if ((text[1] == 'o' || text[1] == 'O') && only(rest, "01234567_")) return YamlType::kOctalLookAlike;
  }
  if (only(text, kDigits)) {
    return text.size() > 1 && text[0] == '0' ? YamlType::kOctalLookAlike : YamlType::kInteger;
  }
  // digits [. digits] [e [+-] digits], with at least one digit in front
  const std::size_t exponent = text.find_first_of("eE");
  std::string_view mantissa = text.substr(0, exponent);
  if (exponent != std::string_view::npos) {
    std::string_view power = text.substr(exponent + 1);
    if (power.starts_with('+') || power.starts_with('-')) power.remove_prefix(1);
    if (!only(power, "0123456789")) return YamlType::kText;
  }
  const std::size_t dot = mantissa.find('.');
  if (dot == std::string_view::npos && exponent == std::string_view::npos) return YamlType::kText;
  const std::string_view before = mantissa.substr(0, dot);
  const std::string_view after =
      dot == std::string_view::npos ? std::string_view() : mantissa.substr(dot + 1);
  if (before.empty() && after.empty()) return YamlType::kText;
  const bool digits = (before.empty() || only(before, kDigits)) && (after.empty() || only(after, kDigits));
  return digits ? YamlType::kFloat : YamlType::kText;
}

}  // namespace

std::string to_string(Position at) { return fmt::format("line {}, column {}", at.line, at.column); }

const YamlNode* YamlNode::find(std::string_view key) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].text == key) return &items[i];
  }
  return nullptr;
}

namespace {

// The first line that is indented with a tab, which YAML forbids: the parser's own words do not say so.
std::string tab_hint(std::string_view text) {
  std::size_t line = 0;
  for (const std::string_view each : split(text, '\n')) {
    ++line;
    const std::size_t indent = std::min(each.find_first_not_of(" \t"), each.size());
    if (each.substr(0, indent).find('\t') != std::string_view::npos && indent < each.size())
      return fmt::format("; line {} is indented with a tab, use spaces", line);
  }
  return {};
}

// Calls `read` with a parser for the text; its exceptions end here.
template <typename T, typename Read>
Result<T> with_parser(std::string_view text, Read read) {
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return make_error(Errc::kInvalidInput, "the text is in UTF-16; save it as UTF-8");
  if (const auto at = first_control_character(text)) {
    return make_error(Errc::kInvalidInput, "{}: a control character, which YAML does not allow",
                      to_string(*at));
  }
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    return read(parser);
  } catch (const YAML::Exception& e) {
    return make_error(Errc::kInvalidInput, "{}: {}{}", to_string(position_of(e.mark)), e.msg, tab_hint(text));
  } catch (const std::exception& e) {
    return make_error(Errc::kInvalidInput, "not readable as YAML: {}", e.what());
  }
}

}  // namespace

Result<YamlNode> parse_yaml(std::string_view text, std::size_t max_nodes) {
  return with_parser<YamlNode>(text, [max_nodes](YAML::Parser& parser) {
    Builder builder(max_nodes);
    if (parser.HandleNextDocument(builder)) {
      SecondDocument second;
      parser.HandleNextDocument(second);
    }
    return builder.take();
  });
}

Result<std::vector<YamlNode>> parse_yaml_documents(std::string_view text, std::size_t max_nodes) {
  return with_parser<std::vector<YamlNode>>(text, [max_nodes](YAML::Parser& parser) {
    std::vector<YamlNode> out;
    for (;;) {
      Builder builder(max_nodes);
      if (!parser.HandleNextDocument(builder)) return out;
      YamlNode document = builder.take();
      if (document.kind != YamlNode::Kind::kNull) out.push_back(std::move(document));
    }
  });
}

YamlType type_of(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return YamlType::kNull;
    case YamlNode::Kind::kSequence:
      return YamlType::kSequence;
    case YamlNode::Kind::kMapping:
      return YamlType::kMapping;
    case YamlNode::Kind::kScalar:
      break;
  }
  if (!node.is_plain) return YamlType::kText;
  if (is_one_of(node.text, {"true", "True", "TRUE", "false", "False", "FALSE"})) return YamlType::kBool;
  if (is_one_of(node.text, {"y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO",
                            "off", "Off", "OFF"})) {
    return YamlType::kOldBool;
  }
  return number_type(node.text);
}

std::string_view describe(YamlType type) {
  switch (type) {
    case YamlType::kNull:
      return "nothing";
    case YamlType::kBool:
    case YamlType::kOldBool:
      return "a boolean";
    case YamlType::kInteger:
    case YamlType::kFloat:
      return "a number";
    case YamlType::kOctalLookAlike:
      return "a number with a leading zero, which some read as octal";
    case YamlType::kText:
      return "a text";
    case YamlType::kSequence:
      return "a list";
    case YamlType::kMapping:
      return "a mapping";
  }
  return "something else";
}

std::string yaml_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace dracpu::config
