// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// CDI files from disk: no input may crash the reader, and what it accepts must survive being written again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cdi/directory.h"
#include "cdi/spec.h"

namespace {

using dracpu::cdi::SpecDevice;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_device(std::string_view text, const SpecDevice& device) {
  require(dracpu::cdi::check_uid(device.uid).ok());
  const auto rest = dracpu::cdi::without_claim(text, device.uid);
  require(rest.ok());
  if (!rest->empty()) {
    const auto others = dracpu::cdi::parse_spec(*rest);
    require(others.ok());
    for (const SpecDevice& other : *others) require(other.uid != device.uid);
  }
  if (!device.cpus.ok()) return;
  const auto again = dracpu::cdi::parse_spec(dracpu::cdi::claim_spec(device.uid, *device.cpus));
  require(again.ok() && again->size() == 1);
  require(again->front().uid == device.uid && again->front().cpus.ok());
  require(*again->front().cpus == *device.cpus);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto devices = dracpu::cdi::parse_spec(text);
  if (!devices.ok()) return 0;
  if (devices->size() > 8) return 0;  // each device is taken out once: keep it linear
  for (const SpecDevice& device : *devices) check_device(text, device);
  return 0;
}
