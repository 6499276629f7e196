// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "slice_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <boost/regex.hpp>
#include <charconv>
#include <cmath>
#include <set>

namespace dracpu::sandbox {
namespace {

namespace json = boost::json;

// Limits: spec 5.10.
constexpr std::size_t kMaxDevices = 128;
constexpr std::size_t kMaxDevicesSpecial = 64;
constexpr std::size_t kMaxEntries = 32;
constexpr std::size_t kMaxValues = 48;
constexpr std::size_t kMaxText = 64;
constexpr std::size_t kMaxTaints = 16;
constexpr std::size_t kMaxValidValues = 10;

using Causes = std::vector<Cause>;

const json::value* find(const json::object& o, std::string_view key) {
  const json::value* v = o.if_contains(key);
  return v == nullptr || v->is_null() ? nullptr : v;
}

const json::object* find_object(const json::object& o, std::string_view key) {
  const json::value* v = find(o, key);
  return v == nullptr ? nullptr : v->if_object();
}

const json::array* find_array(const json::object& o, std::string_view key) {
  const json::value* v = find(o, key);
  return v == nullptr ? nullptr : v->if_array();
}

std::string text_of(const json::object& o, std::string_view key) {
  const json::value* v = find(o, key);
  return v != nullptr && v->is_string() ? std::string(v->get_string()) : std::string();
}

bool flag_of(const json::object& o, std::string_view key) {
  const json::value* v = find(o, key);
  return v != nullptr && v->is_bool() && v->get_bool();
}

bool is_label(const std::string& name) {
  static const boost::regex form("[a-z0-9]([-a-z0-9]*[a-z0-9])?");
  return name.size() <= 63 && boost::regex_match(name, form);
}

bool is_subdomain(const std::string& name, std::size_t limit) {
  static const boost::regex form("[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*");
  return name.size() <= limit && boost::regex_match(name, form);
}

bool is_qualified(const std::string& name) {
  static const boost::regex identifier("[A-Za-z_][A-Za-z0-9_]*");
  const std::size_t slash = name.find('/');
  const std::string last = slash == std::string::npos ? name : name.substr(slash + 1);
  if (slash != std::string::npos && !is_subdomain(name.substr(0, slash), 63)) return false;
  return last.size() <= 32 && boost::regex_match(last, identifier);
}

bool is_version(const std::string& text) {
  static const boost::regex form(
      "(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\\+[0-9A-Za-z.-]+)?");
  return boost::regex_match(text, form);
}

bool is_pool_name(const std::string& name) {
  if (name.empty() || name.size() > 253) return false;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    if (!is_subdomain(name.substr(at, end - at), 253)) return false;
    at = end + 1;
  }
  return true;
}

std::optional<long double> amount_at(const json::object& o, std::string_view key) {
  const json::value* v = find(o, key);
  if (v == nullptr) return std::nullopt;
  if (v->is_string()) return parse_amount(v->get_string());
  if (v->is_number()) return static_cast<long double>(v->to_number<double>());
  return std::nullopt;
}

bool is_list_member(std::string_view member) {
  return member == "ints" || member == "bools" || member == "strings" || member == "versions";
}

// Returns how many values the attribute carries.
std::size_t check_attribute(const std::string& at, const json::object& attribute, Causes& out) {
  std::size_t values = 0;
  std::size_t members = 0;
  const auto text = [&](const json::value& v, bool version) {
    if (!v.is_string()) return out.push_back({at, "expected a string"});
    const std::string s(v.get_string());
    if (s.size() > kMaxText) out.push_back({at, "Too long: may not be more than 64 bytes"});
    if (version && !is_version(s))
      out.push_back({at, "must be a string compatible with semver.org spec 2.0.0"});
  };
  for (const auto& [key, value] : attribute) {
    if (value.is_null()) continue;
    const std::string member(key);
    const bool version = member == "version" || member == "versions";
    if (is_list_member(member)) {
      if (!value.is_array() || value.get_array().empty()) continue;  // an empty list counts as no value
      ++members;
      values += value.get_array().size();
      if (member == "strings" || version) {
        for (const json::value& v : value.get_array()) text(v, version);
      }
      continue;
    }
    ++members;
    ++values;
    if (member == "string" || version) text(value, version);
    if (member == "int" && !value.is_int64()) out.push_back({at, "expected a 64-bit integer"});
    if (member == "bool" && !value.is_bool()) out.push_back({at, "expected a boolean"});
  }
  if (members != 1) out.push_back({at, "exactly one value must be specified"});
  return values;
}

void check_range(const std::string& at, const json::object& range, long double value,
                 std::optional<long double> fallback, Causes& out) {
  const auto min = amount_at(range, "min");
  const auto max = amount_at(range, "max");
  const auto step = amount_at(range, "step");
  if (!min) return out.push_back({at + ".min", "Required value"});
  if (*min > value) out.push_back({at + ".min", "is greater than the capacity value"});
  if (fallback && *min > *fallback) out.push_back({at + ".min", "is greater than the default value"});
  if (max && (*max < *min || *max > value))
    out.push_back({at + ".max", "must lie between min and the capacity value"});
  if (max && fallback && *max < *fallback) out.push_back({at + ".max", "is less than the default value"});
  if (!step) return;
  if (*step <= 0) return out.push_back({at + ".step", "must be positive"});
  if (*min + *step > value)
    out.push_back({at + ".step", "one step above min is more than the capacity value"});
  const auto off_step = [&](long double v) { return std::fmod(v - *min, *step) != 0; };
  if (fallback && off_step(*fallback)) out.push_back({at, "default is not a multiple of step above min"});
  if (max && off_step(*max)) out.push_back({at, "max is not a multiple of step above min"});
}

void check_capacity(const std::string& at, const json::object& capacity, bool shared, Causes& out) {
  const auto value = amount_at(capacity, "value");
  if (!value) return out.push_back({at + ".value", "must be a quantity"});
  const json::object* policy = find_object(capacity, "requestPolicy");
  if (policy == nullptr) return;
  const std::string where = at + ".requestPolicy";
  if (!shared) return out.push_back({where, "allowMultipleAllocations must be true"});
  const auto fallback = amount_at(*policy, "default");
  const json::array* valid = find_array(*policy, "validValues");
  const json::object* range = find_object(*policy, "validRange");
  if (valid != nullptr && range != nullptr)
    out.push_back({where, "validValues and validRange exclude each other"});
  if ((valid != nullptr || range != nullptr) && !fallback)
    out.push_back({where + ".default", "Required value"});
  if (range != nullptr) check_range(where + ".validRange", *range, *value, fallback, out);
  if (valid == nullptr) return;
  if (valid->size() > kMaxValidValues) out.push_back({where + ".validValues", "Too many"});
  long double last = -1;
  bool has_default = false;
  for (const json::value& v : *valid) {
    const auto n = v.is_string() ? parse_amount(v.get_string()) : std::nullopt;
    if (!n || *n <= last || *n > *value)
      out.push_back({where + ".validValues", "must ascend and fit the value"});
    if (n) last = *n;
    if (n && fallback && *n == *fallback) has_default = true;
  }
  if (fallback && !has_default) out.push_back({where + ".default", "must be one of validValues"});
}

void check_mapping(const std::string& at, const json::object& resources, Causes& out) {
  for (const auto& [name, value] : resources) {
    const std::string where = fmt::format("{}[{}]", at, std::string_view(name));
    const json::object* entry = value.if_object();
    const json::object* mapping = entry == nullptr ? nullptr : find_object(*entry, "mapping");
    const json::object* overhead = entry == nullptr ? nullptr : find_object(*entry, "overhead");
    if (mapping == nullptr && overhead == nullptr) {
      out.push_back({where, "at least one of mapping and overhead is required"});
      continue;
    }
    if (mapping == nullptr) continue;
    const bool by_capacity = find(*mapping, "capacityKey") != nullptr;
    if (by_capacity == (find(*mapping, "deviceMultiplier") != nullptr)) {
      out.push_back({where + ".mapping", "exactly one of capacityKey and deviceMultiplier is required"});
    }
    if (by_capacity != (find(*mapping, "capacityMultiplier") != nullptr)) {
      out.push_back({where + ".mapping.capacityMultiplier", "goes with capacityKey, and only with it"});
    }
  }
}

void check_device(const std::string& at, const json::object& device, Causes& out) {
  const std::string name = text_of(device, "name");
  if (!is_label(name)) out.push_back({at + ".name", "must be a DNS label"});
  const json::object none;
  const json::object* attributes = find_object(device, "attributes");
  const json::object* capacity = find_object(device, "capacity");
  if (attributes == nullptr) attributes = &none;
  if (capacity == nullptr) capacity = &none;
  if (attributes->size() + capacity->size() > kMaxEntries) {
    out.push_back({at, "Too many: the total number of attributes and capacities must not exceed 32"});
  }
  std::size_t values = 0;
  for (const auto& [key, value] : *attributes) {
    const std::string where = fmt::format("{}.attributes[{}]", at, std::string_view(key));
    if (!is_qualified(std::string(key))) out.push_back({where, "is no qualified name"});
    if (const json::object* attribute = value.if_object()) {
      values += check_attribute(where, *attribute, out);
    } else {
      out.push_back({where, "exactly one value must be specified"});
    }
  }
  if (values > kMaxValues) out.push_back({at + ".attributes", "Too many values: at most 48"});
  for (const auto& [key, value] : *capacity) {
    const std::string where = fmt::format("{}.capacity[{}]", at, std::string_view(key));
    if (!is_qualified(std::string(key))) out.push_back({where, "is no qualified name"});
    if (const json::object* c = value.if_object()) {
      check_capacity(where, *c, flag_of(device, "allowMultipleAllocations"), out);
    } else {
      out.push_back({where, "expected an object"});
    }
  }
  for (const char* field : {"nodeName", "nodeSelector", "allNodes"}) {
    if (find(device, field) != nullptr) {
      out.push_back({at + "." + field, "Forbidden: only with perDeviceNodeSelection"});
    }
  }
  if (const json::array* taints = find_array(device, "taints")) {
    if (taints->size() > kMaxTaints) out.push_back({at + ".taints", "Too many"});
    for (const json::value& t : *taints) {
      const json::object* taint = t.if_object();
      const std::string effect = taint == nullptr ? "" : text_of(*taint, "effect");
      if (taint == nullptr || text_of(*taint, "key").empty())
        out.push_back({at + ".taints.key", "Required value"});
      if (effect != "NoSchedule" && effect != "NoExecute" && effect != "None") {
        out.push_back({at + ".taints.effect", "Unsupported value"});
      }
    }
  }
  if (const json::object* mapped = find_object(device, "nodeAllocatableResources")) {
    check_mapping(at + ".nodeAllocatableResources", *mapped, out);
  }
}

bool is_special(const json::object& device) {
  if (const json::array* taints = find_array(device, "taints"); taints != nullptr && !taints->empty())
    return true;
  const json::object* attributes = find_object(device, "attributes");
  if (attributes == nullptr) return false;
  return std::any_of(attributes->begin(), attributes->end(), [](const auto& entry) {
    const json::object* a = entry.value().if_object();
    return a != nullptr &&
           std::any_of(a->begin(), a->end(), [](const auto& m) { return is_list_member(m.key()); });
  });
}

void check_devices(const json::object& spec, Causes& out) {
  const json::array* devices = find_array(spec, "devices");
  if (devices == nullptr) return;
  const bool special = std::any_of(devices->begin(), devices->end(), [](const json::value& d) {
    return d.is_object() && is_special(d.get_object());
  });
  const std::size_t limit = special ? kMaxDevicesSpecial : kMaxDevices;
  if (devices->size() > limit) {
    // Exceeding a list limit is the only error that is reported (5.11 no. 6).
    out = {{"spec.devices", fmt::format("Too many: {}: must have at most {} items", devices->size(), limit)}};
    return;
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < devices->size(); ++i) {
    const std::string at = fmt::format("spec.devices[{}]", i);
    const json::object* device = (*devices)[i].if_object();
    if (device == nullptr) {
      out.push_back({at, "expected an object"});
      continue;
    }
    check_device(at, *device, out);
    if (!names.insert(text_of(*device, "name")).second) {
      out.push_back({at + ".name", fmt::format("Duplicate value: \"{}\"", text_of(*device, "name"))});
    }
  }
}

std::int64_t number_of(const json::object& o, std::string_view key) {
  const json::value* v = find(o, key);
  return v != nullptr && v->is_int64() ? v->get_int64() : 0;
}

}  // namespace

