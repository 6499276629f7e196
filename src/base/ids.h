// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Ids of different kinds never compare or convert into each other.
//
// Numbers are signed 32-bit where the kernel may print a negative value (spec: topology-sysfs section 1);
// text ids are Kubernetes or runtime identifiers, kept as received.

#ifndef DRACPU_BASE_IDS_H_
#define DRACPU_BASE_IDS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace dracpu {

template <typename Tag, typename Rep>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(Rep v) : v_(std::move(v)) {}
  constexpr const Rep& get() const { return v_; }
  friend constexpr auto operator<=>(const Id&, const Id&) = default;
  friend constexpr bool operator==(const Id&, const Id&) = default;

 private:
  Rep v_{};
};

using CpuId = Id<struct CpuIdTag, std::uint32_t>;
using NumaNodeId = Id<struct NumaNodeIdTag, std::int32_t>;
using SocketId = Id<struct SocketIdTag, std::int32_t>;

using ClaimUid = Id<struct ClaimUidTag, std::string>;          // metadata.uid of a ResourceClaim
using PodUid = Id<struct PodUidTag, std::string>;              // metadata.uid of a Pod
using PodSandboxId = Id<struct PodSandboxIdTag, std::string>;  // the runtime's id of a sandbox
using ContainerId = Id<struct ContainerIdTag, std::string>;    // the runtime's id of a container

// The logical container: the same through restarts.
struct Owner {
  PodUid pod;
  std::string container;
  friend auto operator<=>(const Owner&, const Owner&) = default;
};

}  // namespace dracpu

template <typename Tag, typename Rep>
struct std::hash<dracpu::Id<Tag, Rep>> {
  std::size_t operator()(const dracpu::Id<Tag, Rep>& id) const noexcept { return std::hash<Rep>{}(id.get()); }
};

#endif  // DRACPU_BASE_IDS_H_
