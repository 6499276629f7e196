// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// CDI files as a container runtime reads them.
//
// Reads   Every *.json of the folder, at every call: a runtime rescans when it meets a name that it does not
// know. Errors  kNotFound  a device that no file has: the container cannot be created
//         kConflict  a device that two files have: CDI calls it unresolvable
//         kCorrupt   a file that is not what the format says
// Threads No state.

#ifndef DRACPU_SANDBOX_CDI_FILES_H_
#define DRACPU_SANDBOX_CDI_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace dracpu::sandbox {

// The variables that the devices add to a container, in order of the devices.
Result<std::vector<std::string>> cdi_env(const std::filesystem::path& dir,
                                         const std::vector<std::string>& devices);

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_CDI_FILES_H_
