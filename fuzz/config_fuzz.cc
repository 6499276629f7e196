// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Any bytes as a configuration file: never a crash, a refusal always has a text, and what is accepted in the
// nested form prints as a file that loads as the same.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "config/load.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dracpu::config;
  const FileText file{"/fuzz.yaml", std::string(reinterpret_cast<const char*>(data), size)};
  const auto loaded = resolve({}, {}, &file);
  if (!loaded.ok()) {
    if (loaded.error().text.empty()) std::abort();
    return 0;
  }
  const std::string printed = to_yaml(loaded->config);
  if (loaded->config.format != Format::kV1Beta1) return 0;
  const FileText again{"/again.yaml", printed};
  const auto second = resolve({}, {}, &again);
  if (!second.ok() || to_yaml(second->config) != printed) std::abort();
  return 0;
}
