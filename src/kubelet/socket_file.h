// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One unix socket file of ours, from its temporary name to its removal.
//
// The server library binds a path by itself, and removes that path by itself when it ends, without a look at
// whose socket lies there by then. So it is given a dot name in the same folder; once it listens the file
// gets its final name by rename, which is also what the kubelet's watcher wants to see (spec
// kubelet-dra-wire 1.5), and the final name is ours to remove: only while it is still the file that we made.
// The kernel keeps a bound socket's inode for as long as it is open, so its number cannot come back on
// another file meanwhile.
//
// Errors  kUnavailable and kNotFound name the path and the reason.
// Threads still_ours() any; the rest by the owner.

#ifndef DRACPU_KUBELET_SOCKET_FILE_H_
#define DRACPU_KUBELET_SOCKET_FILE_H_

#include <atomic>
#include <filesystem>
#include <string>

#include "base/bind_address.h"
#include "base/file_id.h"
#include "base/result.h"

namespace dracpu::kubelet {

class SocketFile {
 public:
  // Nothing is touched. `hidden_name` must begin with a dot.
  SocketFile(std::filesystem::path path, const std::string& hidden_name);
  ~SocketFile() { remove(); }
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Where to bind.
  const std::filesystem::path& hidden_path() const { return hidden_; }

  // Removes what a crash left at the hidden path.
  Status clear_hidden() const;
  // After bind and listen: mode 0600, then the final name, in the place of whatever was there.
  Status publish();
  // False before publish() and after remove().
  bool still_ours() const;
  // Removes the file if it is ours.
  void remove();

 private:
  std::filesystem::path path_;
  std::filesystem::path hidden_;
  std::atomic<bool> published_ = false;  // set last, so that the one below is settled for who sees it
  FileId file_;
};

// Somebody accepts connections at `path`: kConflict, with the process id where the kernel tells it. A file
// that is missing, or that nobody listens on, is fine.
Status check_nobody_listens(const std::filesystem::path& path);

// `path` is a folder, or becomes one with `mode`; its parent must be there.
Status ensure_folder(const std::filesystem::path& path, mode_t mode);

}  // namespace dracpu::kubelet

#endif  // DRACPU_KUBELET_SOCKET_FILE_H_