std::vector<std::string> drop_closed_fields(const ServerProfile& profile, json::object& slice) {
  std::vector<std::string> dropped;
  json::value* spec = slice.if_contains("spec");
  json::value* devices =
      spec != nullptr && spec->is_object() ? spec->get_object().if_contains("devices") : nullptr;
  if (devices == nullptr || !devices->is_array()) return dropped;
  const auto erase = [&](json::object& from, std::string_view key) {
    if (from.erase(key) == 0) return;
    if (std::find(dropped.begin(), dropped.end(), key) == dropped.end()) dropped.emplace_back(key);
  };
  for (json::value& d : devices->get_array()) {
    json::object* device = d.if_object();
    if (device == nullptr) continue;
    if (!profile.device_taints) erase(*device, "taints");
    if (!profile.consumable_capacity) erase(*device, "allowMultipleAllocations");
    if (!profile.node_allocatable || profile.minor < 37) erase(*device, "nodeAllocatableResources");
    if (!profile.node_allocatable || profile.minor != 36) erase(*device, "nodeAllocatableResourceMappings");
    if (json::value* capacity = device->if_contains("capacity");
        capacity != nullptr && capacity->is_object() && !profile.consumable_capacity) {
      for (auto& entry : capacity->get_object()) {
        if (entry.value().is_object()) erase(entry.value().get_object(), "requestPolicy");
      }
    }
    if (json::value* attributes = device->if_contains("attributes");
        attributes != nullptr && attributes->is_object() &&
        (!profile.list_attributes || profile.minor < 36)) {
      for (auto& entry : attributes->get_object()) {
        if (!entry.value().is_object()) continue;
        for (const char* list : {"ints", "bools", "strings", "versions"})
          erase(entry.value().get_object(), list);
      }
    }
  }
  return dropped;
}

