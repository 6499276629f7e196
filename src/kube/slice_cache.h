// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What we know about our slices on the server: the watch, corrected by our own writes that the watch has
// not delivered yet.
//
// Versions  Resource versions compare as numbers where they are numbers, as the Go helper does (spec
//           kubelet-dra-wire 7.4); an event that is not newer than our own write is an echo.
// Foreign   Slices of another driver or node are ignored, even if a server hands them out: nothing that is
//           not ours is ever deleted.
// Threads   One at a time.

#ifndef DRACPU_KUBE_SLICE_CACHE_H_
#define DRACPU_KUBE_SLICE_CACHE_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "kube/slice_codec.h"

namespace dracpu::kube {

class SliceCache {
 public:
  SliceCache(std::string driver, std::string node) : driver_(std::move(driver)), node_(std::move(node)) {}

  enum class Change { kNone, kChanged, kVanished };

  // A complete list. kVanished: a slice that we knew is gone.
  Change replace(const SliceList& list);
  Change apply(const WatchEvent& event);
  // Our own writes, as the server answered them.
  void written(ServerSlice slice);
  void deleted(const ServerSlice& slice);

  std::vector<ServerSlice> all() const;
  std::size_t size() const { return slices_.size(); }

 private:
  bool is_ours(const ServerSlice& slice) const { return slice.driver == driver_ && slice.node == node_; }

  std::string driver_;
  std::string node_;
  std::map<std::string, ServerSlice> slices_;  // by name
  std::set<std::string> deleted_;              // uids that we deleted and that the watch still may mention
  std::set<std::string> gone_;  // uids that the watch reported as deleted: our own answer may come later
};

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_SLICE_CACHE_H_
