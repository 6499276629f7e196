// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Any bytes as manifests given to `dracpu plan`: never a crash, a refusal has a text, and every claim that is
// read has an identity.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cli/claims_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto claims = dracpu::cli::read_claims({reinterpret_cast<const char*>(data), size});
  if (!claims.ok()) {
    if (claims.error().text.empty()) std::abort();
    return 0;
  }
  for (const auto& claim : claims->claims) {
    if (claim.uid.get().empty()) std::abort();
  }
  for (const auto& [uid, why] : claims->refused) {
    if (why.text.empty()) std::abort();
  }
  return 0;
}
