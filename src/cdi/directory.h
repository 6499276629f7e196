// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The CDI files of CPUs: a container gets its claim's variable, DRA_CPUSET_<UID>=<CPU list>.
//
// Files, errors, cost and threads as in claim_files.h. Release 0.1.0 kept all claims in one file,
// dra.cpu.json.

#ifndef DRACPU_CDI_DIRECTORY_H_
#define DRACPU_CDI_DIRECTORY_H_

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/cpuset.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/result.h"
#include "cdi/claim_files.h"

namespace dracpu::cdi {

// "dra.k8s.io/cpu=claim-<UID>".
std::string device_id(const ClaimUid& uid);
// "DRA_CPUSET_<UID>".
std::string env_name(const ClaimUid& uid);

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

  const std::filesystem::path& path() const { return files_.path(); }
  // Where the claim's own file is or would be. Only for a UID that passed check_uid().
  std::filesystem::path claim_path(const ClaimUid& uid) const { return files_.claim_path(uid); }

  // An empty set is refused: a container would get a variable without CPUs.
  Status write_claim(const ClaimUid& uid, const CpuSet& cpus);
  bool may_have(const ClaimUid& uid) const { return files_.may_have(uid); }
  Status remove_claim(const ClaimUid& uid) { return files_.remove(uid); }
  Result<std::vector<Entry>> list() const;
  Result<std::size_t> sweep() { return files_.sweep(); }

 private:
  ClaimFiles files_;
};

}  // namespace dracpu::cdi

#endif  // DRACPU_CDI_DIRECTORY_H_
