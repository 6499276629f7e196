// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include <sys/prctl.h>

#include "agent/run.h"
#include "cli/run.h"

int main(int argc, char** argv) {
  // Before any thread or large allocation: with huge pages each of gRPC's stacks and arenas is 2 MiB.
  ::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  return dracpu::cli::run(argc, argv, dracpu::agent::run);
}
