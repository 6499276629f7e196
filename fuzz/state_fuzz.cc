// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Any bytes as the state file, and any bytes as its payload (so that the checksum does not keep the fuzzer
// out): never a crash, a refusal has a text, and what is read is written so that it reads as the same.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "agent/state_codec.h"
#include "store/state_file.h"

namespace {

using namespace dracpu;  // NOLINT(google-build-using-namespace): one file, one purpose

void check_payload(std::string_view payload) {
  const auto state = agent::decode_state(payload);
  if (!state.ok()) {
    if (state.error().text.empty()) std::abort();
    return;
  }
  const std::string written = agent::encode_state(*state);
  const auto again = agent::decode_state(written);
  if (!again.ok() || agent::encode_state(*again) != written) std::abort();
  if (again->claims != state->claims || again->memory != state->memory) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = store::unseal(text);
  if (file.ok()) {
    check_payload(file->payload);
  } else if (file.error().text.empty()) {
    std::abort();
  }
  const auto sealed = store::unseal(store::seal(text));
  if (!sealed.ok() || sealed->payload != text) std::abort();
  check_payload(text);
  return 0;
}
