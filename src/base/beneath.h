// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Opening what lies below a folder, where others may have written the path.
//
// No part of the path may be a link or "..", and all of it lies on the folder's own file system. The kernel
// checks that (openat2, Linux 5.6); where it does not know the call, the path is walked part by part.
// Errors  kNotFound     there is none
//         kInvalidInput the path leaves the folder, its file system, or goes over a link
//         kUnavailable  anything else
// Threads Any.

#ifndef DRACPU_BASE_BENEATH_H_
#define DRACPU_BASE_BENEATH_H_

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace dracpu {

// `flags` as for open(2), without O_CREAT. `path` is relative.
Result<UniqueFd> open_beneath(int folder, const std::string& path, int flags);
// The same without help of the kernel.
Result<UniqueFd> walk_beneath(int folder, const std::string& path, int flags);

}  // namespace dracpu

#endif  // DRACPU_BASE_BENEATH_H_
