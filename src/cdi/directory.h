// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The CDI files through which a container gets its claim's variable, DRA_CPUSET_<UID>=<CPU list>.
//
// Input    Claim UIDs come from outside. Every call checks them with check_uid() before they become part of a
//          path; kInvalidInput names the UID.
// Output   One file a claim, dra.k8s.io-cpu_claim-<UID>.json, mode 0644, replaced atomically and synced. The
//          folder is made (0755) when it is missing, also later, if somebody removed it.
//          Release 0.1.0 kept all claims in one file, dra.cpu.json: it is read too, never added to, and a
//          claim that is written or removed leaves it, since a runtime refuses a device that two files
//          define.
// Errors   kInvalidInput UID or CPU list that cannot be written; kUnavailable the kernel refused, the text
// has
//          path and reason. A failed write means that the old content stands, or that the new one may not
//          survive a power cut: not done, try again.
// Cost     A write is two syncs, some milliseconds: never under a lock that a hook needs.
// Threads  Any, several at once; two calls for the same claim are the caller's to order.

#ifndef DRACPU_CDI_DIRECTORY_H_
#define DRACPU_CDI_DIRECTORY_H_

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpuset.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/result.h"

namespace dracpu::cdi {

inline constexpr std::string_view kKind = "dra.k8s.io/cpu";       // whatever the driver's name (RULINGS 20)
inline constexpr std::string_view kOldFileName = "dra.cpu.json";  // release 0.1.0, all claims in one

// "dra.k8s.io/cpu=claim-<UID>", the text that the kubelet hands to the runtime.
std::string device_id(const ClaimUid& uid);
// "DRA_CPUSET_<UID>".
std::string env_name(const ClaimUid& uid);
// 1 to 224 characters of [A-Za-z0-9.-], a letter or digit at both ends, no "..": what a CDI device name and a
// file name (255 bytes with our prefix and suffixes) can hold.
Status check_uid(const ClaimUid& uid);

enum class Layout {
  kPerClaim,   // dra.k8s.io-cpu_claim-<UID>.json
  kAllClaims,  // dra.cpu.json
};

struct Entry {
  ClaimUid uid;         // empty if the file does not even tell whose it is
  Result<CpuSet> cpus;  // kCorrupt or kUnavailable: why it cannot be read
  std::filesystem::path path;
  Layout layout = Layout::kPerClaim;
};

class Directory {
 public:
  // `ops` must outlive the object. Touches nothing.
  explicit Directory(std::filesystem::path dir, FileOps& ops = real_file_ops());

  const std::filesystem::path& path() const { return dir_; }
  // Where the claim's own file is or would be. Only for a UID that passed check_uid().
  std::filesystem::path claim_path(const ClaimUid& uid) const;

  // An empty set is refused: a container would get a variable without CPUs.
  Status write_claim(const ClaimUid& uid, const CpuSet& cpus);

  // Whether a file of the claim may be there: false only if it is certain that none is.
  bool may_have(const ClaimUid& uid) const;

  // Success if there was nothing. A damaged file goes too.
  Status remove_claim(const ClaimUid& uid);

  // Everything of our kind, ordered by path; files of other vendors are not looked at. A claim may occur
  // twice, once in each layout. A folder that is missing is empty.
  Result<std::vector<Entry>> list() const;

  // Removes what a crash in the middle of a write left behind; for the start, before the first write. Returns
  // how many files went.
  Result<std::size_t> sweep();

 private:
  Status drop_from_old_file(const ClaimUid& uid);

  std::filesystem::path dir_;
  FileOps& ops_;
  Mutex old_file_;  // one rewrite of the old file at a time; held over its I/O, taken only while it exists
};

}  // namespace dracpu::cdi

#endif  // DRACPU_CDI_DIRECTORY_H_
