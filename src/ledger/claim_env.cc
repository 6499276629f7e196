// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "ledger/claim_env.h"

#include <string_view>

namespace dracpu::ledger {

Result<ClaimCpus> read_claim_env(const std::vector<std::string>& env) {
  constexpr std::string_view kReserved = "DRA_CPUSET";
  constexpr std::string_view kPrefix = "DRA_CPUSET_";
  ClaimCpus out;
  for (const std::string& entry : env) {
    const std::string_view text = entry;
    if (!text.starts_with(kReserved)) continue;
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    if (equals == std::string_view::npos) {
      return make_error(Errc::kInvalidInput,
                        "environment variable \"{}\" has no value; the prefix {} is reserved",
                        name.substr(0, 80), kPrefix);
    }
    if (!name.starts_with(kPrefix)) continue;
    const std::string_view uid = name.substr(kPrefix.size());
    const std::string_view value = text.substr(equals + 1);
    Result<CpuSet> cpus = CpuSet::parse(value);
    if (!cpus.ok() || cpus->empty() || uid.empty()) {
      return make_error(
          Errc::kInvalidInput,
          "environment variable \"{}\" has the value \"{}\", which is not a CPU list; the prefix {} is "
          "reserved for claims",
          name.substr(0, 80), value.substr(0, 80), kPrefix);
    }
    const auto [it, inserted] = out.emplace(ClaimUid(std::string(uid)), *cpus);
    if (!inserted && it->second != *cpus) {
      return make_error(
          Errc::kInvalidInput,
          "environment variable \"{}\" is there twice, with \"{}\" and \"{}\"; take it out of the pod's "
          "own env",
          name.substr(0, 80), it->second.to_string(), cpus->to_string());
    }
  }
  return out;
}

}  // namespace dracpu::ledger
