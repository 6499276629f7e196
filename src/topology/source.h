// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Where the reader's files come from: a directory, or a table in memory for fuzzing and overlays.
//
// Paths    Relative to the root, without a leading slash: "sys/devices/system/cpu/online".
// Answers  "Is not there" and "cannot be read" stay apart, because the first is a fact about the machine.
// Cost     No allocation beyond the caller's own buffers, which are reused from file to file.
// Threads  One reader at a time.

#ifndef DRACPU_TOPOLOGY_SOURCE_H_
#define DRACPU_TOPOLOGY_SOURCE_H_

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace dracpu::topology {

enum class Found { kYes, kAbsent, kUnreadable };

class Source {
 public:
  virtual ~Source() = default;
  // The whole content, to end of file.
  virtual Found read(const std::string& path, std::string& into) = 0;
  // Names in a directory, in any order.
  virtual Found list(const std::string& path, std::vector<std::string>& into) = 0;
  // The text of a symbolic link, not followed.
  virtual Found link(const std::string& path, std::string& into) = 0;
};

// Files below one directory. Links are resolved inside it where the kernel can do that (openat2, Linux 5.6);
// no path outside is opened.
class DirectorySource final : public Source {
 public:
  // kNotFound or kUnavailable if `root` cannot be opened.
  static Result<DirectorySource> open(const std::filesystem::path& root);

  Found read(const std::string& path, std::string& into) override;
  Found list(const std::string& path, std::vector<std::string>& into) override;
  Found link(const std::string& path, std::string& into) override;

 private:
  explicit DirectorySource(UniqueFd root) : root_(std::move(root)) {}
  UniqueFd open_below(const std::string& path, int flags, Found& why);

  UniqueFd root_;
  bool has_openat2_ = true;
};

// Files in a table. Directories are the prefixes of the paths.
class MemorySource final : public Source {
 public:
  void add(std::string path, std::string content) {
    files_.insert_or_assign(std::move(path), std::move(content));
  }
  void remove(const std::string& path) { files_.erase(path); }
  const std::map<std::string, std::string>& files() const { return files_; }

  Found read(const std::string& path, std::string& into) override;
  Found list(const std::string& path, std::vector<std::string>& into) override;
  Found link(const std::string& path, std::string& into) override;

 private:
  std::map<std::string, std::string> files_;
};

}  // namespace dracpu::topology

#endif  // DRACPU_TOPOLOGY_SOURCE_H_
