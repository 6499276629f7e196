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

// The whole file for one claim, byte for byte what release 0.3.0 means, without white space. `uid` has passed
// check_uid(), so that nothing needs escaping.
std::string claim_spec(const ClaimUid& uid, const CpuSet& cpus);

struct SpecDevice {
  ClaimUid uid;
  Result<CpuSet> cpus;  // kCorrupt: the device is there, its variable is not, or does not parse
};

// One element a device; a device whose name is not "claim-<UID>" is an error of the whole file.
Result<std::vector<SpecDevice>> parse_spec(std::string_view text);

// The file without the claim's device; empty if no device is left.
Result<std::string> without_claim(std::string_view text, const ClaimUid& uid);

}  // namespace dracpu::cdi

#endif  // DRACPU_CDI_SPEC_H_
