// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Payloads of NRI calls: wire bytes to the types of handler.h and back. No sockets, no protobuf types here.
//
// Source  spec nri-wire section 3; what is read is the list of 3.7.
// Errors  kInvalidInput  bytes that are not the message they should be
//         kInternal      an answer that must not reach the wire: an update of nothing (the runtime would
//         read
//                        "unchanged"), twice for one container, for the container being created, or with an
//                        id that is not UTF-8
// Cost    Linear. Containers are read one at a time; of each only what ContainerInfo holds is kept.
// Threads Values and functions without state.

#ifndef DRACPU_NRI_MESSAGES_H_
#define DRACPU_NRI_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "nri/handler.h"

namespace dracpu::nri {

inline constexpr std::string_view kPluginService = "nri.pkg.api.v1alpha1.Plugin";
inline constexpr std::string_view kRuntimeService = "nri.pkg.api.v1alpha1.Runtime";

// Create, update, stop and remove of containers; inside bits 0 to 10, which every runtime knows (spec 3.4).
inline constexpr std::int32_t kEventMask = 0x688;

enum class Method {
  kConfigure,
  kSynchronize,
  kCreateContainer,
  kUpdateContainer,
  kStopContainer,
  kRemoveContainer,
  kStateChange,
  kEmptyReply,  // Shutdown and events that we did not subscribe to: known, and there is nothing to say
};
std::optional<Method> find_method(std::string_view name);

std::string encode_register(std::string_view name, std::string_view index);
Result<RuntimeInfo> parse_configure(std::string_view payload);
std::string encode_configure_reply(std::int32_t events);

// Requests that have a pod in field 1 and a container in field 2.
Result<ContainerInfo> parse_container(std::string_view payload);

// The same of UpdateContainer, with what the container is to become in field 3.
Result<ContainerInfo> parse_update(std::string_view payload);

struct StateChange {
  bool removed = false;  // event REMOVE_CONTAINER; all others are of no interest
  ContainerInfo container;
};
Result<StateChange> parse_state_change(std::string_view payload);

// Collects the chunks of one Synchronize. Containers and their pods may come in different chunks.
class SyncSet {
 public:
  // True if more chunks follow. On error the set is as before or partly grown; clear it.
  Result<bool> add(std::string_view payload);
  // All containers with the data of their pods; leaves the set empty.
  std::vector<ContainerInfo> take();
  void clear();
  bool empty() const { return pods_.empty() && containers_.empty(); }

 private:
  struct Pod {
    std::string uid;
    std::string pod_namespace;
    std::string name;
  };
  std::unordered_map<std::string, Pod> pods_;
  std::vector<ContainerInfo> containers_;
};

std::string encode_sync_more();

struct EncodedUpdates {
  std::string payload;
  std::size_t sent = 0;  // the first `sent` updates are in the payload, the rest did not fit
};

// The updates in the order given, as many as fit a response of `limit` bytes of data.
Result<EncodedUpdates> encode_create_reply(const ContainerId& own, const CreateAnswer& answer,
                                           std::size_t limit);
// Replies to Synchronize, UpdateContainer and StopContainer, and UpdateContainersRequest: all carry the list
// in field 1. Continues at `first`.
Result<EncodedUpdates> encode_updates(const std::vector<ContainerUpdate>& updates, std::size_t first,
                                      std::size_t limit);

}  // namespace dracpu::nri

#endif  // DRACPU_NRI_MESSAGES_H_
