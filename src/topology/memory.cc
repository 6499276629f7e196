// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "topology/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "topology/files.h"
#include "topology/overlay.h"

namespace dracpu::topology {
namespace {

constexpr std::string_view kMachinePools = "sys/kernel/mm/hugepages";

Result<std::string> text_of(Source& source, const std::string& path) {
  std::string text;
  switch (source.read(path, text)) {
    case Found::kYes:
      return std::string(clean(text));
    case Found::kAbsent:
      return make_error(Errc::kNotFound, "\"{}\" is not there", path);
    case Found::kUnreadable:
      break;
  }
  return make_error(Errc::kUnavailable, "\"{}\" cannot be read", path);
}

// Nothing if the directory is not there.
Result<std::vector<std::string>> names_in(Source& source, const std::string& path) {
  std::vector<std::string> names;
  if (source.list(path, names) == Found::kUnreadable) {
    return make_error(Errc::kUnavailable, "\"{}\" cannot be read", path);
  }
  return names;
}

Result<std::uint64_t> count_in(Source& source, const std::string& path) {
  const Result<std::string> text = text_of(source, path);
  if (!text.ok()) return text.error();
  const std::optional<std::uint64_t> n = parse_number<std::uint64_t>(*text);
  if (!n) return make_error(Errc::kCorrupt, "\"{}\" does not hold a number", path);
  return *n;
}

// The line is "MemTotal: 1234 kB", in a node's file with "Node 0 " in front.
Result<std::uint64_t> total_in(Source& source, const std::string& path) {
  const Result<std::string> text = text_of(source, path);
  if (!text.ok()) return text.error();
  for (const std::string_view line : split(std::string_view(*text), '\n')) {
    constexpr std::string_view kKey = "MemTotal:";
    const std::size_t at = line.find(kKey);
    if (at == std::string_view::npos) continue;
    std::string_view value = trim(line.substr(at + kKey.size()));
    if (value.ends_with("kB")) value = trim(value.substr(0, value.size() - 2));
    const std::optional<std::uint64_t> kb = parse_number<std::uint64_t>(value);
    if (kb && *kb <= UINT64_MAX / 1024) return *kb * 1024;
    break;
  }
  return make_error(Errc::kCorrupt, "\"{}\" does not say MemTotal", path);
}

Result<HugepagePool> pool_in(Source& source, const std::string& dir, std::uint64_t page_bytes) {
  const Result<std::uint64_t> total = count_in(source, dir + "/nr_hugepages");
  if (!total.ok()) return total.error();
  const Result<std::uint64_t> free = count_in(source, dir + "/free_hugepages");
  if (!free.ok()) return free.error();
  const Result<std::uint64_t> surplus = count_in(source, dir + "/surplus_hugepages");
  if (!surplus.ok()) return surplus.error();
  return HugepagePool{.page_bytes = page_bytes, .total = *total, .free = *free, .surplus = *surplus};
}

Result<std::vector<HugepagePool>> pools_in(Source& source, const std::string& dir) {
  const Result<std::vector<std::string>> names = names_in(source, dir);
  if (!names.ok()) return names.error();
  std::vector<HugepagePool> out;
  for (const std::string_view name : *names) {  // "hugepages-2048kB"
    if (!name.ends_with("kB")) continue;
    const std::optional<std::uint32_t> kb = numbered(name.substr(0, name.size() - 2), "hugepages-");
    if (!kb) continue;
    Result<HugepagePool> pool = pool_in(source, fmt::format("{}/{}", dir, name), std::uint64_t{*kb} * 1024);
    if (!pool.ok()) return std::move(pool).error();
    out.push_back(*pool);
  }
  std::sort(out.begin(), out.end(),
            [](const HugepagePool& a, const HugepagePool& b) { return a.page_bytes < b.page_bytes; });
  return out;
}

Result<MemoryAmounts> amounts_in(Source& source, const std::string& meminfo, const std::string& pools) {
  const Result<std::uint64_t> total = total_in(source, meminfo);
  if (!total.ok()) return total.error();
  Result<std::vector<HugepagePool>> hugepages = pools_in(source, pools);
  if (!hugepages.ok()) return std::move(hugepages).error();
  return MemoryAmounts{.total_bytes = *total, .hugepages = std::move(hugepages).value()};
}

// The kernel's list; nothing where there is none.
Result<std::optional<CpuSet>> nodes_with_memory(Source& source) {
  const std::string path = fmt::format("{}/has_memory", kNodeDir);
  const Result<std::string> text = text_of(source, path);
  if (!text.ok()) {
    if (text.error().code == Errc::kNotFound) return std::optional<CpuSet>();
    return text.error();
  }
  Result<CpuSet> nodes = CpuSet::parse(*text);
  if (!nodes.ok()) return make_error(Errc::kCorrupt, "\"{}\": {}", path, nodes.error().text);
  return std::optional<CpuSet>(*std::move(nodes));
}

}  // namespace

Result<MachineMemory> read_memory(Source& source) {
  const Result<std::vector<std::string>> names = names_in(source, std::string(kNodeDir));
  if (!names.ok()) return names.error();
  const Result<std::optional<CpuSet>> listed = nodes_with_memory(source);
  if (!listed.ok()) return listed.error();

  MachineMemory out;
  for (const std::string& name : *names) {
    const std::optional<std::uint32_t> n = numbered(name, "node");
    if (!n || *n > kMaxCpu) continue;
    out.has_numa = true;
    if (*listed && !(*listed)->contains(CpuId(*n))) continue;
    const std::string dir = fmt::format("{}/{}", kNodeDir, name);
    Result<MemoryAmounts> amounts = amounts_in(source, dir + "/meminfo", dir + "/hugepages");
    const bool is_without = !*listed && amounts.ok() && amounts->total_bytes == 0;
    if (!is_without) out.nodes.emplace(static_cast<std::int32_t>(*n), std::move(amounts));
  }
  if (!out.has_numa) {
    out.nodes.emplace(0, amounts_in(source, "proc/meminfo", std::string(kMachinePools)));
  }
  return out;
}

Result<MachineMemory> read_memory(const ReadOptions& options) {
  Result<DirectorySource> below = DirectorySource::open(options.root);
  if (!below.ok()) return std::move(below).error();
  const auto read = [](Source& source) {
    Result<MachineMemory> out = read_memory(source);
    if (!out.ok()) return Result<MachineMemory>(std::move(out).error().while_doing("reading the memory"));
    return out;
  };
  if (options.overlay.empty()) return read(*below);
  OverlaySource overlaid(*below, options.overlay);
  return read(overlaid);
}

}  // namespace dracpu::topology
