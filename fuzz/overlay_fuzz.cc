// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Any bytes as a sysfs overlay: never a crash, a refusal has a text that names the file, and what is accepted
// lies below /sys, on clean paths, none of which is the folder of another.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "config/overlay.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dracpu::config;
  const auto files = parse_overlay({"/overlay.yaml", std::string(reinterpret_cast<const char*>(data), size)});
  if (!files.ok()) {
    if (files.error().text.find("/overlay.yaml") == std::string::npos) std::abort();
    return 0;
  }
  for (const auto& [path, content] : *files) {
    if (!path.starts_with("sys/") || path.ends_with('/')) std::abort();
    for (const char* wrong : {"//", "/./", "/../"}) {
      if ((path + "/").find(wrong) != std::string::npos) std::abort();
    }
    const auto below = files->lower_bound(path + "/");
    if (below != files->end() && below->first.starts_with(path + "/")) std::abort();
  }
  return 0;
}
