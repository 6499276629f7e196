// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A set of CPU numbers as a growable bit set.
//
// Text form is the kernel's list format, "0-3,8,10-11" (Documentation/admin-guide/cputopology.rst):
// parse() accepts it strictly (no spaces, no empty items, no reversed ranges; overlap and any order are
// fine), to_string() writes the canonical one: ascending, runs of two or more joined by "-". The empty
// text is the empty set.
//
// Errors  parse() gives kInvalidInput with the offset in the text.
// Limit   CPU numbers above kMaxCpu are refused, so that a text cannot make us allocate without bound.
// Cost    One 64-bit word per 64 CPU numbers up to the highest member.
// Threads A value; no shared state.

#ifndef DRACPU_BASE_CPUSET_H_
#define DRACPU_BASE_CPUSET_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace dracpu {

inline constexpr std::uint32_t kMaxCpu = 65535;  // spec topology-sysfs section 1, "a sane limit"

class CpuSet {
 public:
  CpuSet() = default;
  CpuSet(std::initializer_list<std::uint32_t> cpus);

  static Result<CpuSet> parse(std::string_view text);
  // Kernel mask form: groups of up to eight hex digits, most significant first, joined by commas.
  static Result<CpuSet> parse_mask(std::string_view text);
  std::string to_string() const;

  void insert(CpuId cpu);
  void erase(CpuId cpu);
  bool contains(CpuId cpu) const;
  bool empty() const { return words_.empty(); }
  std::size_t size() const;
  void clear() { words_.clear(); }

  std::optional<CpuId> first() const;  // lowest member
  std::optional<CpuId> last() const;   // highest member
  // The n lowest members, or all if there are fewer.
  CpuSet lowest(std::size_t n) const;
  std::vector<CpuId> to_vector() const;

  bool is_subset_of(const CpuSet& other) const;
  bool intersects(const CpuSet& other) const;

  CpuSet& operator|=(const CpuSet& other);
  CpuSet& operator&=(const CpuSet& other);
  CpuSet& operator-=(const CpuSet& other);
  friend CpuSet operator|(CpuSet a, const CpuSet& b) { return a |= b; }
  friend CpuSet operator&(CpuSet a, const CpuSet& b) { return a &= b; }
  friend CpuSet operator-(CpuSet a, const CpuSet& b) { return a -= b; }
  friend bool operator==(const CpuSet&, const CpuSet&) = default;
  friend auto operator<=>(const CpuSet&, const CpuSet&) = default;

  // Calls f(CpuId) for each member, ascending.
  template <typename F>
  void for_each(F&& f) const {
    for (std::size_t w = 0; w < words_.size(); ++w) {
      for (std::uint64_t bits = words_[w]; bits != 0; bits &= bits - 1) {
        f(CpuId(static_cast<std::uint32_t>(w * 64 + static_cast<std::size_t>(std::countr_zero(bits)))));
      }
    }
  }

  // The words, lowest CPUs first, without trailing zero words. For encodings and fast counting.
  const std::vector<std::uint64_t>& words() const { return words_; }

 private:
  void trim();
  std::vector<std::uint64_t> words_;  // invariant: the last word is not zero, so equality is by value
};

}  // namespace dracpu

#endif  // DRACPU_BASE_CPUSET_H_
