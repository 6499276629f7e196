// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "nri/messages.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>

#include "nri.pb.h"
#include "nri/ttrpc.h"

namespace dracpu::nri {
namespace {

namespace api = ::nri::pkg::api::v1alpha1;
using google::protobuf::Arena;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr std::string_view kEnvPrefix = "DRA_CPUSET";
constexpr std::string_view kMemoryEnvPrefix = "DRAMEMORY_";
constexpr const char* kNameLabel = "io.kubernetes.container.name";
constexpr const char* kPodUidLabel = "io.kubernetes.pod.uid";
constexpr const char* kPodNameLabel = "io.kubernetes.pod.name";
constexpr const char* kPodNamespaceLabel = "io.kubernetes.pod.namespace";

bool parse(google::protobuf::MessageLite& message, std::string_view bytes) {
  return bytes.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()) &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

Error not_a(std::string_view what, std::size_t size) {
  return make_error(Errc::kInvalidInput, "{} bytes are not a {}", size, what);
}

MemorySettings memory_of(const api::LinuxResources& from) {
  MemorySettings out;
  out.mems = from.cpu().mems();
  for (const api::HugepageLimit& limit : from.hugepage_limits())
    out.hugepage_limits.insert_or_assign(limit.page_size(), limit.limit());
  if (from.memory().has_limit()) out.limit = from.memory().limit().value();
  return out;
}

ContainerInfo extract(const api::Container& from) {
  ContainerInfo out;
  out.id = ContainerId(from.id());
  out.sandbox = PodSandboxId(from.pod_sandbox_id());
  out.name = from.name();
  const auto label = [&from](const char* name) {
    const auto found = from.labels().find(name);
    return found == from.labels().end() ? std::string() : found->second;
  };
  if (out.name.empty()) out.name = label(kNameLabel);
  // The kubelet's words about the pod, for a list that lacks it: a runtime that has just started leaves out
  // pods that it could not look at in time, and still names their containers.
  out.pod_uid = PodUid(label(kPodUidLabel));
  out.pod_name = label(kPodNameLabel);
  out.pod_namespace = label(kPodNamespaceLabel);
  for (const std::string& entry : from.env()) {
    if (std::string_view(entry).starts_with(kEnvPrefix)) out.env.push_back(entry);
    if (std::string_view(entry).starts_with(kMemoryEnvPrefix)) out.memory_env.push_back(entry);
  }
  out.cpus = from.linux().resources().cpu().cpus();
  out.memory = memory_of(from.linux().resources());
  return out;
}

ContainerInfo extract(const api::PodSandbox& pod, const api::Container& container) {
  ContainerInfo out = extract(container);
  if (out.sandbox.get().empty()) out.sandbox = PodSandboxId(pod.id());
  out.pod_uid = PodUid(pod.uid());
  out.pod_namespace = pod.namespace_();
  out.pod_name = pod.name();
  out.pod_cgroup = pod.linux().cgroup_parent();
  return out;
}

Status check(const ContainerUpdate& update) {
  if (update.id.get().empty() || !is_utf8(update.id.get()) || !is_utf8(update.memory.mems)) {
    return make_error(Errc::kInternal, "update of container \"{}\": the id or the node list cannot be sent",
                      valid_utf8(update.id.get()));
  }
  if (!update.cpus.empty() || !update.memory.is_empty()) return ok_status();
  return make_error(Errc::kInternal, "update of container \"{}\" has no CPUs", update.id.get());
}

Status check_all(const std::vector<ContainerUpdate>& updates, const ContainerId* own) {
  std::vector<std::string_view> ids;
  ids.reserve(updates.size());
  for (const ContainerUpdate& update : updates) {
    if (Status ok = check(update); !ok) return ok;
    if (own != nullptr && update.id == *own) {
      return make_error(Errc::kInternal, "update of container \"{}\" in the answer to its own creation",
                        own->get());
    }
    ids.push_back(update.id.get());
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice == ids.end()) return ok_status();
  return make_error(Errc::kInternal, "two updates of container \"{}\" in one answer", *twice);
}

void set_resources(api::LinuxResources& resources, const CpuSet& cpus, const MemorySettings& memory) {
  if (!cpus.empty()) resources.mutable_cpu()->set_cpus(cpus.to_string());
  if (!memory.mems.empty()) resources.mutable_cpu()->set_mems(memory.mems);
  for (const auto& [size, bytes] : memory.hugepage_limits) {
    api::HugepageLimit* const limit = resources.add_hugepage_limits();
    limit->set_page_size(size);
    limit->set_limit(bytes);
  }
  if (memory.limit) resources.mutable_memory()->mutable_limit()->set_value(*memory.limit);
}

// Bytes of a message as an element of a repeated field with a number below 16.
std::size_t size_as_field(const google::protobuf::MessageLite& message) {
  return 1 + WireFormatLite::LengthDelimitedSize(message.ByteSizeLong());
}

// Appends updates from `first` on to `wire` until data of a response or request would pass `limit`. Returns
// how many of the list are now sent, counted from its start.
template <typename Wire>
std::size_t append_fitting(Wire& wire, const std::vector<ContainerUpdate>& updates, std::size_t first,
                           std::size_t limit) {
  // What the ttrpc envelope adds: for a response tag and length, for a request also the names of service and
  // method.
  constexpr std::size_t kEnvelope = 128;
  std::size_t used = wire.ByteSizeLong() + kEnvelope;
  std::size_t next = first;
  for (; next < updates.size(); ++next) {
    api::ContainerUpdate* const item = wire.add_update();
    item->set_container_id(updates[next].id.get());
    set_resources(*item->mutable_linux()->mutable_resources(), updates[next].cpus, updates[next].memory);
    used += size_as_field(*item);
    if (used > limit) {
      wire.mutable_update()->RemoveLast();
      break;
    }
  }
  return next;
}

std::string serialize(const google::protobuf::MessageLite& wire) { return wire.SerializeAsString(); }

// Reads the length-delimited field whose tag has just been read. Empty without a value on malformed bytes.
std::optional<std::string_view> read_bytes(CodedInputStream& in) {
  std::uint32_t size = 0;
  const void* data = nullptr;
  int available = 0;
  if (!in.ReadVarint32(&size)) return std::nullopt;
  if (size == 0) return std::string_view();
  if (!in.GetDirectBufferPointer(&data, &available) || std::cmp_less(available, size)) return std::nullopt;
  const std::string_view out(static_cast<const char*>(data), size);
  in.Skip(static_cast<int>(size));
  return out;
}

}  // namespace

std::optional<Method> find_method(std::string_view name) {
  static constexpr std::pair<std::string_view, Method> kTable[] = {
      {"Configure", Method::kConfigure},
      {"Synchronize", Method::kSynchronize},
      {"CreateContainer", Method::kCreateContainer},
      {"UpdateContainer", Method::kUpdateContainer},
      {"StopContainer", Method::kStopContainer},
      {"RemoveContainer", Method::kRemoveContainer},
      {"StateChange", Method::kStateChange},
      {"Shutdown", Method::kEmptyReply},
      {"RunPodSandbox", Method::kEmptyReply},
      {"UpdatePodSandbox", Method::kEmptyReply},
      {"PostUpdatePodSandbox", Method::kEmptyReply},
      {"StopPodSandbox", Method::kEmptyReply},
      {"RemovePodSandbox", Method::kEmptyReply},
      {"PostCreateContainer", Method::kEmptyReply},
      {"StartContainer", Method::kEmptyReply},
      {"PostStartContainer", Method::kEmptyReply},
      {"PostUpdateContainer", Method::kEmptyReply},
      {"ValidateContainerAdjustment", Method::kEmptyReply},  // no field set: not rejected
  };
  for (const auto& [known, method] : kTable) {
    if (known == name) return method;
  }
  return std::nullopt;
}

std::string encode_register(std::string_view name, std::string_view index) {
  api::RegisterPluginRequest wire;
  wire.set_plugin_name(valid_utf8(name));
  wire.set_plugin_idx(valid_utf8(index));
  return serialize(wire);
}

Result<RuntimeInfo> parse_configure(std::string_view payload) {
  api::ConfigureRequest wire;
  if (!parse(wire, payload)) return not_a("ConfigureRequest", payload.size());
  RuntimeInfo out;
  out.name = wire.runtime_name();
  out.version = wire.runtime_version();
  out.nri_version = wire.nri_version();
  constexpr std::int64_t kHour = 3'600'000;
  if (wire.request_timeout() > 0) {
    out.request_timeout = std::chrono::milliseconds(std::min(wire.request_timeout(), kHour));
  }
  return out;
}

std::string encode_configure_reply(std::int32_t events) {
  api::ConfigureResponse wire;
  wire.set_events(events);
  return serialize(wire);
}

Result<ContainerInfo> parse_container(std::string_view payload) {
  Arena arena;
  auto& wire = *Arena::CreateMessage<api::CreateContainerRequest>(&arena);
  if (!parse(wire, payload)) return not_a("request about a container", payload.size());
  return extract(wire.pod(), wire.container());
}

Result<ContainerInfo> parse_update(std::string_view payload) {
  Arena arena;
  auto& wire = *Arena::CreateMessage<api::UpdateContainerRequest>(&arena);
  if (!parse(wire, payload)) return not_a("UpdateContainerRequest", payload.size());
  ContainerInfo out = extract(wire.pod(), wire.container());
  out.asked = memory_of(wire.linux_resources());
  return out;
}

Result<StateChange> parse_state_change(std::string_view payload) {
  Arena arena;
  auto& wire = *Arena::CreateMessage<api::StateChangeEvent>(&arena);
  if (!parse(wire, payload)) return not_a("StateChangeEvent", payload.size());
  return StateChange{wire.event() == api::REMOVE_CONTAINER, extract(wire.pod(), wire.container())};
}

Result<bool> SyncSet::add(std::string_view payload) {
  if (payload.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return not_a("SynchronizeRequest", payload.size());
  }
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(payload.data()),
                      static_cast<int>(payload.size()));
  constexpr std::uint32_t kPods = 1U << 3U | 2U;
  constexpr std::uint32_t kContainers = 2U << 3U | 2U;
  constexpr std::uint32_t kMore = 3U << 3U | 0U;
  // One object at a time in a block that is used again, so that a large node costs its result and one object.
  std::array<char, std::size_t{16} << 10U> block;
  google::protobuf::ArenaOptions options;
  options.initial_block = block.data();
  options.initial_block_size = block.size();
  Arena arena(options);
  bool more = false;
  for (std::uint32_t tag = in.ReadTag(); tag != 0; tag = in.ReadTag()) {
    if (tag == kMore) {
      std::uint64_t value = 0;
      if (!in.ReadVarint64(&value)) return not_a("SynchronizeRequest", payload.size());
      more = value != 0;
    } else if (tag == kPods || tag == kContainers) {
      const std::optional<std::string_view> bytes = read_bytes(in);
      if (!bytes) return not_a("SynchronizeRequest", payload.size());
      if (tag == kPods) {
        auto& pod = *Arena::CreateMessage<api::PodSandbox>(&arena);
        if (!parse(pod, *bytes)) return not_a("PodSandbox", bytes->size());
        pods_.insert_or_assign(pod.id(), Pod{pod.uid(), pod.namespace_(), pod.name()});
      } else {
        auto& container = *Arena::CreateMessage<api::Container>(&arena);
        if (!parse(container, *bytes)) return not_a("Container", bytes->size());
        containers_.push_back(extract(container));
      }
      arena.Reset();
    } else if (!WireFormatLite::SkipField(&in, tag)) {
      return not_a("SynchronizeRequest", payload.size());
    }
  }
  if (!in.ConsumedEntireMessage()) return not_a("SynchronizeRequest", payload.size());
  return more;
}

