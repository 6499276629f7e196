// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Text that protocol buffers can carry.
//
// A string field must be UTF-8. The kubelet's decoder refuses a whole message for one bad byte, so an error
// text that quotes a file's garbage would fail a batch instead of a claim.
//
// Threads No state.

#ifndef DRACPU_KUBELET_UTF8_H_
#define DRACPU_KUBELET_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace dracpu::kubelet {

// `text` with every byte that is not part of a valid character replaced by "?", and cut before the character
// that would exceed `limit` bytes.
std::string to_utf8(std::string_view text, std::size_t limit = std::string_view::npos);

}  // namespace dracpu::kubelet

#endif  // DRACPU_KUBELET_UTF8_H_
