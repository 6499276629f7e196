// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include <set>

#include "kube/json_reader.h"
#include "kube/slice_codec.h"

namespace dracpu::kube {
namespace {

namespace json = boost::json;

std::size_t size_of(const JsonObject& from, std::string_view key) {
  const json::value* found = from.find(key);
  if (found == nullptr) return 0;
  return found->is_array() ? found->get_array().size() : found->is_object() ? found->get_object().size() : 0;
}

std::string text_of(const JsonObject& from, std::string_view key) {
  const json::value* found = from.find(key);
  return found == nullptr ? "" : json::serialize(*found);
}

void compare_devices(const JsonObject& sent, const JsonObject& received, std::set<std::string>& gates) {
  if (size_of(received, "taints") < size_of(sent, "taints")) gates.insert("DRADeviceTaints");
  if (size_of(received, "consumesCounters") != size_of(sent, "consumesCounters")) {
    gates.insert("DRAPartitionableDevices");
  }
  for (const char* key : {"bindingConditions", "bindingFailureConditions", "bindsToNode"}) {
    if (text_of(sent, key) != text_of(received, key)) gates.insert("DRADeviceBindingConditions");
  }
  if (sent.flag("allowMultipleAllocations") && !received.flag("allowMultipleAllocations")) {
    gates.insert("DRAConsumableCapacity");
  }
  for (const char* key : {"nodeAllocatableResources", "nodeAllocatableResourceMappings"}) {
    if (size_of(received, key) < size_of(sent, key)) gates.insert("DRANodeAllocatableResources");
  }
}

}  // namespace

std::string describe_dropped(std::string_view sent, std::string_view received) {
  const Result<json::value> a = parse_json_object(sent);
  const Result<json::value> b = parse_json_object(received);
  std::set<std::string> gates;
  if (a.ok() && b.ok()) {
    JsonErrors errors;
    const JsonObject want = JsonObject(errors, &a->get_object(), "").object("spec");
    const JsonObject got = JsonObject(errors, &b->get_object(), "").object("spec");
    if ((want.flag("perDeviceNodeSelection") && !got.flag("perDeviceNodeSelection")) ||
        size_of(got, "sharedCounters") < size_of(want, "sharedCounters")) {
      gates.insert("DRAPartitionableDevices");
    }
    const std::vector<JsonObject> wanted = want.objects("devices");
    const std::vector<JsonObject> gotten = got.objects("devices");
    for (std::size_t i = 0; i < wanted.size() && i < gotten.size(); ++i)
      compare_devices(wanted[i], gotten[i], gates);
  }
  if (gates.empty()) return "unknown feature gate";
  return fmt::format("feature gate {} is probably off", fmt::join(gates, ", "));
}

}  // namespace dracpu::kube
