// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// `dracpu gatherinfo`: one YAML document about the node's CPUs and the running driver's configuration, layout
// v1 (spec driver-behaviours 17.1).
//
// Returns the exit status: 0 done, 1 no driver runs on this node or the report cannot be written.

#ifndef DRACPU_CLI_GATHERINFO_H_
#define DRACPU_CLI_GATHERINFO_H_

#include <string>

namespace dracpu::cli {

int run_gatherinfo(const std::string& output_dir, bool to_stdout);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_GATHERINFO_H_
