// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The v1alpha1 file and the deprecated flags, written as one v1beta1 file that means the same.
//
// Comments of the file move with their keys; those that stand alone stay in order at the top and the end.
// Written is what differs from its default or has a comment, and reservedCPUs, which has to be stated.
//
// Errors  As load() for what is read. kInternal if the new text, read back, does not mean the same.
// Threads A value.

#ifndef DRACPU_CONFIG_MIGRATE_H_
#define DRACPU_CONFIG_MIGRATE_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "config/load.h"

namespace dracpu::config {

struct Migrated {
  std::string text;
  std::vector<std::string> notes;  // what has no place in the file
};

// `file` may be nullptr: flags alone. A v1beta1 file without flags comes back as it is.
Result<Migrated> migrate(const Flags& flags, const FileText* file);

}  // namespace dracpu::config

#endif  // DRACPU_CONFIG_MIGRATE_H_
