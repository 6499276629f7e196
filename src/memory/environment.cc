// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/environment.h"

#include <fmt/format.h>

#include <utility>

#include "base/quantity.h"
#include "base/strings.h"

namespace dracpu::memory {
namespace {

constexpr std::string_view kNodes = "NUMANodes";
constexpr std::string_view kNode = "numanode:";
constexpr std::string_view kSize = "size:";

std::string text_of_nodes(const std::set<NumaNodeId>& nodes) {
  std::string out;
  for (const NumaNodeId node : nodes) out += fmt::format("{}{}", out.empty() ? "" : ",", node.get());
  return out;
}

std::string text_of_amounts(const std::map<NumaNodeId, Bytes>& by_node) {
  std::string out;
  for (const auto& [node, bytes] : by_node) {
    out += fmt::format("{}{}{},{}{}", out.empty() ? "" : ";", kNode, node.get(), kSize, text_of(bytes));
  }
  return out;
}

std::optional<NumaNodeId> read_node(std::string_view text) {
  const std::optional<std::int32_t> id = parse_number<std::int32_t>(text);
  if (!id || *id < 0) return std::nullopt;
  return NumaNodeId(*id);
}

// Readers are generous, and compare with what the writer makes of it.
std::optional<std::set<NumaNodeId>> read_nodes(std::string_view text) {
  std::set<NumaNodeId> out;
  for (const std::string_view part : split(text, ',')) {
    const std::optional<NumaNodeId> node = read_node(part);
    if (!node) return std::nullopt;
    out.insert(*node);
  }
  if (text_of_nodes(out) != text) return std::nullopt;
  return out;
}

std::optional<Bytes> read_bytes(std::string_view text) {
  const Result<Quantity> quantity = Quantity::parse(text);
  const std::optional<std::int64_t> whole = quantity.ok() ? quantity->to_int64() : std::nullopt;
  if (!whole || *whole <= 0) return std::nullopt;
  return Bytes{static_cast<std::uint64_t>(*whole)};
}

std::optional<std::map<NumaNodeId, Bytes>> read_amounts(std::string_view text) {
  std::map<NumaNodeId, Bytes> out;
  for (const std::string_view part : split(text, ';')) {
    const std::size_t comma = part.find(',');
    if (comma == std::string_view::npos) return std::nullopt;
    const std::string_view first = part.substr(0, comma);
    const std::string_view second = part.substr(comma + 1);
    if (!first.starts_with(kNode) || !second.starts_with(kSize)) return std::nullopt;
    const std::optional<NumaNodeId> node = read_node(first.substr(kNode.size()));
    const std::optional<Bytes> bytes = read_bytes(second.substr(kSize.size()));
    if (!node || !bytes) return std::nullopt;
    out.insert_or_assign(*node, *bytes);
  }
  if (text_of_amounts(out) != text) return std::nullopt;
  return out;
}

// One variable added to what its claim says; false if it cannot be.
bool add(std::string_view suffix, std::string_view value, Statement& out) {
  if (suffix == kNodes) {
    std::optional<std::set<NumaNodeId>> nodes = read_nodes(value);
    if (!nodes || (out.nodes && *out.nodes != *nodes)) return false;
    out.nodes = std::move(nodes);
    return true;
  }
  const std::optional<Kind> kind = kind_of_variable(suffix);
  if (!kind) return false;
  std::optional<std::map<NumaNodeId, Bytes>> amounts = read_amounts(value);
  if (!amounts) return false;
  const auto [it, is_new] = out.amounts.emplace(*kind, *amounts);
  return is_new || it->second == *amounts;
}

}  // namespace

std::vector<std::string> format_environment(const ClaimUid& uid, const Amounts& amounts) {
  std::vector<std::string> out;
  const auto put = [&](std::string_view suffix, std::string_view value) {
    out.push_back(fmt::format("{}{}_{}={}", kVariablePrefix, uid.get(), suffix, value));
  };
  put(kNodes, text_of_nodes(nodes_of(amounts)));
  for (const auto& [kind, by_node] : amounts) put(variable_name(kind), text_of_amounts(by_node));
  return out;
}

Result<std::map<ClaimUid, Statement>> read_environment(std::string_view container,
                                                       const std::vector<std::string>& env) {
  std::map<ClaimUid, Statement> out;
  for (const std::string& entry : env) {
    const std::string_view text = entry;
    if (!text.starts_with(kVariablePrefix)) continue;
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const std::string_view rest = name.substr(kVariablePrefix.size());
    // A UID has no underscore, a suffix may.
    const std::size_t joint = rest.find('_');
    const bool is_named = equals != std::string_view::npos && joint != std::string_view::npos && joint > 0;
    if (!is_named || !add(rest.substr(joint + 1), text.substr(equals + 1),
                          out[ClaimUid(std::string(rest.substr(0, joint)))])) {
      return make_error(Errc::kInvalidInput, "container \"{}\": malformed variable {}", container,
                        name.substr(0, 120));
    }
  }
  return out;
}

bool says(const Statement& statement, const Amounts& held) {
  return statement.amounts == held && statement.nodes == nodes_of(held);
}

std::optional<Amounts> complete(const Statement& statement) {
  if (statement.amounts.empty() || !says(statement, statement.amounts)) return std::nullopt;
  return statement.amounts;
}

}  // namespace dracpu::memory
