// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/claim_checks.h"

namespace dracpu::memory {

Result<PodUid> check_consumer(const std::string& claim, const std::vector<Consumer>& reserved_for) {
  if (reserved_for.size() != 1) {
    return make_error(Errc::kInvalidInput,
                      "claim {} is reserved for {} consumers, memory claims serve exactly one pod", claim,
                      reserved_for.size());
  }
  const Consumer& only = reserved_for.front();
  if (only.resource == "pods") return only.uid;
  return make_error(Errc::kInvalidInput, "claim {} is reserved for a {}, memory claims serve exactly one pod",
                    claim, only.resource);
}

std::optional<Bytes> whole_bytes(const Quantity& amount) {
  const std::optional<std::int64_t> whole = amount.to_int64();
  if (!whole || *whole < 0) return std::nullopt;
  return Bytes{static_cast<std::uint64_t>(*whole)};
}

Result<Bytes> check_amount(const std::string& claim, std::string_view device, const Quantity& amount,
                           Bytes page) {
  const std::optional<Bytes> bytes = whole_bytes(amount);
  if (!bytes || *bytes == Bytes()) {
    return make_error(Errc::kInvalidInput,
                      "claim {}: device {}: consumed capacity {} is not a positive whole number of bytes",
                      claim, device, amount.to_string());
  }
  if (is_multiple(*bytes, page)) return *bytes;
  return make_error(Errc::kInvalidInput, "claim {}: device {}: {} is not a multiple of the page size {}",
                    claim, device, amount.to_string(), text_of(page));
}

Error no_admin_access(const std::string& claim) {
  return make_error(Errc::kInvalidInput, "claim {}: admin access is not supported for memory devices", claim);
}

Error not_ours(const std::string& claim, const std::string& device) {
  return make_error(Errc::kInvalidInput, "claim {}: device \"{}\" is not a memory device of this node", claim,
                    device);
}

Error no_size(const std::string& claim, const std::string& device) {
  return make_error(
      Errc::kInvalidInput,
      "claim {}: device \"{}\" has no consumed capacity \"size\", check feature gate DRAConsumableCapacity",
      claim, device);
}

}  // namespace dracpu::memory
