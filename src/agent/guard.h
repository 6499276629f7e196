// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One owner per node: a lock on a file that every release and identity uses, held by the kernel for the life
// of the process (RULINGS 2).
//
// The lock is flock() on <cdi dir>/.dracpu.lock. It ends with the process however that dies. After locking,
// the path is compared with the locked file: somebody may have replaced it between opening and locking.
// A standby waits for it in the kernel (LockWait): it has the lock as soon as the other process is gone.
//
// Errors  kUnavailable  the folder or file cannot be made or locked, or lies on a network file system; the
//                       text says what to do
// Threads One object, one thread.

#ifndef DRACPU_AGENT_GUARD_H_
#define DRACPU_AGENT_GUARD_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "base/unique_fd.h"

namespace dracpu::agent {

// "NFS" and the like for a file system whose locks other machines may hold or miss, by its f_type of
// statfs(2); empty for all others.
std::string_view network_file_system(std::uint64_t type);

class LockWait;

class Guard {
 public:
  explicit Guard(const std::filesystem::path& folder) : path_(folder / ".dracpu.lock") {}

  // Takes the lock if it is free: true. False if another process has it.
  Result<bool> try_take();
  // Takes over what a wait that is done() got. False if it got the lock of a file that is no longer there.
  Result<bool> take(LockWait& wait);
  // Still the file at the path? False: it was removed or replaced, and we may not be alone.
  bool still_ours() const;
  void release() { fd_.reset(); }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  UniqueFd fd_;
};

// A thread that sleeps until the lock is free and then holds it. The destructor ends the wait and gives back
// what nobody took over. Uses SIGUSR1, whose handler does nothing.
class LockWait {
 public:
  // `done` is called on the waiting thread, once.
  LockWait(const Guard& guard, std::function<void()> done);
  ~LockWait();
  LockWait(const LockWait&) = delete;
  LockWait& operator=(const LockWait&) = delete;

  bool done() const { return done_; }

 private:
  friend class Guard;
  void wait(const std::filesystem::path& path);

  std::function<void()> tell_;
  Result<UniqueFd> held_{UniqueFd()};  // the thread's, until done_
  std::atomic<bool> stop_{false};
  std::atomic<bool> done_{false};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_GUARD_H_
