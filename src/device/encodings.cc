// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "device/encodings.h"

#include <fmt/format.h>

#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace dracpu::device {

std::string cpu_words(const CpuSet& cpus) {
  const std::span<const std::uint64_t> words = cpus.words();
  std::string out;
  for (std::size_t begin = 0; begin < words.size();) {
    std::size_t end = begin + 1;
    while (end < words.size() && words[end] == words[begin]) ++end;
    if (!out.empty()) out += ',';
    if (end - begin > 1) fmt::format_to(std::back_inserter(out), "{}*", end - begin);
    fmt::format_to(std::back_inserter(out), "{:x}", words[begin]);
    begin = end;
  }
  return out;
}

std::optional<SmtLayout> smt_layout(const topology::Topology& topology) {
  using Shape = std::pair<std::uint32_t, std::size_t>;  // stride, threads
  std::map<Shape, CpuSet> entries;
  CpuSet singles;
  for (const topology::Core& core : topology.cores) {
    const std::vector<CpuId> threads = core.cpus.to_vector();
    if (threads.size() < 2) {
      singles |= core.cpus;
      continue;
    }
    const std::uint32_t stride = threads[1].get() - threads[0].get();
    for (std::size_t i = 2; i < threads.size(); ++i) {
      if (threads[i].get() - threads[i - 1].get() != stride) return std::nullopt;
    }
    entries[{stride, threads.size()}] |= core.cpus;
  }

  SmtLayout out;
  for (const auto& [shape, cpus] : entries) {
    if (!out.text.empty()) out.text += ';';
    fmt::format_to(std::back_inserter(out.text), "{}>{}", cpus.to_string(), shape.first);
    if (shape.second == 2) continue;
    fmt::format_to(std::back_inserter(out.text), "*{}", shape.second);
    out.is_version_2 = true;
  }
  if (!singles.empty()) {
    if (!out.text.empty()) out.text += ';';
    out.text += singles.to_string();
  }
  return out;
}

}  // namespace dracpu::device
