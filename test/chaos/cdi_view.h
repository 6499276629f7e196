// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What a folder of CDI files and a state file say about claims, read without the driver's code.
//
// Threads No state.

#ifndef DRACPU_CHAOS_CDI_VIEW_H_
#define DRACPU_CHAOS_CDI_VIEW_H_

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpuset.h"

namespace dracpu::chaos {

// Claim UID to the CPUs of each definition; more than one is what a runtime refuses. Files that cannot be
// read are left out.
std::map<std::string, std::vector<CpuSet>> claims_in_cdi(const std::filesystem::path& folder);

// By the name of the claim's own file, so that a look in between two renames does not miss it.
std::optional<CpuSet> claim_in_cdi(const std::filesystem::path& folder, const std::string& uid);

// Claim UID to CPUs; nothing if the file is not there or not whole.
std::optional<std::map<std::string, CpuSet>> claims_in_state(const std::filesystem::path& file);

// A CDI file as release 0.3.0 writes it, or with several claims as release 0.1.0 did.
std::string cdi_text(const std::map<std::string, CpuSet>& claims);

// The whole file; nothing if it cannot be read.
std::optional<std::string> slurp(const std::filesystem::path& path);

}  // namespace dracpu::chaos

#endif  // DRACPU_CHAOS_CDI_VIEW_H_
