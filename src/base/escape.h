// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Texts from outside made safe for one line of a log, a JSON document or a page.
//
// Bytes that are not valid UTF-8 never come out as they went in: the quoted form shows them as \xNN, JSON
// gets U+FFFD. Control characters are escaped, so no text can begin a second line or colour a terminal.
// Threads Any; no state.

#ifndef DRACPU_BASE_ESCAPE_H_
#define DRACPU_BASE_ESCAPE_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace dracpu {

// Bytes of the valid UTF-8 sequence at the start of `text`; 0 if there is none.
std::size_t utf8_length(std::string_view text);

// "text", in the manner of Go's %q.
void append_quoted(std::string& out, std::string_view text);

// As it is if it is a plain word, otherwise quoted.
void append_key(std::string& out, std::string_view key);

// A JSON string with its quotes.
void append_json_string(std::string& out, std::string_view text);

// A value from outside in a message: append_quoted, cut after about `limit` bytes with the length told.
std::string in_quotes(std::string_view text, std::size_t limit = 200);

// A finished text for a terminal: line feeds stay, every other control character and stray byte is escaped,
// and nothing beyond `limit` bytes is shown.
std::string printable(std::string_view text, std::size_t limit = std::string_view::npos);

}  // namespace dracpu

#endif  // DRACPU_BASE_ESCAPE_H_
