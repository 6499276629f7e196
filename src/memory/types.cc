// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/types.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>

#include "base/cpuset.h"
#include "base/quantity.h"

namespace dracpu::memory {
namespace {

constexpr std::string_view kBase = "memory";
constexpr std::string_view kHugepageClass = "dra.hugepages-";

std::string in_lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string hugepages_name(Kind kind, char joint) {
  return fmt::format("hugepages{}{}", joint, text_of(kind.page()));
}

std::optional<Kind> kind_of(std::string_view name, std::string_view prefix) {
  if (name == kBase) return Kind();
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view size = name.substr(prefix.size());
  const Result<Quantity> quantity = Quantity::parse(size);
  const std::optional<std::int64_t> bytes = quantity.ok() ? quantity->to_int64() : std::nullopt;
  if (!bytes || *bytes <= 0) return std::nullopt;
  const Bytes page{static_cast<std::uint64_t>(*bytes)};
  // Pages are powers of two, and a size has one spelling.
  if (!std::has_single_bit(page.count) || text_of(page) != size) return std::nullopt;
  return Kind::hugepages(page);
}

}  // namespace

std::string text_of(Bytes amount) {
  if (amount > kMostBytes) return fmt::format("{}", amount.count);
  return Quantity::of_bytes(static_cast<std::int64_t>(amount.count)).to_string();
}

std::set<NumaNodeId> nodes_of(const Amounts& amounts) {
  std::set<NumaNodeId> out;
  for (const auto& [kind, by_node] : amounts) {
    for (const auto& [node, bytes] : by_node) out.insert(node);
  }
  return out;
}

Bytes total_of(const Amounts& amounts, Kind kind) {
  Bytes out;
  const auto found = amounts.find(kind);
  if (found == amounts.end()) return out;
  for (const auto& [node, bytes] : found->second) out += bytes;
  return out;
}

std::string resource_name(Kind kind) {
  return kind.is_hugepages() ? hugepages_name(kind, '-') : std::string(kBase);
}

std::optional<Kind> kind_of_resource(std::string_view name) { return kind_of(name, "hugepages-"); }

std::string variable_name(Kind kind) {
  return kind.is_hugepages() ? hugepages_name(kind, '_') : std::string(kBase);
}

std::optional<Kind> kind_of_variable(std::string_view name) { return kind_of(name, "hugepages_"); }

std::string device_name(Kind kind, NumaNodeId node) {
  return in_lower_case(fmt::format("{}-numa{:03}", resource_name(kind), node.get()));
}

std::string class_name(Kind kind) {
  if (!kind.is_hugepages()) return std::string(kDriverName);
  std::string name = in_lower_case("dra." + resource_name(kind));
  name.pop_back();  // of "2mi"
  return name;
}

std::optional<Kind> kind_of_class(std::string_view name) {
  if (name == kDriverName) return Kind();
  if (!name.starts_with(kHugepageClass)) return std::nullopt;
  std::string size(name.substr(kHugepageClass.size()));
  if (size.empty()) return std::nullopt;
  size.back() = static_cast<char>(std::toupper(static_cast<unsigned char>(size.back())));
  const std::optional<Kind> kind = kind_of_resource(fmt::format("hugepages-{}i", size));
  return kind && class_name(*kind) == name ? kind : std::nullopt;
}

std::string combined_key(Kind kind) { return fmt::format("{}/{}", kDriverName, variable_name(kind)); }

bool is_combined_key(std::string_view key) {
  return key.starts_with(kDriverName) && key.substr(kDriverName.size()).starts_with('/');
}

std::string runtime_page_size(Bytes page) {
  if (page.count >= std::uint64_t{1} << 30U) return fmt::format("{}GB", page.count >> 30U);
  if (page.count >= std::uint64_t{1} << 20U) return fmt::format("{}MB", page.count >> 20U);
  return fmt::format("{}KB", page.count >> 10U);
}

// Node numbers have the text form of CPU numbers.
std::string list_of(const std::set<NumaNodeId>& nodes) {
  CpuSet set;
  for (const NumaNodeId node : nodes) set.insert(CpuId(static_cast<std::uint32_t>(node.get())));
  return set.to_string();
}

std::optional<std::set<NumaNodeId>> nodes_in_list(std::string_view text) {
  const Result<CpuSet> set = CpuSet::parse(text);
  if (!set.ok()) return std::nullopt;
  std::set<NumaNodeId> out;
  set->for_each([&](CpuId node) { out.emplace(static_cast<std::int32_t>(node.get())); });
  return out;
}

}  // namespace dracpu::memory
