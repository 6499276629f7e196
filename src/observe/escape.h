// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Texts from outside made safe for one line of a log, a JSON document or a page.
//
// Bytes that are not valid UTF-8 never come out as they went in: the quoted form shows them as \xNN, JSON
// gets U+FFFD. Control characters are escaped, so no text can begin a second line or colour a terminal.
// Threads Any; no state.

#ifndef DRACPU_OBSERVE_ESCAPE_H_
#define DRACPU_OBSERVE_ESCAPE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace dracpu::observe {

// Bytes of the valid UTF-8 sequence at the start of `text`; 0 if there is none.
std::size_t utf8_length(std::string_view text);

// "text", in the manner of Go's %q.
void append_quoted(std::string& out, std::string_view text);

// As it is if it is a plain word, otherwise quoted.
void append_key(std::string& out, std::string_view key);

// A JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text);

}  // namespace dracpu::observe

#endif  // DRACPU_OBSERVE_ESCAPE_H_
