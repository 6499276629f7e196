// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The rules for one claim that need no accounts, with their sentences. Internal to this folder.
//
// `claim` is "namespace/name".
// Errors  kInvalidInput
// Threads Pure.

#ifndef DRACPU_MEMORY_CLAIM_CHECKS_H_
#define DRACPU_MEMORY_CLAIM_CHECKS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/quantity.h"
#include "base/result.h"
#include "memory/accounts.h"
#include "memory/types.h"

namespace dracpu::memory {

// The pod that the claim is reserved for, if it is one pod.
Result<PodUid> check_consumer(const std::string& claim, const std::vector<Consumer>& reserved_for);

// The bytes of a consumed capacity, if they are whole pages. `device` is in quotes.
Result<Bytes> check_amount(const std::string& claim, std::string_view device, const Quantity& amount,
                           Bytes page);

// Nothing if it is negative or has a fraction.
std::optional<Bytes> whole_bytes(const Quantity& amount);

Error no_admin_access(const std::string& claim);
Error not_ours(const std::string& claim, const std::string& device);
Error no_size(const std::string& claim, const std::string& device);

}  // namespace dracpu::memory

#endif  // DRACPU_MEMORY_CLAIM_CHECKS_H_
