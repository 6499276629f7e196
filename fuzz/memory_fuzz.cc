// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The texts that memory is asked for and described with: a container's environment, memory.reserved and
// mountinfo. No input may crash a reader, a refusal always has a text, and what is accepted is written again
// as it was read.
//
// The first byte chooses the reader; the environment is split at zero bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "memory/environment.h"
#include "memory/preflight.h"
#include "memory/reserved.h"

namespace {

using namespace dracpu;  // NOLINT(google-build-using-namespace): one file, one purpose

void require(bool holds) {
  if (!holds) std::abort();
}

void check_environment(std::string_view text) {
  std::vector<std::string> env;
  for (const std::string_view entry : split(text, '\0')) env.emplace_back(entry);
  const auto read = memory::read_environment("c", env);
  if (!read.ok()) return require(!read.error().text.empty());
  std::size_t ours = 0;
  for (const std::string& entry : env) ours += entry.starts_with(memory::kVariablePrefix) ? 1U : 0U;
  require((ours == 0) == read->empty());
  for (const auto& [uid, statement] : *read) {
    const std::optional<memory::Amounts> amounts = memory::complete(statement);
    if (!amounts) continue;
    const std::vector<std::string> written = memory::format_environment(uid, *amounts);
    for (const std::string& entry : written) {
      require(std::find(env.begin(), env.end(), entry) != env.end());
    }
    const auto again = memory::read_environment("c", written);
    require(again.ok() && again->size() == 1 && again->at(uid) == statement);
  }
}

void check_reserved(std::string_view text) {
  const Result<memory::Amounts> read = memory::parse_reserved(text);
  if (!read.ok()) return require(read.error().text.starts_with("memory.reserved: "));
  std::string written;
  for (const auto& [kind, by_node] : *read) {
    for (const auto& [node, bytes] : by_node) {
      require(bytes > memory::Bytes() && bytes <= memory::kMostBytes && node.get() >= 0);
      if (!written.empty()) written += ';';
      written += fmt::format("{}:{}={}", node.get(), memory::resource_name(kind), memory::text_of(bytes));
    }
  }
  const Result<memory::Amounts> again = memory::parse_reserved(written);
  require(again.ok() && *again == *read);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      check_environment(text);
      break;
    case 1:
      check_reserved(text);
      break;
    default: {
      const Result<std::string> mount = memory::find_cgroup_mount(text);
      require(mount.ok() || !mount.error().text.empty());
    }
  }
  return 0;
}
