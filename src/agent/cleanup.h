// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the driver leaves on a node: found, told, and removed after the last uninstall.
//
// Finds    sockets and folder of each driver name below the kubelet's root, the state file with what was kept
//          beside it, CDI files of claims in both layouts, metadata files with theirs, the lock.
// Links    Folders below the given ones are entered only if they are folders themselves; a link, and anything
//          whose name or type is not the driver's, stays and is told. A file is removed only if it is still
//          the one that was found.
// Alive    A held lock or an answering socket means that a driver works here: plan.alive, nothing is removed.
//          While this object lives it holds the lock, if there is one, so that no driver starts meanwhile.
// Errors   look(): kUnavailable, a folder or the lock cannot be read or taken; nothing is known then.
//          remove(): told in each Trace.
// Threads  One at a time.

#ifndef DRACPU_AGENT_CLEANUP_H_
#define DRACPU_AGENT_CLEANUP_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "agent/guard.h"
#include "base/file_id.h"
#include "base/result.h"

namespace dracpu::agent {

struct CleanupPlace {
  std::filesystem::path kubelet_root;
  std::filesystem::path cdi_dir;
  std::filesystem::path state_file;
  std::vector<std::string> drivers;  // names to look for, valid ones; "dra.cpu" and so on
  // What these names left alone, while a driver of another name may work here: neither the claims' CDI files
  // nor the state file nor the lock, which belong to every name.
  bool is_names_only = false;
};

struct Trace {
  enum class Kind { kFile, kSocket, kFolder };
  enum class Outcome { kPlanned, kRemoved, kGone, kFailed };
  std::filesystem::path path;
  std::string what;  // "CDI file of claim UID"
  Kind kind = Kind::kFile;
  FileId id;
  Outcome outcome = Outcome::kPlanned;
  std::string why;  // of kFailed
};

struct KeptPath {
  std::filesystem::path path;
  std::string why;
};

struct CleanupPlan {
  std::vector<Trace> traces;  // in the order of removal: a folder after what lies in it
  std::vector<KeptPath> kept;
  std::vector<std::string> alive;   // signs of a driver at work
  std::vector<std::string> claims;  // claims on record
};

class Cleanup {
 public:
  explicit Cleanup(CleanupPlace place);

  // Fills the plan. With `will_remove` the lock is made and taken even if there is none yet.
  Status look(bool will_remove);
  // Only after look(true), and only when nothing is alive.
  void remove();
  const CleanupPlan& plan() const { return plan_; }

 private:
  Status take_lock(bool will_remove);
  void look_for_life();
  void look_for_claims();
  Status look_at_plugins();
  Status look_at_plugin(const std::filesystem::path& dir, const std::string& driver);
  Status look_at_metadata(const std::filesystem::path& dir);
  Status look_at_state();
  Status look_at_cdi();
  // Adds what is there with the right type; what is there with another one is kept.
  void add(const std::filesystem::path& path, Trace::Kind kind, std::string what);
  void keep(const std::filesystem::path& path, std::string why);
  // Whether a folder may be entered; one that may not is kept.
  bool may_enter(const std::filesystem::path& dir);
  // The folder itself, if nothing in it stays.
  Status add_folder(const std::filesystem::path& dir, std::string what);

  CleanupPlace place_;
  Guard guard_;
  bool is_held_elsewhere_ = false;
  CleanupPlan plan_;
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_CLEANUP_H_
