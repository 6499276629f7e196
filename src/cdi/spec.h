// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The text of CDI files: what we write, and what we read back from ours and from older releases'.
//
// Input    Bytes from disk, not trusted: any writer may have put them there.
// Output   Devices in the file's order. Members of the format that we never write (mounts, hooks, further
//          variables) are ignored.
// Errors   kCorrupt, with the reason.
// Threads  No state.

#ifndef DRACPU_CDI_SPEC_H_
#define DRACPU_CDI_SPEC_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/cpuset.h"
#include "base/ids.h"
#include "base/result.h"

namespace dracpu::cdi {

struct SpecVariables {
  ClaimUid uid;
  std::vector<std::string> env;  // all that are texts
};

// The whole file for one claim, without white space. `uid` has passed check_uid(), so that it needs no
// escaping; kInvalidInput if a variable needs some.
Result<std::string> variables_spec(std::string_view kind, const ClaimUid& uid,
                                   const std::vector<std::string>& env);
// One element a device; a device whose name is not "claim-<UID>" is an error of the whole file, as is another
// kind.
Result<std::vector<SpecVariables>> parse_variables(std::string_view text, std::string_view kind);
// The file without the claim's device; empty if no device is left.
Result<std::string> without_claim(std::string_view text, std::string_view kind, const ClaimUid& uid);

// CPUs ------------------------------------------------------------------------------------------------------
// What the variables say of a claim's CPUs: kCorrupt unless one of them does.
Result<CpuSet> cpus_in(const ClaimUid& uid, const std::vector<std::string>& env);
// Byte for byte what release 0.3.0 means.
std::string claim_spec(const ClaimUid& uid, const CpuSet& cpus);

struct SpecDevice {
  ClaimUid uid;
  Result<CpuSet> cpus;  // kCorrupt: the device is there, its variable is not, or does not parse
};
Result<std::vector<SpecDevice>> parse_spec(std::string_view text);
Result<std::string> without_claim(std::string_view text, const ClaimUid& uid);

}  // namespace dracpu::cdi

#endif  // DRACPU_CDI_SPEC_H_
