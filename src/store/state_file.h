// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One durable file with a header that proves its content: what was written is read back, or an error says why
// not.
//
// Form    First line `dracpu-state MAJOR.MINOR sha256=HEX bytes=N`, then N bytes of payload. The checksum
// covers the
//         payload exactly as it lies on disk. What the payload means is the caller's business.
// Version Within a MAJOR every release reads every MINOR: a missing field has a default, an unknown one is
//         kept. A file of a later MINOR keeps that number when it is written back.
// Errors  load()  kNotFound     there is no file
//                 kCorrupt      header or checksum is wrong, or the file is cut short
//                 kUnsupported  another MAJOR: written by a release that this one cannot read
//                 kUnavailable  the kernel refused
//         save()  kUnavailable; the old content stands (see replace_file)
// Cost    save() is two syncs, some milliseconds on a disk: never under a lock that a hook needs.
// Threads One caller at a time.

#ifndef DRACPU_STORE_STATE_FILE_H_
#define DRACPU_STORE_STATE_FILE_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace dracpu::store {

struct Version {
  int major = 1;
  int minor = 0;
  friend bool operator==(const Version&, const Version&) = default;
};

class StateFile {
 public:
  explicit StateFile(std::filesystem::path path, FileOps& ops = real_file_ops())
      : path_(std::move(path)), ops_(ops) {}

  const std::filesystem::path& path() const { return path_; }
  // Of the content that load() gave; this release's own before that.
  Version version() const { return version_; }

  Result<std::string> load();
  // Mode 0600. Makes the folder (0750) if it is missing.
  Status save(std::string_view payload);
  // Whether a save has a chance, without writing: false on a file system or folder that cannot be written.
  Status can_save() const;
  // What load() gave may not be on disk yet: a process can end between putting the file there and syncing its
  // folder.
  Status sync() { return ops_.sync_dir(path_.parent_path()); }
  // Renames an unreadable file to NAME.unreadable-<seconds since 1970>, so that nothing is lost; gives the
  // new name.
  Result<std::filesystem::path> set_aside();
  // What set_aside() has made, by name. Empty if the folder cannot be read.
  std::vector<std::filesystem::path> kept_aside() const;

 private:
  std::filesystem::path path_;
  FileOps& ops_;
  Version version_;
};

// The bytes that save() writes and load() accepts. For tests and tools.
std::string seal(std::string_view payload, Version version = {});
struct Unsealed {
  Version version;
  std::string payload;
};
Result<Unsealed> unseal(std::string_view bytes);

}  // namespace dracpu::store

#endif  // DRACPU_STORE_STATE_FILE_H_
