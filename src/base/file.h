// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Reading whole files, and replacing files so that a reader sees the old content or the new, never half.
//
// Errors  kNotFound    the path does not exist
//         kUnavailable the kernel refused; the text names the path and the reason
// Threads Any; no state.

#ifndef DRACPU_BASE_FILE_H_
#define DRACPU_BASE_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dracpu {

// The whole content, read to end of file in a loop (sysfs reports sizes that are not true). A file longer
// than `limit` bytes is kInvalidInput. Never waits for a writer: a FIFO is kUnavailable, unless it is a
// descriptor that this process was given (/dev/stdin, /dev/fd/N).
Result<std::string> read_file(const std::filesystem::path& path, std::size_t limit = std::size_t{16} << 20U);

// The steps of a durable replacement, one method each, so that a test can make any of them fail.
class FileOps {
 public:
  virtual ~FileOps() = default;
  // Creates or truncates `path` with `mode`, writes all of `data`, and syncs the file.
  virtual Status write_and_sync(const std::filesystem::path& path, std::string_view data, mode_t mode) = 0;
  virtual Status rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  // Removes a file; one that is not there is kNotFound.
  virtual Status remove(const std::filesystem::path& path) = 0;
  virtual Status sync_dir(const std::filesystem::path& dir) = 0;
};

// The kernel's own. Stateless, lives for the whole process.
FileOps& real_file_ops();
// The same without syncs: replaced atomically for readers, but a crash may leave any mixture. For content
// that is made again afterwards.
FileOps& unsynced_file_ops();

// Replaces `target` with `data`: write beside (a dot name that ends in ".new", so no directory scanner takes
// it for the file), sync, rename, sync the directory. After a crash at any point a reader finds the whole old
// content or the whole new one. On error the old content still stands, unless only the last step failed:
// then the new one stands but may not survive a power cut, and the caller treats the write as not done.
Status replace_file(FileOps& ops, const std::filesystem::path& target, std::string_view data, mode_t mode);

// Removes `target` and syncs its directory. Success if it was not there.
Status remove_file(FileOps& ops, const std::filesystem::path& target);

}  // namespace dracpu

#endif  // DRACPU_BASE_FILE_H_