std::vector<Cause> check_slice(const ServerProfile& /*profile*/, const json::object& slice) {
  Causes out;
  const json::object* spec = find_object(slice, "spec");
  if (spec == nullptr) return {{"spec", "Required value"}};
  if (!is_subdomain(text_of(*spec, "driver"), 63))
    out.push_back({"spec.driver", "must be a DNS subdomain of at most 63"});
  const json::object* pool = find_object(*spec, "pool");
  if (pool == nullptr) {
    out.push_back({"spec.pool", "Required value"});
  } else {
    if (!is_pool_name(text_of(*pool, "name"))) out.push_back({"spec.pool.name", "Invalid value"});
    if (number_of(*pool, "resourceSliceCount") <= 0)
      out.push_back({"spec.pool.resourceSliceCount", "must be greater than zero"});
    if (number_of(*pool, "generation") < 0)
      out.push_back({"spec.pool.generation", "must be greater than or equal to zero"});
  }
  std::size_t selections = 0;
  for (const char* field : {"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"}) {
    const json::value* v = find(*spec, field);
    if (v == nullptr) continue;
    ++selections;
    if ((v->is_string() && v->get_string().empty()) || (v->is_bool() && !v->get_bool())) {
      out.push_back({fmt::format("spec.{}", field), "must not be empty or false"});
    }
  }
  if (selections != 1) {
    out.push_back(
        {"spec", "exactly one of nodeName, nodeSelector, allNodes, perDeviceNodeSelection is required"});
  }
  if (find_array(*spec, "sharedCounters") != nullptr && find_array(*spec, "devices") != nullptr) {
    out.push_back({"spec", "only one of sharedCounters and devices is allowed"});
  }
  check_devices(*spec, out);
  return out;
}

