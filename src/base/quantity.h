// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Kubernetes quantities as exact numbers (spec kubelet-dra-wire 5.12).
//
// Text    Optional sign, digits with an optional fraction, then nothing, one of n u m k M G T P E,
//         one of Ki Mi Gi Ti Pi Ei, or e/E with a signed exponent.
// Value   A whole number of nano units. Finer fractions are rounded away from zero, and so are fractions of
//         1 under a binary suffix, as the API server does when it stores them.
// Errors  kInvalidInput for junk, kUnsupported for magnitudes above 2^63-1 (the server caps those, so it
// never
//         sends them).
// Compare By value: 2Ki equals 2048. The suffix family only decides how to_string() prints.
// Threads A value; no shared state.

#ifndef DRACPU_BASE_QUANTITY_H_
#define DRACPU_BASE_QUANTITY_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dracpu {

class Quantity {
 public:
  __extension__ using Nano = __int128;
  enum class Family { kDecimal, kBinary, kExponent };

  Quantity() = default;
  explicit Quantity(std::int64_t whole);
  // Printed with binary suffixes: 536870912 is "512Mi".
  static Quantity of_bytes(std::int64_t count);

  static Result<Quantity> parse(std::string_view text);

  bool is_whole() const;
  bool is_negative() const { return nano_ < 0; }
  // The value if it is whole; every whole value fits.
  std::optional<std::int64_t> to_int64() const;
  // Canonical text: no fraction digits, the largest suffix of the family that keeps the mantissa whole.
  std::string to_string() const;

  Nano nano() const { return nano_; }

  friend bool operator==(const Quantity& a, const Quantity& b) { return a.nano_ == b.nano_; }
  friend std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) {
    return a.nano_ <=> b.nano_;
  }

 private:
  Nano nano_ = 0;
  Family family_ = Family::kDecimal;
};

}  // namespace dracpu

#endif  // DRACPU_BASE_QUANTITY_H_
