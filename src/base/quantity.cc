// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/quantity.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/strings.h"

namespace dracpu {
namespace {

using Nano = Quantity::Nano;

constexpr Nano kOne = 1'000'000'000;                                          // nano units of 1
constexpr Nano kMax = Nano{std::numeric_limits<std::int64_t>::max()} * kOne;  // the server's own cap
constexpr std::size_t kMaxText = 128;  // longer texts are junk, whatever they say

struct Suffix {
  std::string_view text;
  Quantity::Family family;
  int power;  // of ten, or of two for binary ones
};

constexpr std::array<Suffix, 16> kSuffixes{{
    {"n", Quantity::Family::kDecimal, -9},
    {"u", Quantity::Family::kDecimal, -6},
    {"m", Quantity::Family::kDecimal, -3},
    {"", Quantity::Family::kDecimal, 0},
    {"k", Quantity::Family::kDecimal, 3},
    {"M", Quantity::Family::kDecimal, 6},
    {"G", Quantity::Family::kDecimal, 9},
    {"T", Quantity::Family::kDecimal, 12},
    {"P", Quantity::Family::kDecimal, 15},
    {"E", Quantity::Family::kDecimal, 18},
    {"Ki", Quantity::Family::kBinary, 10},
    {"Mi", Quantity::Family::kBinary, 20},
    {"Gi", Quantity::Family::kBinary, 30},
    {"Ti", Quantity::Family::kBinary, 40},
    {"Pi", Quantity::Family::kBinary, 50},
    {"Ei", Quantity::Family::kBinary, 60},
}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string digits_of(Nano value) {
  std::string out;
  do {
    out += static_cast<char>('0' + static_cast<int>(value % 10));
    value /= 10;
  } while (value != 0);
  std::reverse(out.begin(), out.end());
  return out;
}

Nano power_of_ten(int n) {
  Nano out = 1;
  while (n-- > 0) out *= 10;
  return out;
}

// The digits around the point, without signs and suffix.
struct Mantissa {
  std::string digits;  // both parts joined, leading zeros dropped
  int fraction = 0;    // how many of them stand behind the point
};

// mantissa · 10^exponent nano units, rounded up; nothing when above the cap.
std::optional<Nano> scale_decimal(const Mantissa& m, int exponent) {
  const int shift = exponent - m.fraction + 9;
  if (m.digits.empty()) return Nano{0};
  std::string kept = m.digits;
  bool rest = false;
  if (shift < 0) {
    const std::size_t drop = std::min(kept.size(), static_cast<std::size_t>(-shift));
    rest = kept.find_first_not_of('0', kept.size() - drop) != std::string::npos;
    kept.resize(kept.size() - drop);
  }
  const int zeros = std::max(shift, 0);
  if (kept.size() + static_cast<std::size_t>(zeros) > 30) return std::nullopt;  // kMax has 28 digits
  Nano value = 0;
  for (const char c : kept) value = value * 10 + (c - '0');
  value = value * power_of_ten(zeros) + (rest ? 1 : 0);
  if (value > kMax) return std::nullopt;
  return value;
}

// mantissa · 2^power, rounded up to a whole number, in nano units.
std::optional<Nano> scale_binary(const Mantissa& m, int power) {
  // The integer part first: above 2^63 nothing below can help.
  const std::size_t whole_digits = m.digits.size() > static_cast<std::size_t>(m.fraction)
                                       ? m.digits.size() - static_cast<std::size_t>(m.fraction)
                                       : 0;
  if (whole_digits > 19) return std::nullopt;
  // Eighteen fraction digits keep the sum inside 128 bits; a finer rest only rounds up.
  constexpr int kKept = 18;
  Mantissa cut = m;
  bool rest = false;
  if (cut.fraction > kKept) {
    const std::size_t drop = std::min(cut.digits.size(), static_cast<std::size_t>(cut.fraction - kKept));
    rest = cut.digits.find_first_not_of('0', cut.digits.size() - drop) != std::string::npos;
    cut.digits.resize(cut.digits.size() - drop);
    cut.fraction = kKept;
  }
  Nano value = 0;
  for (const char c : cut.digits) value = value * 10 + (c - '0');
  const Nano unit = power_of_ten(cut.fraction);
  const Nano whole = value / unit;
  if (whole > (Nano{1} << (63 - power))) return std::nullopt;
  const Nano part = (value % unit) << power;  // below 10^18 · 2^60
  const Nano out = (whole << power) + (part + unit - 1) / unit + (rest && part % unit == 0 ? 1 : 0);
  if (out * kOne > kMax) return std::nullopt;
  return out * kOne;
}

}  // namespace

Quantity::Quantity(std::int64_t whole) : nano_(Nano{whole} * kOne) {}

Quantity Quantity::of_bytes(std::int64_t count) {
  Quantity out(count);
  out.family_ = Family::kBinary;
  return out;
}

Result<Quantity> Quantity::parse(std::string_view text) {
  const auto fail = [&](std::string_view why, Errc code = Errc::kInvalidInput) {
    return make_error(code, "quantity \"{}\": {}", text.substr(0, kMaxText), why);
  };
  if (text.empty()) return fail("empty");
  if (text.size() > kMaxText) return fail("too long");
  std::size_t at = 0;
  const bool negative = text[0] == '-';
  if (text[0] == '-' || text[0] == '+') ++at;

  Mantissa m;
  bool any = false;
  bool point = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.') {
      if (point) return fail("two decimal points");
      point = true;
      continue;
    }
    if (!is_digit(c)) break;
    any = true;
    if (point) ++m.fraction;
    if (c != '0' || !m.digits.empty()) m.digits += c;
  }
  if (!any) return fail("no digits");