std::vector<Cause> check_slice_change(const json::object& before, const json::object& after) {
  Causes out;
  const json::object* a = find_object(before, "spec");
  const json::object* b = find_object(after, "spec");
  if (a == nullptr || b == nullptr) return out;
  const json::object none;
  const json::object* pool_a = find_object(*a, "pool");
  const json::object* pool_b = find_object(*b, "pool");
  if (text_of(*a, "driver") != text_of(*b, "driver")) out.push_back({"spec.driver", "field is immutable"});
  if (text_of(*a, "nodeName") != text_of(*b, "nodeName"))
    out.push_back({"spec.nodeName", "field is immutable"});
  if (text_of(pool_a ? *pool_a : none, "name") != text_of(pool_b ? *pool_b : none, "name")) {
    out.push_back({"spec.pool.name", "field is immutable"});
  }
  return out;
}

std::optional<long double> parse_amount(std::string_view text) {
  static const boost::regex form(
      "([+-]?)([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]+)?");
  boost::cmatch part;
  if (!boost::regex_match(text.data(), text.data() + text.size(), part, form)) return std::nullopt;
  long double value = std::stold(part[2].str());
  const std::string suffix = part[4].str();
  static const std::string decimal = "num kMGTPE";
  static const std::string binary = "KMGTPE";
  if (suffix.size() == 2 && suffix[1] == 'i') {
    value *= std::pow(1024.0L, static_cast<long double>(binary.find(suffix[0]) + 1));
  } else if (suffix.size() == 1) {
    value *= std::pow(1000.0L, static_cast<long double>(decimal.find(suffix[0])) - 3);
  } else if (!suffix.empty()) {
    value *= std::pow(10.0L, std::stold(suffix.substr(1)));
  }
  return part[1].str() == "-" ? -value : value;
}

