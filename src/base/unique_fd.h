// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Owner of one file descriptor; closes it at the end of its life.

#ifndef DRACPU_BASE_UNIQUE_FD_H_
#define DRACPU_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace dracpu {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const noexcept { return fd_; }
  bool valid() const noexcept { return fd_ >= 0; }
  void reset() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

}  // namespace dracpu

#endif  // DRACPU_BASE_UNIQUE_FD_H_
