// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Errors as values.
//
// Error   a code that says what the caller can do about it, and a text for a person: a clause, lower case,
//         no full stop, values in quotes. Each layer puts its own step in front with while_doing(), so the
//         finished text reads like a path from the request to the cause.
// Result  a value or an Error. Status is a Result without a value.
// Threads No shared state.

#ifndef DRACPU_BASE_RESULT_H_
#define DRACPU_BASE_RESULT_H_

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace dracpu {

enum class Errc {
  kInvalidInput,  // the request can never work as it is; do not retry
  kNotFound,      // the thing named is not there
  kNoCapacity,    // valid, but not enough is free right now
  kConflict,      // somebody else owns it
  kUnavailable,   // a peer or the kernel did not answer; retry with back-off
  kCorrupt,       // stored or received data failed a check; do not act on it
  kUnsupported,   // this node, kernel or peer cannot do it
  kInternal,      // a fault of this program
};

// "invalid-input", "no-capacity" …; stable, used in logs and metrics.
std::string_view name_of(Errc code);

struct Error {
  Errc code = Errc::kInternal;
  std::string text;

  [[nodiscard]] Error while_doing(std::string_view step) && {
    text = fmt::format("{}: {}", step, text);
    return std::move(*this);
  }
};

template <typename... Args>
[[nodiscard]] Error make_error(Errc code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...)};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const T& value() const& { return std::get<0>(v_); }
  T& value() & { return std::get<0>(v_); }
  T&& value() && { return std::get<0>(std::move(v_)); }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  const Error& error() const& { return std::get<1>(v_); }
  Error&& error() && { return std::get<1>(std::move(v_)); }

 private:
  std::variant<T, Error> v_;
};

using Status = Result<std::monostate>;
inline Status ok_status() { return std::monostate{}; }

// The text of an errno value.
std::string errno_text(int err);

}  // namespace dracpu

#endif  // DRACPU_BASE_RESULT_H_
