// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/slice_content.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/quantity.h"

namespace dracpu::kube {
namespace {

namespace json = boost::json;

// Fields that hold quantities, wherever they stand outside attributes and taints.
constexpr std::array<std::string_view, 11> kQuantityFields{"value",
                                                           "default",
                                                           "validValues",
                                                           "min",
                                                           "max",
                                                           "step",
                                                           "capacityMultiplier",
                                                           "deviceMultiplier",
                                                           "allocationMultiplier",
                                                           "perPod",
                                                           "perContainer"};

// Flags whose absence means false.
constexpr std::array<std::string_view, 4> kFlags{"allowMultipleAllocations", "bindsToNode", "allNodes",
                                                 "perDeviceNodeSelection"};

// Identity and bookkeeping of the pool, compared on their own.
constexpr std::array<std::string_view, 3> kNotContent{"driver", "pool", "nodeName"};

template <typename List>
bool among(const List& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

std::string quantity_text(Quantity::Nano nano) {
  std::string out;
  const bool negative = nano < 0;
  if (negative) nano = -nano;
  do {
    out += static_cast<char>('0' + static_cast<int>(nano % 10));
    nano /= 10;
  } while (nano != 0);
  if (negative) out += '-';
  std::reverse(out.begin(), out.end());
  return out + "n";
}

std::optional<Quantity> as_quantity(const json::value& v) {
  if (v.is_int64()) return Quantity(v.get_int64());
  if (!v.is_string()) return std::nullopt;
  const Result<Quantity> q = Quantity::parse({v.get_string().data(), v.get_string().size()});
  return q.ok() ? std::optional<Quantity>(*q) : std::nullopt;
}

// Empty text: nothing worth comparing.
std::string canonical(const json::value& v, bool quantities);

std::string canonical(const json::object& fields, bool quantities) {
  std::vector<std::pair<std::string_view, std::string>> parts;
  for (const auto& [k, value] : fields) {
    const std::string_view key(k.data(), k.size());
    if (value.is_bool() && !value.get_bool() && among(kFlags, key)) continue;
    std::string text;
    if (key == "attributes" || key == "taints") {
      text = canonical(value, false);
    } else if (const std::optional<Quantity> q = as_quantity(value);
               q && quantities && among(kQuantityFields, key)) {
      text = quantity_text(q->nano());
    } else if (value.is_array() && quantities && key == "validValues") {
      for (const json::value& item : value.get_array()) {
        const std::optional<Quantity> one = as_quantity(item);
        text += (one ? quantity_text(one->nano()) : json::serialize(item)) + ",";
      }
    } else {
      text = canonical(value, quantities);
    }
    if (!text.empty()) parts.emplace_back(key, std::move(text));
  }
  if (parts.empty()) return {};
  std::sort(parts.begin(), parts.end());
  std::string out = "{";
  for (const auto& [key, text] : parts) {
    out += json::serialize(json::string_view(key.data(), key.size()));
    out += ':';
    out += text;
    out += ',';
  }
  out.back() = '}';
  return out;
}

std::string canonical(const json::value& v, bool quantities) {
  if (v.is_null()) return {};
  if (v.is_object()) return canonical(v.get_object(), quantities);
  if (!v.is_array()) return json::serialize(v);
  if (v.get_array().empty()) return {};
  std::string out = "[";
  for (const json::value& item : v.get_array()) {
    const std::string text = canonical(item, quantities);
    out += text.empty() ? "{}" : text;
    out += ',';
  }
  out.back() = ']';
  return out;
}

}  // namespace

std::string slice_content(const json::object& spec) {
  json::object rest;
  for (const auto& [key, value] : spec) {
    if (!among(kNotContent, std::string_view(key.data(), key.size()))) rest[key] = value;
  }
  return canonical(rest, true);
}

}  // namespace dracpu::kube
