// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "observe/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/strings.h"

namespace dracpu::observe {
namespace {

// Fields of /proc/<pid>/stat by their number in proc(5), from 3 on; the name in field 2 may hold anything.
std::optional<std::uint64_t> stat_field(const std::vector<std::string_view>& from_third, std::size_t number) {
  const std::size_t index = number - 3;
  return index < from_third.size() ? parse_number<std::uint64_t>(from_third[index]) : std::nullopt;
}

std::optional<std::uint64_t> boot_time(const std::filesystem::path& proc) {
  const Result<std::string> stat = read_file(proc / "stat");
  if (!stat) return std::nullopt;
  for (const std::string_view line : split(*stat, '\n')) {
    if (line.starts_with("btime ")) return parse_number<std::uint64_t>(line.substr(6));
  }
  return std::nullopt;
}

std::optional<std::uint64_t> open_files(const std::filesystem::path& proc) {
  std::error_code ec;
  std::uint64_t n = 0;
  std::filesystem::directory_iterator it(proc / "self/fd", ec);
  for (; !ec && it != std::filesystem::directory_iterator(); it.increment(ec)) ++n;
  if (ec || n == 0) return std::nullopt;
  return n - 1;  // without the one that reads the directory
}

class Writer {
 public:
  Writer(std::string& out, TextFormat format) : out_(out), format_(format) {}

  template <typename T>
  void put(std::string_view name, MetricKind kind, std::string_view help, T value) {
    append_header(out_, {name, kind, help, {}}, format_);
    append_sample(out_, name, "", value);
  }

 private:
  std::string& out_;
  TextFormat format_;
};

}  // namespace

void append_process_metrics(std::string& out, TextFormat format, const std::filesystem::path& proc) {
  Writer w(out, format);
  std::vector<std::string_view> fields;
  const Result<std::string> stat = read_file(proc / "self/stat");
  if (stat) {
    const std::size_t name_end = stat->rfind(')');
    if (name_end != std::string::npos) {
      fields = split(trim(std::string_view(*stat).substr(name_end + 1)), ' ');
    }
  }
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto user = stat_field(fields, 14);
  const auto system = stat_field(fields, 15);
  if (user && system) {
    w.put("process_cpu_seconds_total", MetricKind::kCounter,
          "CPU time used by this process, user and system.", static_cast<double>(*user + *system) / ticks);
  }
  if (const auto n = open_files(proc)) {
    w.put("process_open_fds", MetricKind::kGauge, "Open file descriptors of this process.", *n);
  }
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    w.put("process_max_fds", MetricKind::kGauge, "File descriptors this process may open.",
          std::uint64_t{limit.rlim_cur});
  }
  if (const auto pages = stat_field(fields, 24)) {
    w.put("process_resident_memory_bytes", MetricKind::kGauge, "Memory of this process that is in RAM.",
          *pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  }
  if (const auto bytes = stat_field(fields, 23)) {
    w.put("process_virtual_memory_bytes", MetricKind::kGauge, "Address space of this process.", *bytes);
  }
  const auto started = stat_field(fields, 22);
  const auto boot = boot_time(proc);
  if (started && boot) {
    w.put("process_start_time_seconds", MetricKind::kGauge, "Start of this process, seconds since 1970.",
          static_cast<double>(*boot) + static_cast<double>(*started) / ticks);
  }
  if (const auto threads = stat_field(fields, 20)) {
    w.put("process_threads", MetricKind::kGauge, "Threads of this process.", *threads);
  }
}

}  // namespace dracpu::observe
