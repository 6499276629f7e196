// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The CDI files through which a container gets the variables of its claims: one file a claim and kind.
//
// Input    Claim UIDs come from outside. Every call checks them with check_uid() before they become part of a
//          path; kInvalidInput names the UID. Variables are "NAME=value" without quotes, backslashes or
//          control characters.
// Output   Mode 0644, replaced atomically and synced. The folder is made (0755) when it is missing, also
//          later, if somebody removed it. Other drivers kept all claims of a kind in one file: it is read
//          too, never added to, and a claim that is written or removed leaves it, since a runtime refuses a
//          device that two files define.
// Errors   kInvalidInput a UID or variable that cannot be written; kUnavailable the kernel refused, the text
//          has path and reason. A failed write means that the old content stands, or that the new one may not
//          survive a power cut: not done, try again.
// Cost     A write is two syncs, some milliseconds: never under a lock that a hook needs.
// Threads  Any, several at once; two calls for the same claim are the caller's to order.

#ifndef DRACPU_CDI_CLAIM_FILES_H_
#define DRACPU_CDI_CLAIM_FILES_H_

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/result.h"

namespace dracpu::cdi {

// One kind of devices, and how its files are named.
struct KindOfFiles {
  std::string_view kind;
  std::string_view prefix;      // of a claim's own file, before the UID
  std::string_view all_claims;  // the file of all claims, of other drivers
};
// Whatever the driver's name (RULINGS 20).
inline constexpr KindOfFiles kCpuFiles{"dra.k8s.io/cpu", "dra.k8s.io-cpu_claim-", "dra.cpu.json"};
inline constexpr KindOfFiles kMemoryFiles{"dra.k8s.io/memory", "dra.k8s.io-memory_claim-", "dra.memory.json"};

// "dra.k8s.io/cpu=claim-<UID>", the text that the kubelet hands to the runtime.
std::string device_id(const KindOfFiles& files, const ClaimUid& uid);
// 1 to 221 characters of [A-Za-z0-9.-], a letter or digit at both ends, no "..": what a CDI device name and a
// file name (255 bytes with our prefixes and suffixes) can hold.
Status check_uid(const ClaimUid& uid);

enum class Layout {
  kPerClaim,   // dra.k8s.io-cpu_claim-<UID>.json
  kAllClaims,  // dra.cpu.json
};

struct FileEntry {
  ClaimUid uid;                          // empty if the file does not even tell whose it is
  Result<std::vector<std::string>> env;  // kCorrupt or kUnavailable: why it cannot be read
  std::filesystem::path path;
  Layout layout = Layout::kPerClaim;
};

class ClaimFiles {
 public:
  // `ops` must outlive the object. Touches nothing.
  ClaimFiles(std::filesystem::path dir, const KindOfFiles& files, FileOps& ops = real_file_ops());

  const std::filesystem::path& path() const { return dir_; }
  // Where the claim's own file is or would be. Only for a UID that passed check_uid().
  std::filesystem::path claim_path(const ClaimUid& uid) const;

  Status write(const ClaimUid& uid, const std::vector<std::string>& env);
  // Whether a file of the claim may be there: false only if it is certain that none is.
  bool may_have(const ClaimUid& uid) const;
  // Success if there was nothing. A damaged file goes too.
  Status remove(const ClaimUid& uid);
  // Everything of the kind, ordered by path; files of other vendors are not looked at. A claim may occur
  // twice, once in each layout. A folder that is missing is empty.
  Result<std::vector<FileEntry>> list() const;
  // Removes what a crash in the middle of a write left behind; for the start, before the first write. Returns
  // how many files went.
  Result<std::size_t> sweep();

 private:
  FileEntry read_claim_file(const std::filesystem::path& path, ClaimUid uid) const;
  std::vector<FileEntry> read_file_of_all(const std::filesystem::path& path) const;
  Status drop_from_file_of_all(const ClaimUid& uid);

  std::filesystem::path dir_;
  KindOfFiles files_;
  FileOps& ops_;
  Mutex file_of_all_;  // one rewrite of it at a time; held over its I/O, taken only while it exists
};

}  // namespace dracpu::cdi

#endif  // DRACPU_CDI_CLAIM_FILES_H_