  Quantity out;
  std::optional<Nano> nano;
  const std::string_view suffix = text.substr(at);
  const auto known =
      std::find_if(kSuffixes.begin(), kSuffixes.end(), [&](const Suffix& s) { return s.text == suffix; });
  if (known != kSuffixes.end()) {
    out.family_ = known->family;
    nano = known->family == Family::kBinary ? scale_binary(m, known->power) : scale_decimal(m, known->power);
  } else if (suffix[0] == 'e' || suffix[0] == 'E') {
    std::string_view number = suffix.substr(1);
    if (number.size() > 1 && number[0] == '+') number.remove_prefix(number[1] == '-' ? 0 : 1);
    const std::optional<int> exponent = parse_number<int>(number);
    if (!exponent) return fail("bad exponent");
    out.family_ = Family::kExponent;
    nano = scale_decimal(m, std::clamp(*exponent, -1000, 1000));
  } else {
    return fail("unknown suffix");
  }
  if (!nano) return fail("too large", Errc::kUnsupported);
  out.nano_ = negative ? -*nano : *nano;
  return out;
}

bool Quantity::is_whole() const { return nano_ % kOne == 0; }

std::optional<std::int64_t> Quantity::to_int64() const {
  if (!is_whole()) return std::nullopt;
  return static_cast<std::int64_t>(nano_ / kOne);
}

std::string Quantity::to_string() const {
  if (nano_ == 0) return "0";
  Nano value = nano_ < 0 ? -nano_ : nano_;
  const std::string sign = nano_ < 0 ? "-" : "";
  // Below 1 Ki the server prints binary quantities without a binary suffix, too.
  if (family_ == Family::kBinary && is_whole()) {
    value /= kOne;
    std::size_t step = 0;
    while (step < 6 && value % 1024 == 0) {
      value /= 1024;
      ++step;
    }
    return sign + digits_of(value) + std::string(step == 0 ? "" : kSuffixes[9 + step].text);
  }
  int power = -9;
  while (power < 18 && value % 1000 == 0) {
    value /= 1000;
    power += 3;
  }
  if (family_ == Family::kExponent) {
    return sign + digits_of(value) + (power == 0 ? "" : "e" + std::to_string(power));
  }
  const int index = power / 3 + 3;
  return sign + digits_of(value) + std::string(kSuffixes[static_cast<std::size_t>(index)].text);
}

}  // namespace dracpu
