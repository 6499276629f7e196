// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/gatherinfo.h"

#include "observe/log.h"

namespace dracpu::cli {

int run_gatherinfo(const std::string&, bool) {
  observe::log_error("No report written", Error{Errc::kUnsupported,
                                                "gatherinfo is not part of this release yet; use the log's "
                                                "\"Resolved configuration\" line and `lscpu --extended`"});
  return 1;
}

}  // namespace dracpu::cli
