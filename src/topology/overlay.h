// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Files that stand in front of another source: release 0.3.0's sysfs overlay.
//
// Source   spec driver-behaviours 3.5. A file of the overlay hides the same one below; directories merge.
//          What would contradict it is hidden too, because our reader prefers files that 0.3.0 does not read:
//          - an entry cpuN/nodeM puts CPU N into node M alone: the CPU lists of the nodes and the list of
//            nodes are made to agree;
//          - a CPU with an id of the overlay (package, core, cluster, die) loses the lists of its siblings
//            that the overlay does not give itself.
// Cost     One pass over the overlay when it is made, a map lookup per file read.
// Threads  As Source. `base` must outlive it.

#ifndef DRACPU_TOPOLOGY_OVERLAY_H_
#define DRACPU_TOPOLOGY_OVERLAY_H_

#include <map>
#include <set>
#include <string>

#include "topology/source.h"

namespace dracpu::topology {

class OverlaySource final : public Source {
 public:
  // Path, relative as in Source ("sys/devices/…"), to content. No path may be a directory of another.
  using Table = std::map<std::string, std::string>;

  OverlaySource(Source& base, Table files);

  Found read(const std::string& path, std::string& into) override;
  Found list(const std::string& path, std::vector<std::string>& into) override;
  Found link(const std::string& path, std::string& into) override;

 private:
  void agree_on_nodes();
  void hide_siblings();
  bool hides(const std::string& path) const;

  Source& base_;
  Table given_;
  MemorySource files_;
  std::set<std::string, std::less<>> cpus_with_ids_;    // "cpu3"
  std::set<std::string, std::less<>> cpus_with_nodes_;  // the same
};

}  // namespace dracpu::topology

#endif  // DRACPU_TOPOLOGY_OVERLAY_H_
