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
// Cost    One 64-bit word per 64 CPU numbers up to the highest member; no heap memory up to CPU 1023.
// Threads A value; no shared state.

#ifndef DRACPU_BASE_CPUSET_H_
#define DRACPU_BASE_CPUSET_H_

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace dracpu {

inline constexpr std::uint32_t kMaxCpu = 65535;  // spec topology-sysfs section 1, "a sane limit"

// The words of a CpuSet: in place up to a size that nearly every machine keeps to.
class CpuWords {
 public:
  CpuWords() = default;
  CpuWords(const CpuWords&) = default;
  CpuWords& operator=(const CpuWords&) = default;
  CpuWords(CpuWords&& other) noexcept
      : size_(std::exchange(other.size_, 0)), near_(other.near_), far_(std::exchange(other.far_, {})) {}
  CpuWords& operator=(CpuWords&& other) noexcept {
    if (this == &other) return *this;
    size_ = std::exchange(other.size_, 0);
    near_ = other.near_;
    far_ = std::exchange(other.far_, {});
    return *this;
  }
  ~CpuWords() = default;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::uint64_t& operator[](std::size_t i) { return data()[i]; }
  std::uint64_t operator[](std::size_t i) const { return view()[i]; }
  std::uint64_t back() const { return view().back(); }
  std::span<const std::uint64_t> view() const { return {far_.empty() ? near_.data() : far_.data(), size_}; }
  // New words are zero.
  void resize(std::size_t size) {
    if (size > std::max(kNear, far_.size())) {
      if (far_.empty()) far_.assign(near_.begin(), near_.begin() + static_cast<std::ptrdiff_t>(size_));
      far_.resize(size);
    }
    if (size > size_) std::fill(data() + size_, data() + size, 0);
    size_ = size;
  }
  void pop_back() { --size_; }
  void clear() {
    size_ = 0;
    far_.clear();
  }

 private:
  static constexpr std::size_t kNear = 16;
  std::uint64_t* data() { return far_.empty() ? near_.data() : far_.data(); }

  std::size_t size_ = 0;
  std::array<std::uint64_t, kNear> near_{};
  std::vector<std::uint64_t> far_;  // holds all words once there were more
};

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
  friend bool operator==(const CpuSet& a, const CpuSet& b) {
    return std::ranges::equal(a.words(), b.words());
  }
  friend std::strong_ordering operator<=>(const CpuSet& a, const CpuSet& b) {
    const std::span<const std::uint64_t> x = a.words();
    const std::span<const std::uint64_t> y = b.words();
    return std::lexicographical_compare_three_way(x.begin(), x.end(), y.begin(), y.end());
  }

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
  std::span<const std::uint64_t> words() const { return words_.view(); }

 private:
  void trim();
  CpuWords words_;  // invariant: the last word is not zero, so equality is by value
};

}  // namespace dracpu

#endif  // DRACPU_BASE_CPUSET_H_
