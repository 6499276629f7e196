// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "base/cpuset.h"

#include <algorithm>
#include <charconv>

#include "base/escape.h"

namespace dracpu {
namespace {

Error bad(std::string_view text, std::size_t offset, std::string_view what) {
  return make_error(Errc::kInvalidInput, "CPU list {}: {} at offset {}", in_quotes(text, 80), what, offset);
}

std::string too_large() { return fmt::format("CPU number too large, the last possible one is {}", kMaxCpu); }

}  // namespace

CpuSet::CpuSet(std::initializer_list<std::uint32_t> cpus) {
  for (const std::uint32_t cpu : cpus) insert(CpuId(cpu));
}

Result<CpuSet> CpuSet::parse(std::string_view text) {
  CpuSet out;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const char* p = begin;
  const auto fail = [&](std::string_view what) {
    return bad(text, static_cast<std::size_t>(p - begin), what);
  };
  while (p != end) {
    std::uint32_t first = 0;
    const auto [after_first, ec] = std::from_chars(p, end, first);
    if (ec == std::errc::invalid_argument) return fail("expected a number");
    if (ec != std::errc{} || first > kMaxCpu) return fail(too_large());
    p = after_first;
    std::uint32_t last = first;
    if (p != end && *p == '-') {
      ++p;
      const auto [after_last, ec2] = std::from_chars(p, end, last);
      if (ec2 == std::errc::invalid_argument) return fail("expected a number");
      if (ec2 != std::errc{} || last > kMaxCpu) return fail(too_large());
      if (last < first) return fail("range runs backwards");
      p = after_last;
    }
    for (std::uint32_t cpu = first; cpu <= last; ++cpu) out.insert(CpuId(cpu));
    if (p == end) break;
    if (*p != ',') return fail("expected \",\"");
    ++p;
    if (p == end) return fail("expected a number");
  }
  return out;
}

Result<CpuSet> CpuSet::parse_mask(std::string_view text) {
  CpuSet out;
  std::uint32_t bit = 0;  // value of the next digit's lowest bit
  std::size_t group = 0;  // digits seen in the current group
  for (std::size_t i = text.size(); i-- > 0;) {
    const char c = text[i];
    if (c == ',') {
      if (group == 0) return bad(text, i, "empty mask group");
      bit += static_cast<std::uint32_t>(8 - group) * 4;
      group = 0;
      continue;
    }
    unsigned digit = 0;
    const auto [after, ec] = std::from_chars(text.data() + i, text.data() + i + 1, digit, 16);
    if (ec != std::errc{}) return bad(text, i, "expected a hex digit");
    if (++group > 8) return bad(text, i, "mask group longer than 8 digits");
    for (std::uint32_t b = 0; b < 4; ++b) {
      if ((digit >> b & 1U) == 0) continue;
      if (bit + b > kMaxCpu) return bad(text, i, too_large());
      out.insert(CpuId(bit + b));
    }
    bit += 4;
  }
  if (!text.empty() && group == 0) return bad(text, 0, "empty mask group");
  return out;
}

std::string CpuSet::to_string() const {
  std::string out;
  std::int64_t run_begin = -1;
  std::int64_t run_end = -1;
  const auto flush = [&] {
    if (run_begin < 0) return;
    if (!out.empty()) out += ',';
    fmt::format_to(std::back_inserter(out), "{}", run_begin);
    if (run_end > run_begin) fmt::format_to(std::back_inserter(out), "-{}", run_end);
  };
  for_each([&](CpuId cpu) {
    const std::int64_t n = cpu.get();
    if (n == run_end + 1 && run_begin >= 0) {
      run_end = n;
      return;
    }
    flush();
    run_begin = run_end = n;
  });
  flush();
  return out;
}

void CpuSet::insert(CpuId cpu) {
  const std::size_t word = cpu.get() / 64;
  if (word >= words_.size()) words_.resize(word + 1);
  words_[word] |= std::uint64_t{1} << (cpu.get() % 64);
}

void CpuSet::erase(CpuId cpu) {
  const std::size_t word = cpu.get() / 64;
  if (word >= words_.size()) return;
  words_[word] &= ~(std::uint64_t{1} << (cpu.get() % 64));
  trim();
}

bool CpuSet::contains(CpuId cpu) const {
  const std::size_t word = cpu.get() / 64;
  return word < words_.size() && (words_[word] >> (cpu.get() % 64) & 1U) != 0;
}

std::size_t CpuSet::size() const {
  std::size_t n = 0;
  for (const std::uint64_t w : words()) n += static_cast<std::size_t>(std::popcount(w));
  return n;
}

std::optional<CpuId> CpuSet::first() const {
  for (std::size_t w = 0; w < words_.size(); ++w) {
    if (words_[w] != 0) {
      return CpuId(static_cast<std::uint32_t>(w * 64) +
                   static_cast<std::uint32_t>(std::countr_zero(words_[w])));
    }
  }
  return std::nullopt;
}

std::optional<CpuId> CpuSet::last() const {
  if (words_.empty()) return std::nullopt;
  return CpuId(static_cast<std::uint32_t>(words_.size() * 64) - 1 -
               static_cast<std::uint32_t>(std::countl_zero(words_.back())));
}

CpuSet CpuSet::lowest(std::size_t n) const {
  CpuSet out;
  std::size_t taken = 0;
  for_each([&](CpuId cpu) {
    if (taken++ < n) out.insert(cpu);
  });
  return out;
}

std::vector<CpuId> CpuSet::to_vector() const {
  std::vector<CpuId> out;
  out.reserve(size());
  for_each([&](CpuId cpu) { out.push_back(cpu); });
  return out;
}

bool CpuSet::is_subset_of(const CpuSet& other) const {
  if (words_.size() > other.words_.size()) return false;
  for (std::size_t w = 0; w < words_.size(); ++w) {
    if ((words_[w] & ~other.words_[w]) != 0) return false;
  }
  return true;
}

bool CpuSet::intersects(const CpuSet& other) const {
  const std::size_t n = std::min(words_.size(), other.words_.size());
  for (std::size_t w = 0; w < n; ++w) {
    if ((words_[w] & other.words_[w]) != 0) return true;
  }
  return false;
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
  if (other.words_.size() > words_.size()) words_.resize(other.words_.size());
  for (std::size_t w = 0; w < other.words_.size(); ++w) words_[w] |= other.words_[w];
  return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) {
  if (words_.size() > other.words_.size()) words_.resize(other.words_.size());
  for (std::size_t w = 0; w < words_.size(); ++w) words_[w] &= other.words_[w];
  trim();
  return *this;
}

CpuSet& CpuSet::operator-=(const CpuSet& other) {
  const std::size_t n = std::min(words_.size(), other.words_.size());
  for (std::size_t w = 0; w < n; ++w) words_[w] &= ~other.words_[w];
  trim();
  return *this;
}

void CpuSet::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

}  // namespace dracpu
