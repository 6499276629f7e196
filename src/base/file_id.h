// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Which file it is, whatever its name: whether a path still leads to the file that we made or hold.
//
// An open descriptor, or a bound socket, keeps the number from coming back on another file.
// Threads A value.

#ifndef DRACPU_BASE_FILE_ID_H_
#define DRACPU_BASE_FILE_ID_H_

#include <sys/stat.h>

namespace dracpu {

struct FileId {
  dev_t device = 0;
  ino_t inode = 0;  // 0: no file

  FileId() = default;
  explicit FileId(const struct stat& st) : device(st.st_dev), inode(st.st_ino) {}
  friend bool operator==(const FileId&, const FileId&) = default;
};

}  // namespace dracpu

#endif  // DRACPU_BASE_FILE_ID_H_
