// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// fmt's own code, compiled once here. Debian has no static library of it, and header-only use would compile
// it in every file that makes a message: three times the build time.

#include <fmt/format-inl.h>

namespace fmt {
inline namespace v9 {
namespace detail {

// What format.h declares as existing elsewhere.
template thousands_sep_result<char> thousands_sep_impl<char>(locale_ref);
template char decimal_point_impl<char>(locale_ref);

}  // namespace detail
}  // namespace v9
}  // namespace fmt
