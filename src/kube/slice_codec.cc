// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/slice_codec.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/quantity.h"
#include "base/strings.h"
#include "kube/json_reader.h"
#include "kube/slice_content.h"

namespace dracpu::kube {
namespace {

namespace json = boost::json;

constexpr std::string_view kApiVersion = "resource.k8s.io/v1";
constexpr std::size_t kIndexDigits = 5;  // at least, section 6.2

struct AttributeWriter {
  json::object operator()(std::int64_t v) const { return {{"int", v}}; }
  json::object operator()(bool v) const { return {{"bool", v}}; }
  json::object operator()(const std::string& v) const { return {{"string", v}}; }
  json::object operator()(const std::vector<std::string>& v) const {
    return {{"strings", json::array(v.begin(), v.end())}};
  }
};

// A capacity as the API has it, with the amounts that may be asked for where bytes are counted.
json::object capacity_json(std::int64_t amount, const device::ByteRange* range) {
  if (range == nullptr) return {{"value", Quantity(amount).to_string()}};
  const auto text = [](std::int64_t bytes) { return Quantity::of_bytes(bytes).to_string(); };
  json::object valid{{"min", text(range->min)}};
  if (range->step) valid["step"] = text(*range->step);
  valid["max"] = text(range->max);
  return {{"value", text(amount)},
          {"requestPolicy", {{"default", text(range->fallback)}, {"validRange", std::move(valid)}}}};
}

// How the device's claims count against one resource of the node's allocatable.
json::object mapping_json(const device::Device& device, const AllocatableMapping& mapping,
                          SliceFeatures::Mapping form) {
  const bool by_capacity = device.capacity.contains(mapping.capacity_key);
  json::object inner;
  if (form == SliceFeatures::Mapping::kNodeAllocatableResources) {
    json::object fields;
    if (by_capacity) {
      fields["capacityKey"] = mapping.capacity_key;
      fields["capacityMultiplier"] = "1";
    } else {
      fields["deviceMultiplier"] = "1";
    }
    inner["mapping"] = std::move(fields);
  } else {
    if (by_capacity) inner["capacityKey"] = mapping.capacity_key;
    inner["allocationMultiplier"] = "1";
  }
  return inner;
}

json::object owner_reference(const SliceTarget& target) {
  return {{"apiVersion", "v1"},
          {"kind", "Node"},
          {"name", target.node},
          {"uid", target.node_uid},
          {"controller", true}};
}

std::string body_of(const SliceTarget& target, json::object metadata, const WireSlice& slice) {
  json::object spec;
  spec["driver"] = target.driver;
  spec["nodeName"] = target.node;
  spec["pool"] = {
      {"name", target.node}, {"generation", target.generation}, {"resourceSliceCount", target.count}};
  spec["devices"] = json::parse(slice.devices);  // our own text
  return json::serialize(json::object{{"apiVersion", kApiVersion.data()},
                                      {"kind", "ResourceSlice"},
                                      {"metadata", std::move(metadata)},
                                      {"spec", std::move(spec)}});
}

ServerSlice read_slice(const JsonObject& root) {
  ServerSlice out;
  const JsonObject metadata = root.object("metadata");
  out.name = metadata.text("name");
  out.uid = metadata.text("uid");
  out.resource_version = metadata.text("resourceVersion");
  for (const JsonObject& owner : metadata.objects("ownerReferences")) {
    if (owner.text("kind") == "Node" && owner.text("apiVersion") == "v1") out.node_owner = owner.text("uid");
  }
  if (metadata.present()) {
    json::object kept = *metadata.raw();
    kept.erase("managedFields");  // the server's own; absent means unchanged
    out.metadata = json::serialize(kept);
  }
  const JsonObject spec = root.object("spec");
  out.driver = spec.text("driver");
  out.node = spec.text("nodeName");
  const JsonObject pool = spec.object("pool");
  out.pool = pool.text("name");
  out.generation = pool.integer("generation");
  out.count = pool.integer("resourceSliceCount");
  if (spec.present()) out.content = slice_content(*spec.raw());
  if (out.name.empty()) metadata.expected("name", "a name");
  if (out.uid.empty()) metadata.expected("uid", "a uid");
  return out;
}

WatchEvent::Type event_type(const std::string& text) {
  using Type = WatchEvent::Type;
  if (text == "ADDED") return Type::kAdded;
  if (text == "MODIFIED") return Type::kModified;
  if (text == "DELETED") return Type::kDeleted;
  if (text == "BOOKMARK") return Type::kBookmark;
  if (text == "ERROR") return Type::kError;
  return Type::kUnknown;
}

}  // namespace

SliceFeatures SliceFeatures::of_minor(int minor) {
  SliceFeatures out;
  out.lists = minor >= 36;
  out.mapping = minor >= 37   ? Mapping::kNodeAllocatableResources
                : minor == 36 ? Mapping::kAllocationMultiplier
                              : Mapping::kNone;
  return out;
}

json::object attribute_json(const device::AttributeValue& value) {
  return std::visit(AttributeWriter{}, value);
}

WireSlice encode_slice(const device::Slice& slice, const SliceFeatures& features,
                       const std::optional<AllocatableMapping>& mapping) {
  WireSlice out;
  json::array devices;
  for (const device::Device& device : slice.devices) {
    json::object item{{"name", device.name}};
    if (device.allow_multiple_allocations) item["allowMultipleAllocations"] = true;
    json::object attributes;
    for (const auto& [name, value] : device.attributes) {
      const auto* list = std::get_if<std::vector<std::string>>(&value);
      if (list != nullptr && list->empty()) continue;  // no value, which the server refuses
      if (list != nullptr && !features.lists) {
        out.lists_left_out = true;
        continue;
      }
      out.has_lists = out.has_lists || list != nullptr;
      attributes[name] = attribute_json(value);
    }
    if (!attributes.empty()) item["attributes"] = std::move(attributes);
    json::object capacity;
    for (const auto& [name, amount] : device.capacity) {
      const auto range = device.byte_ranges.find(name);
      capacity[name] = capacity_json(amount, range == device.byte_ranges.end() ? nullptr : &range->second);
    }
    if (!capacity.empty()) item["capacity"] = std::move(capacity);
    json::object mapped;
    if (mapping) mapped[mapping->resource] = mapping_json(device, *mapping, features.mapping);
    for (const auto& [resource, key] : device.node_allocatable) {
      mapped[resource] = mapping_json(device, {resource, key}, features.mapping);
    }
    if (!mapped.empty() && features.mapping == SliceFeatures::Mapping::kNone) {
      out.mapping_left_out = true;
    } else if (!mapped.empty()) {
      out.has_mapping = true;
      const bool current = features.mapping == SliceFeatures::Mapping::kNodeAllocatableResources;
      item[current ? "nodeAllocatableResources" : "nodeAllocatableResourceMappings"] = std::move(mapped);
    }
    devices.push_back(std::move(item));
  }
  out.devices = json::serialize(devices);
  out.content = slice_content({{"devices", std::move(devices)}});
  return out;
}

Status check_pool(const std::vector<device::Slice>& slices) {
  std::set<std::string_view> seen;
  for (const device::Slice& slice : slices) {
    for (const device::Device& device : slice.devices) {
      if (!seen.insert(device.name).second) {
        return make_error(Errc::kInvalidInput, "pool validation failed: device \"{}\" comes twice",
                          device.name);
      }
    }
  }
  return ok_status();
}

Result<ServerSlice> parse_slice(std::string_view text) {
  const Result<json::value> root = parse_json_object(text);
  if (!root.ok()) return root.error();
  JsonErrors errors;
  ServerSlice out = read_slice(JsonObject(errors, &root->get_object(), ""));
  if (errors.first()) return *errors.first();
  return out;
}

Result<SliceList> parse_slice_list(std::string_view text) {
  const Result<json::value> root = parse_json_object(text);
  if (!root.ok()) return root.error();
  JsonErrors errors;
  const JsonObject fields(errors, &root->get_object(), "");
  SliceList out;
  const JsonObject metadata = fields.object("metadata");
  out.resource_version = metadata.text("resourceVersion");
  out.continue_token = metadata.text("continue");
  for (const JsonObject& item : fields.objects("items")) out.items.push_back(read_slice(item));
  if (out.resource_version.empty()) metadata.expected("resourceVersion", "a version");
  if (errors.first()) return *errors.first();
  return out;
}

Result<WatchEvent> parse_watch_line(std::string_view line) {
  const Result<json::value> root = parse_json_object(line);
  if (!root.ok()) return root.error();
  JsonErrors errors;
  const JsonObject fields(errors, &root->get_object(), "");
  WatchEvent out;
  out.type = event_type(fields.text("type"));
  const JsonObject object = fields.object("object");
  if (!object.present()) fields.expected("object", "an object");
  switch (out.type) {
    case WatchEvent::Type::kAdded:
    case WatchEvent::Type::kModified:
    case WatchEvent::Type::kDeleted:
      out.slice = read_slice(object);
      out.resource_version = out.slice->resource_version;
      break;
    case WatchEvent::Type::kBookmark:
      out.resource_version = object.object("metadata").text("resourceVersion");
      break;
    case WatchEvent::Type::kError:
      if (object.present()) out.error = parse_status(json::serialize(*object.raw()));
      break;
    case WatchEvent::Type::kUnknown:
      break;
  }
  if (errors.first()) return *errors.first();
  return out;
}

Result<std::string> parse_node_uid(std::string_view text) {
  const Result<json::value> root = parse_json_object(text);
  if (!root.ok()) return root.error();
  JsonErrors errors;
  const JsonObject metadata = JsonObject(errors, &root->get_object(), "").object("metadata");
  std::string uid = metadata.text("uid");
  if (uid.empty()) metadata.expected("uid", "a uid");
  if (errors.first()) return *errors.first();
  return uid;
}

Result<int> parse_server_minor(std::string_view text) {
  const Result<json::value> root = parse_json_object(text);
  if (!root.ok()) return root.error();
  JsonErrors errors;
  const JsonObject fields(errors, &root->get_object(), "");
  const std::string minor = fields.text("minor");
  const std::optional<int> number = parse_number<int>(minor.substr(0, minor.find_first_not_of("0123456789")));
  if (!number) fields.expected("minor", "a number");
  if (errors.first()) return *errors.first();
  return *number;
}

std::string create_body(const SliceTarget& target, std::size_t index, const WireSlice& slice) {
  json::object metadata;
  metadata["generateName"] =
      fmt::format("{}-{}-{}-", index_prefix(index, target.count), target.driver, target.node);
  metadata["ownerReferences"] = json::array{owner_reference(target)};
  return body_of(target, std::move(metadata), slice);
}

std::string update_body(const SliceTarget& target, const ServerSlice& known, const WireSlice& slice) {
  // Labels, annotations and owners that others added stay; only the Node among the owners is ours.
  boost::system::error_code ec;
  json::value parsed = json::parse(known.metadata, ec);
  json::object metadata = !ec && parsed.is_object() ? std::move(parsed.get_object()) : json::object();
  metadata["name"] = known.name;
  metadata["uid"] = known.uid;
  metadata["resourceVersion"] = known.resource_version;
  json::array owners{owner_reference(target)};
  if (const json::value* before = metadata.if_contains("ownerReferences");
      before != nullptr && before->is_array()) {
    for (const json::value& owner : before->get_array()) {
      const json::value* kind = owner.is_object() ? owner.get_object().if_contains("kind") : nullptr;
      if (kind == nullptr || !kind->is_string() || kind->get_string() == "Node") continue;
      owners.push_back(owner);
      owners.back().get_object().erase("controller");  // there can be only one, and it is the Node
    }
  }
  metadata["ownerReferences"] = std::move(owners);
  return body_of(target, std::move(metadata), slice);
}

std::string delete_body(const std::string& uid, const std::string& resource_version) {
  return json::serialize(
      json::object{{"kind", "DeleteOptions"},
                   {"apiVersion", "v1"},
                   {"preconditions", json::object{{"uid", uid}, {"resourceVersion", resource_version}}}});
}

std::string index_prefix(std::size_t index, std::size_t count) {
  const std::size_t digits = fmt::format("{:x}", count == 0 ? 0 : count - 1).size();
  return fmt::format("{:0{}x}", index, std::max(kIndexDigits, digits));
}

}  // namespace dracpu::kube
