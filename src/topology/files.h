// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Typed reads of sysfs files for the parts of the reader (spec topology-sysfs section 1).
//
// Every text is cut at the first NUL byte and trimmed; "(null)" is the empty text. Something that is there
// but does not parse is a warning and counts as not told. Internal to this folder.

#ifndef DRACPU_TOPOLOGY_FILES_H_
#define DRACPU_TOPOLOGY_FILES_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpuset.h"
#include "base/result.h"
#include "topology/source.h"
#include "topology/topology.h"

namespace dracpu::topology {

inline constexpr std::string_view kCpuDir = "sys/devices/system/cpu";
inline constexpr std::string_view kNodeDir = "sys/devices/system/node";

// The number in "cpu12" for prefix "cpu"; nothing for other names.
std::optional<std::uint32_t> numbered(std::string_view name, std::string_view prefix);

// Cut at the first NUL byte, trimmed, "(null)" made empty.
std::string_view clean(std::string_view text);

// File names of one set: the list form, and the mask form that older kernels have alone.
struct SetFiles {
  std::string_view list;
  std::string_view mask;
};

class Files {
 public:
  Files(Source& source, std::vector<Warning>& warnings) : source_(source), warnings_(warnings) {}

  // The cleaned text; valid until the next call.
  std::optional<std::string_view> text(std::string_view dir, std::string_view name);
  std::optional<std::int64_t> number(std::string_view dir, std::string_view name);
  // The first pair of which the list or, failing all lists, the mask can be read.
  std::optional<CpuSet> cpus(std::string_view dir, std::initializer_list<SetFiles> names);
  // The list form alone, with the reason why there is none.
  Result<CpuSet> list_file(std::string_view dir, std::string_view name);
  // Names in a directory; nothing if it is not there.
  std::optional<std::vector<std::string>> names(const std::string& dir);
  std::optional<std::string> link(const std::string& path);

  void warn(std::string path, std::string found, std::string assumed);
  // The same, but only the first of its kind: for faults that repeat on every CPU.
  void warn_once(std::string_view kind, std::string path, std::string found, std::string assumed);

 private:
  std::optional<CpuSet> parse(std::string_view dir, std::string_view name, bool is_mask);
  const std::string& join(std::string_view dir, std::string_view name);

  Source& source_;
  std::vector<Warning>& warnings_;
  std::set<std::string, std::less<>> said_;
  std::string path_;
  std::string buffer_;
};

}  // namespace dracpu::topology

#endif  // DRACPU_TOPOLOGY_FILES_H_