std::vector<ContainerInfo> SyncSet::take() {
  for (ContainerInfo& container : containers_) {
    const auto pod = pods_.find(container.sandbox.get());
    if (pod == pods_.end()) continue;
    container.pod_uid = PodUid(pod->second.uid);
    container.pod_namespace = pod->second.pod_namespace;
    container.pod_name = pod->second.name;
  }
  std::vector<ContainerInfo> out = std::move(containers_);
  clear();
  return out;
}

void SyncSet::clear() {
  pods_ = {};
  containers_ = {};
}

std::string encode_sync_more() {
  api::SynchronizeResponse wire;
  wire.set_more(true);
  return serialize(wire);
}

Result<EncodedUpdates> encode_create_reply(const ContainerId& own, const CreateAnswer& answer,
                                           std::size_t limit) {
  if (Status ok = check_all(answer.updates, &own); !ok) return std::move(ok).error();
  if (!is_utf8(answer.memory.mems))
    return Error{Errc::kInternal, "the node list of a new container cannot be sent"};
  Arena arena;
  auto& wire = *Arena::CreateMessage<api::CreateContainerResponse>(&arena);
  if (!answer.cpus.empty() || !answer.memory.is_empty()) {
    set_resources(*wire.mutable_adjust()->mutable_linux()->mutable_resources(), answer.cpus, answer.memory);
  }
  EncodedUpdates out;
  out.sent = append_fitting(wire, answer.updates, 0, limit);
  out.payload = serialize(wire);
  return out;
}

Result<EncodedUpdates> encode_updates(const std::vector<ContainerUpdate>& updates, std::size_t first,
                                      std::size_t limit) {
  if (Status ok = check_all(updates, nullptr); !ok) return std::move(ok).error();
  Arena arena;
  auto& wire = *Arena::CreateMessage<api::StopContainerResponse>(&arena);
  EncodedUpdates out;
  out.sent = append_fitting(wire, updates, first, limit);
  out.payload = serialize(wire);
  return out;
}

}  // namespace dracpu::nri
