// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The one source of chance of tests: the same seed gives the same numbers with every compiler.
//
// Threads One user at a time.

#ifndef DRACPU_TEST_DATA_RANDOM_H_
#define DRACPU_TEST_DATA_RANDOM_H_

#include <cstddef>
#include <cstdint>

namespace dracpu::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // SplitMix64 (Steele, Lea, Flood 2014): a small state, so that every case can have a seed of its own.
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  // 0 to n - 1; n must not be 0.
  std::size_t pick(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(pick(n)); }
  std::uint32_t between(std::uint32_t low, std::uint32_t high) { return low + below(high - low + 1); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  bool chance(unsigned percent) { return pick(100) < percent; }
  template <typename Container>
  auto& one_of(Container& from) {
    return from[pick(from.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace dracpu::test

#endif  // DRACPU_TEST_DATA_RANDOM_H_
