// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Memory for what a selection needs while it runs: taken from a pool of the thread that keeps what it once
// got, so that a selection like an earlier one asks the heap for nothing. Internal to this folder.
//
// Threads A container lives and dies on one thread.

#ifndef DRACPU_ALLOC_SCRATCH_H_
#define DRACPU_ALLOC_SCRATCH_H_

#include <cstddef>
#include <memory_resource>
#include <vector>

namespace dracpu::alloc {

inline std::pmr::memory_resource& scratch() {
  constexpr std::size_t kLargest = std::size_t{256} << 10U;  // larger ones come from the heap each time
  thread_local std::pmr::unsynchronized_pool_resource pool(std::pmr::pool_options{0, kLargest});
  return pool;
}

template <typename T>
struct ScratchAllocator {
  using value_type = T;

  ScratchAllocator() = default;
  template <typename U>
  explicit(false) ScratchAllocator(const ScratchAllocator<U>& /*other*/) {}

  T* allocate(std::size_t n) { return static_cast<T*>(scratch().allocate(n * sizeof(T), alignof(T))); }
  void deallocate(T* p, std::size_t n) { scratch().deallocate(p, n * sizeof(T), alignof(T)); }
  template <typename U>
  bool operator==(const ScratchAllocator<U>& /*other*/) const {
    return true;
  }
};

template <typename T>
using ScratchVector = std::vector<T, ScratchAllocator<T>>;

}  // namespace dracpu::alloc

#endif  // DRACPU_ALLOC_SCRATCH_H_