std::string canonical_amount(std::string_view text) {
  std::int64_t n = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (ec != std::errc{} || n == 0) return std::string(text);
  if (suffix.empty()) {
    std::size_t power = 0;
    for (; n % 1000 == 0 && power < 6; ++power) n /= 1000;
    return power == 0 ? std::to_string(n) : std::to_string(n) + std::string(1, "kMGTPE"[power - 1]);
  }
  static const std::string binary = "KMGTPE";
  if (suffix.size() == 2 && suffix[1] == 'i' && binary.find(suffix[0]) != std::string::npos) {
    std::size_t power = binary.find(suffix[0]);
    for (; n % 1024 == 0 && power < 5; ++power) n /= 1024;
    return fmt::format("{}{}i", n, binary[power]);
  }
  return std::string(text);
}

void write_canonical_amounts(json::object& slice) {
  json::value* spec = slice.if_contains("spec");
  json::value* devices =
      spec == nullptr || !spec->is_object() ? nullptr : spec->get_object().if_contains("devices");
  if (devices == nullptr || !devices->is_array()) return;
  for (json::value& device : devices->get_array()) {
    json::value* capacity = device.get_object().if_contains("capacity");
    if (capacity == nullptr || !capacity->is_object()) continue;
    for (auto& entry : capacity->get_object()) {
      json::value& value = entry.value().get_object()["value"];
      if (value.is_number()) value = std::to_string(value.to_number<std::int64_t>());
      value = canonical_amount(value.get_string());
    }
  }
}

}  // namespace dracpu::sandbox
