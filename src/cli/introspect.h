// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// `dracpu introspect`: what this binary would publish, without a cluster (spec driver-behaviours 17.2).

#ifndef DRACPU_CLI_INTROSPECT_H_
#define DRACPU_CLI_INTROSPECT_H_

#include <string>
#include <vector>

#include "observe/metric_types.h"

namespace dracpu::cli {

// A JSON array, two spaces of indent, with a final newline.
std::string metrics_as_json(const std::vector<observe::MetricInfo>& metrics);

}  // namespace dracpu::cli

#endif  // DRACPU_CLI_INTROSPECT_H_
