// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Sees from outside which driver process acts: holds a connection to the runtime, listens for the kubelet,
// writes to the API server. Two at the same instant are a finding.
//
// How     The process at the other end of a unix socket is the kernel's word (SO_PEERCRED). A connection
// counts until
//         the peer has closed it, a listener while it takes connections. Writes carry a name that only one
//         process was given. A process that was sent SIGKILL cannot act any more, whatever the kernel has
//         still to close.
// Threads Any; one of its own that looks at the sockets every 2 ms.

#ifndef DRACPU_CHAOS_WITNESS_H_
#define DRACPU_CHAOS_WITNESS_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace dracpu::chaos {

// Who listens at the path: its process id, or nothing.
std::optional<pid_t> listener_at(const std::filesystem::path& socket);
// Who holds the flock() of the file; nothing if nobody does, or if the kernel does not show it.
std::optional<pid_t> lock_holder(const std::filesystem::path& file);

class Witness {
 public:
  using Clock = std::chrono::steady_clock;

  Witness(std::filesystem::path registration_socket, std::filesystem::path dra_socket);
  ~Witness();

  // A process that may act; `name` is what it shows to the API server.
  void born(pid_t pid, const std::string& name);
  // Just before SIGKILL is sent.
  void killed(pid_t pid);
  // The kernel may give its number to another now.
  void reaped(pid_t pid);
  void connected_to_runtime(int socket);
  void wrote(const std::string& name);

  // When the process connected to the runtime; nothing if it has not.
  std::optional<Clock::time_point> connected(pid_t pid) const;
  bool listens(pid_t pid) const;
  std::vector<std::string> findings() const;
  struct Counts {
    std::size_t connections = 0;
    std::size_t listeners = 0;  // distinct processes
    std::size_t writes = 0;
    std::size_t looks = 0;
  };
  Counts counts() const;

 private:
  struct Plug {
    pid_t pid = 0;
    UniqueFd socket;
  };
  void look_all();
  // All that act besides `pid`, which does `what` now, are a finding. Under mutex_.
  void judge(pid_t pid, const std::string& what);
  void find(std::string what);

  const std::filesystem::path registration_;
  const std::filesystem::path dra_;
  mutable std::mutex mutex_;
  std::map<std::string, pid_t> names_;
  std::set<pid_t> killed_;
  std::vector<Plug> plugs_;
  std::map<pid_t, Clock::time_point> connected_;
  std::set<pid_t> listened_;
  std::vector<std::string> findings_;
  Counts counts_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace dracpu::chaos

#endif  // DRACPU_CHAOS_WITNESS_H_
