// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "memory/preflight.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/strings.h"

namespace dracpu::memory {
namespace {

struct Mount {
  std::string_view point;  // as written, with octal escapes
  std::string_view type;
  std::string_view superblock_options;
};

std::vector<std::string_view> words_of(std::string_view text, char separator) {
  std::vector<std::string_view> out = split(text, separator);
  std::erase_if(out, [](std::string_view word) { return word.empty(); });
  return out;
}

bool has_word(std::string_view text, char separator, std::string_view word) {
  const std::vector<std::string_view> words = words_of(text, separator);
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "36 25 0:31 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate": any number of optional
// fields stands before the separator (proc_pid_mountinfo(5)).
std::optional<Mount> read_mount(std::string_view line) {
  const std::vector<std::string_view> fields = words_of(line, ' ');
  constexpr std::size_t kPoint = 4;
  constexpr std::size_t kOptional = 6;
  if (fields.size() < kOptional) return std::nullopt;
  const auto separator =
      std::find(fields.begin() + static_cast<std::ptrdiff_t>(kOptional), fields.end(), std::string_view("-"));
  if (fields.end() - separator < 4) return std::nullopt;
  return Mount{.point = fields[kPoint], .type = *(separator + 1), .superblock_options = *(separator + 3)};
}

// Space, tab, line feed and backslash are written as three octal digits.
std::string unescape(std::string_view text) {
  const auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || !digit(i + 1) || !digit(i + 2) || !digit(i + 3)) {
      out += text[i];
      continue;
    }
    out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
    i += 3;
  }
  return out;
}

bool has_needed_controller(const Mount& mount) {
  constexpr std::array<std::string_view, 3> kNeeded{"cpuset", "memory", "hugetlb"};
  return std::any_of(kNeeded.begin(), kNeeded.end(), [&](std::string_view controller) {
    return has_word(mount.superblock_options, ',', controller);
  });
}

std::string_view name_of(config::HugetlbEnforcement enforcement) {
  return enforcement == config::HugetlbEnforcement::kPod ? "pod" : "container";
}

}  // namespace

Status check_mode(config::MemoryMode mode, config::DeviceMode devices, config::GroupBy group_by) {
  const bool fits = devices == config::DeviceMode::kGrouped && group_by == config::GroupBy::kNumaNode;
  if (mode != config::MemoryMode::kCombined || fits) return ok_status();
  return make_error(Errc::kInvalidInput,
                    "memory.mode \"combined\" requires cpu.devices \"grouped\" and cpu.groupBy \"numanode\"");
}

Status check_rescan_seconds(std::int64_t seconds) {
  if (seconds == 0 || (seconds >= 10 && seconds <= 3600)) return ok_status();
  return make_error(Errc::kInvalidInput, "memory.rescanSeconds must be 0 or between 10 and 3600");
}

Result<std::string> find_cgroup_mount(std::string_view mountinfo) {
  std::optional<Mount> unified;
  bool has_version_1 = false;
  for (const std::string_view line : split(mountinfo, '\n')) {
    const std::optional<Mount> mount = read_mount(line);
    if (!mount) continue;
    if (mount->type == "cgroup" && has_needed_controller(*mount)) has_version_1 = true;
    if (mount->type == "cgroup2" && !unified) unified = mount;
  }
  if (!unified || has_version_1) {
    return make_error(Errc::kUnsupported, "memory support requires the cgroup v2 unified hierarchy");
  }
  if (has_word(unified->superblock_options, ',', "memory_hugetlb_accounting")) {
    return make_error(Errc::kUnsupported,
                      "memory support cannot be used with the cgroup2 option memory_hugetlb_accounting");
  }
  return unescape(unified->point);
}

Status check_hugetlb(config::HugetlbEnforcement enforcement, std::string_view controllers) {
  if (enforcement == config::HugetlbEnforcement::kNone) return ok_status();
  if (has_word(trim(controllers), ' ', "hugetlb")) return ok_status();
  return make_error(Errc::kUnsupported,
                    "memory.hugetlbEnforcement \"{}\" requires the hugetlb cgroup controller",
                    name_of(enforcement));
}

}  // namespace dracpu::memory
