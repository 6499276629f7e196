// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Any bytes as a configuration of either form: what loads can be migrated, and the new file means the same.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "config/load.h"
#include "config/migrate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dracpu::config;
  const FileText file{"/fuzz.yaml", std::string(reinterpret_cast<const char*>(data), size)};
  const auto loaded = resolve({}, {}, &file);
  const auto migrated = migrate({}, &file);
  if (loaded.ok() != migrated.ok()) std::abort();
  if (!migrated.ok()) return 0;
  const FileText written{"/new.yaml", migrated->text};
  const auto again = resolve({}, {}, &written);
  if (!again.ok() || again->config.format != Format::kV1Beta1) std::abort();
  Config meant = loaded->config;
  meant.format = Format::kV1Beta1;  // to_yaml() writes the form that was read
  if (to_yaml(again->config) != to_yaml(meant)) std::abort();
  return 0;
}
