// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A kubeconfig from anywhere: no input may crash the reader; what it accepts has a server and complete
// credentials.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kube/credentials.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)dracpu::kube::parse_server_url(text);
  const auto config = dracpu::kube::parse_kubeconfig(text, "fuzz", "/");
  if (!config.ok()) return 0;
  if (config->endpoint.host.empty()) std::abort();
  if (config->client_cert.given() != config->client_key.given()) std::abort();
  if (config->skip_verify && config->ca.given()) std::abort();
  return 0;
}
