// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Which calls bring the server's slices to the desired state (spec kubelet-dra-wire 6.6).
//
// Matching    The hex number before the first "-" of a slice's name is its index in the desired list. Other
//             names, other pools, duplicates, surplus indexes and lower generations are obsolete: deleted.
// Generation  g is the highest of our pool on the server. Nothing to create and at most one changed slice
//             keeps g, otherwise it is g + 1 and every matched slice is updated. A new pool has 1.
// Owner       A slice whose owning Node has another uid than `node_uid` is updated, too, or garbage
//             collection would take it; that alone does not raise the generation.
// Order       Deletes, updates, creates in index order.
// Purity      Same input, same plan; no I/O, no clock.

#ifndef DRACPU_KUBE_SLICE_PLANNER_H_
#define DRACPU_KUBE_SLICE_PLANNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kube/slice_codec.h"

namespace dracpu::kube {

struct DesiredSlice {
  std::string content;
  // What the server made of it when it was sent (dropped fields); empty if it was taken as it is.
  std::string accepted;
};

struct SliceAction {
  enum class Kind { kDelete, kUpdate, kCreate };
  Kind kind = Kind::kCreate;
  std::size_t index = 0;  // in the desired list; not for kDelete
  ServerSlice known;      // not for kCreate
};

struct SlicePlan {
  std::int64_t generation = 0;
  std::vector<SliceAction> actions;  // empty: all is as desired
};

// `known` holds only slices of our driver and node. An empty `node_uid` means not known yet: owners are
// then not looked at.
SlicePlan plan_slices(const std::string& pool, const std::string& node_uid,
                      const std::vector<DesiredSlice>& desired, const std::vector<ServerSlice>& known);

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_SLICE_PLANNER_H_
