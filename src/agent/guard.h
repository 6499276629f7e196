// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One owner per node: a lock on a file that every release and identity uses, held by the kernel for the life
// of the process (RULINGS 2).
//
// The lock is flock() on <cdi dir>/.dracpu.lock. It ends with the process however that dies. After locking,
// the path is compared with the locked file: somebody may have replaced it between opening and locking.
// Errors  kUnavailable  the folder or file cannot be made or locked (read-only, NFS); the text says what
// Threads One object, one thread; cancel() from any.

#ifndef DRACPU_AGENT_GUARD_H_
#define DRACPU_AGENT_GUARD_H_

#include <atomic>
#include <filesystem>
#include <optional>

#include "base/result.h"
#include "base/unique_fd.h"

namespace dracpu::agent {

class Guard {
 public:
  explicit Guard(const std::filesystem::path& folder) : path_(folder / ".dracpu.lock") {}

  // Takes the lock if it is free: true. False if another process has it.
  Result<bool> try_take();
  // Still the file at the path? False: it was removed or replaced, and we may not be alone.
  bool still_ours() const;
  void release() { fd_.reset(); }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_GUARD_H_
