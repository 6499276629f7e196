// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The one source of chance of a schedule: the same seed gives the same numbers with every compiler.
//
// Threads One user at a time.

#ifndef DRACPU_CHAOS_RANDOM_H_
#define DRACPU_CHAOS_RANDOM_H_

#include <cstddef>
#include <cstdint>

namespace dracpu::chaos {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // SplitMix64 (Steele, Lea, Flood 2014).
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  // 0 to n - 1; n must not be 0.
  std::size_t pick(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  bool chance(unsigned percent) { return pick(100) < percent; }
  template <typename Container>
  auto& one_of(Container& from) {
    return from[pick(from.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace dracpu::chaos

#endif  // DRACPU_CHAOS_RANDOM_H_
