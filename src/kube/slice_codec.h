// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// ResourceSlice objects of resource.k8s.io/v1: written from our devices, read back from the server.
//
// Content   Two slices publish the same when their `content` texts are equal: everything in `spec` except
//           driver, pool and nodeName, with sorted keys, quantities by value, and null, empty and default
//           false fields left out. Fields that we do not know count, so a foreign edit shows.
// Errors    kCorrupt with the JSON path, for what the server sent.
// Threads   No state.

#ifndef DRACPU_KUBE_SLICE_CODEC_H_
#define DRACPU_KUBE_SLICE_CODEC_H_

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/device.h"
#include "kube/api_status.h"
#include "kube/slice_publisher.h"

namespace dracpu::kube {

// What the server is thought to take (rulings 18).
struct SliceFeatures {
  enum class Mapping { kNone, kAllocationMultiplier, kNodeAllocatableResources };  // never, 1.36, 1.37
  bool lists = true;  // attributes with several values: 1.36 and a gate
  Mapping mapping = Mapping::kNodeAllocatableResources;

  // For Kubernetes 1.`minor`.
  static SliceFeatures of_minor(int minor);
  friend bool operator==(const SliceFeatures&, const SliceFeatures&) = default;
};

// One desired slice, ready to send.
struct WireSlice {
  std::string devices;  // JSON list
  std::string content;
  bool has_lists = false;  // in `devices`
  bool has_mapping = false;
  bool lists_left_out = false;
  bool mapping_left_out = false;
};

// One value as the API has it: {"int": 4}.
boost::json::object attribute_json(const device::AttributeValue& value);

WireSlice encode_slice(const device::Slice& slice, const SliceFeatures& features,
                       const std::optional<AllocatableMapping>& mapping);

// kInvalidInput when a device name comes twice: the server checks only inside one slice.
Status check_pool(const std::vector<device::Slice>& slices);

// One slice as the server has it.
struct ServerSlice {
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string driver;
  std::string node;
  std::string pool;
  std::int64_t generation = 0;
  std::int64_t count = 0;  // resourceSliceCount
  std::string content;
  std::string node_owner;  // uid of the owning Node, empty if none
  std::string metadata;    // JSON, kept for updates
};

Result<ServerSlice> parse_slice(std::string_view json);

struct SliceList {
  std::vector<ServerSlice> items;
  std::string resource_version;
  std::string continue_token;
};
Result<SliceList> parse_slice_list(std::string_view json);

struct WatchEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark, kError, kUnknown };
  Type type = Type::kUnknown;
  std::string resource_version;
  std::optional<ServerSlice> slice;  // of the first three types
  ApiStatus error;                   // of kError
};
Result<WatchEvent> parse_watch_line(std::string_view line);

Result<std::string> parse_node_uid(std::string_view json);
// Minor number from GET /version: "34+" is 34.
Result<int> parse_server_minor(std::string_view json);

struct SliceTarget {
  std::string driver;
  std::string node;
  std::string node_uid;
  std::int64_t generation = 0;
  std::size_t count = 0;
};

// Request bodies.
std::string create_body(const SliceTarget& target, std::size_t index, const WireSlice& slice);
std::string update_body(const SliceTarget& target, const ServerSlice& known, const WireSlice& slice);
std::string delete_body(const std::string& uid, const std::string& resource_version);

// "0000a": what comes before the first "-" in the name of slice `index` of `count`.
std::string index_prefix(std::size_t index, std::size_t count);

// What was lost between the request and the answer, with the feature gate that probably is off (section 6.7).
std::string describe_dropped(std::string_view sent, std::string_view received);

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_SLICE_CODEC_H_
