// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cdi/directory.h"

#include <utility>

#include "cdi/spec.h"

namespace dracpu::cdi {
std::string device_id(const ClaimUid& uid) { return device_id(kCpuFiles, uid); }

std::string env_name(const ClaimUid& uid) { return "DRA_CPUSET_" + uid.get(); }

Directory::Directory(std::filesystem::path dir, FileOps& ops) : files_(std::move(dir), kCpuFiles, ops) {}

Status Directory::write_claim(const ClaimUid& uid, const CpuSet& cpus) {
  if (Status s = check_uid(uid); !s.ok()) return s;
  if (cpus.empty()) return make_error(Errc::kInvalidInput, "claim \"{}\" has no CPUs to write", uid.get());
  return files_.write(uid, {fmt::format("{}={}", env_name(uid), cpus.to_string())});
}

Result<std::vector<Entry>> Directory::list() const {
  Result<std::vector<FileEntry>> files = files_.list();
  if (!files.ok()) return std::move(files).error();
  std::vector<Entry> out;
  out.reserve(files->size());
  for (FileEntry& f : *files) {
    Result<CpuSet> cpus = f.env.ok() ? cpus_in(f.uid, *f.env) : Result<CpuSet>(f.env.error());
    out.push_back({std::move(f.uid), std::move(cpus), std::move(f.path), f.layout});
  }
  return out;
}

}  // namespace dracpu::cdi
