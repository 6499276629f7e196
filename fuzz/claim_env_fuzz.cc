// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Any lines as a container's environment: never a crash, a refusal has a text, and what is accepted names
// CPUs and would read as the same from a variable that the driver writes.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/claim_env.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dracpu;  // NOLINT(google-build-using-namespace): one file, one purpose
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> env;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    env.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  const auto claims = ledger::read_claim_env(env);
  if (!claims.ok()) {
    if (claims.error().text.empty()) std::abort();
    return 0;
  }
  std::vector<std::string> written;
  for (const auto& [uid, cpus] : *claims) {
    if (cpus.empty()) std::abort();
    written.push_back("DRA_CPUSET_" + uid.get() + "=" + cpus.to_string());
  }
  const auto again = ledger::read_claim_env(written);
  if (!again.ok() || *again != *claims) std::abort();
  return 0;
}
