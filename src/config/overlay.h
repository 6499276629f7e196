// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The sysfs overlay file: what stands in front of the machine's own files (spec driver-behaviours 3.5).
//
// Input   A YAML mapping of absolute paths below /sys to texts. Refused: values that are no texts, paths that
//         are not clean or not below /sys, a path twice, a path that is a file and a directory at once, two
//         nodeN entries for one CPU.
// Errors  kInvalidInput with file, line and column, every problem of the file at once; kNotFound and
//         kUnavailable when it cannot be read.
// Threads Any; no state.

#ifndef DRACPU_CONFIG_OVERLAY_H_
#define DRACPU_CONFIG_OVERLAY_H_

#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"
#include "config/load.h"

namespace dracpu::config {

// Path without the leading slash ("sys/devices/system/cpu/online") to content.
using OverlayFiles = std::map<std::string, std::string>;

Result<OverlayFiles> parse_overlay(const FileText& file);
Result<OverlayFiles> read_overlay(const std::filesystem::path& file);

}  // namespace dracpu::config

#endif  // DRACPU_CONFIG_OVERLAY_H_
