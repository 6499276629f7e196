// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/process.h"

#include <cstdlib>
#include <string>

#include "base/escape.h"

namespace dracpu::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

config::Env environment() {
  return {variable("HOST_ROOT"), variable("NODE_NAME"), variable("DRACPU_SOCKET"),
          variable("DRACPU_STANDBY_READY")};
}

bool put(std::FILE* stream, std::string_view text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  return std::fflush(stream) == 0 && is_written;
}

std::string input_name(const std::string& file) { return file == "-" ? "/dev/stdin" : file; }

int print_result(std::string_view text, int status) { return put(stdout, text) ? status : kFailed; }

void complain(std::string_view text) {
  constexpr std::size_t kLongest = std::size_t{16} << 10U;  // a terminal's, not a file's
  put(stderr, fmt::format("dracpu: {}\n", printable(text, kLongest)));
}

int bad_input(const Error& error) {
  complain(error.text);
  return kBadInput;
}

Result<config::Loaded> load_config(const std::string& file) {
  config::Flags flags;
  if (!file.empty()) flags.config = file;
  return config::load(flags, environment());
}

}  // namespace dracpu::cli
