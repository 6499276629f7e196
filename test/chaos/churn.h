// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The driver's real process among its neighbours, with pods coming and going, killed again and again, while
// runtime, kubelet and API server go away, are late, or hang. Facts says whether anything prepared was moved
// or forgotten.
//
// Minutes of absence are played in seconds: what matters is that they are longer than every retry's first
// steps. Threads Made and used by one thread; starts its own.

#ifndef DRACPU_CHAOS_CHURN_H_
#define DRACPU_CHAOS_CHURN_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "report.h"

namespace dracpu::chaos {

struct ChurnOptions {
  std::filesystem::path driver;
  std::size_t kills = 300;
  std::uint64_t seed = 0;
};

// An error: the node cannot be set up. Violations are in the report.
Status run_churn(const ChurnOptions& options, Report& report);

}  // namespace dracpu::chaos

#endif  // DRACPU_CHAOS_CHURN_H_
