// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The daemon: start and stop order, and what happens in between.
//
// Start   topology → guard (standby until it is ours) → state → API client → runtime connected and
// synchronized →
//         registered with the kubelet → published → ready (RULINGS 1). Stop is the same list backwards;
//         slices stay, the lock goes last. Every step has a name in the log, in a metric and on /readyz.
// Returns the exit status: 0 after SIGINT or SIGTERM, 1 when it cannot start or serve.

#ifndef DRACPU_AGENT_RUN_H_
#define DRACPU_AGENT_RUN_H_

#include "config/config.h"

namespace dracpu::agent {

int run(const config::Config& config);

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_RUN_H_
