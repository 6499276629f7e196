// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Folders that this library writes into. Internal to it.
//
// Errors  kUnavailable the kernel refused; the text has path and reason.
// Threads Any; no state.

#ifndef DRACPU_CDI_FOLDER_H_
#define DRACPU_CDI_FOLDER_H_

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace dracpu::cdi {

// With all above it. A new one gets mode 0755, whatever the umask says.
Status make_folder(const std::filesystem::path& dir);

// The names in the folder, sorted; none if it is missing.
Result<std::vector<std::string>> names_in(const std::filesystem::path& dir);

}  // namespace dracpu::cdi

#endif  // DRACPU_CDI_FOLDER_H_
