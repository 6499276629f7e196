// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/pod_cgroups.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/beneath.h"

namespace dracpu::agent {
namespace {

Error failure(std::string_view what, const std::string& name) {
  return make_error(Errc::kUnavailable, "{} {}: {}", what, name, errno_text(errno));
}

// Nothing: there is no note yet.
Result<std::optional<memory::PodNote>> read_note(int group, const std::string& name) {
  std::array<char, 4096> buffer{};
  const ssize_t size = ::fgetxattr(group, name.c_str(), buffer.data(), buffer.size());
  if (size < 0 && errno == ENODATA) return std::optional<memory::PodNote>();
  if (size < 0) return failure("read attribute", name);
  Result<memory::PodNote> note =
      memory::parse_note(std::string_view(buffer.data(), static_cast<std::size_t>(size)));
  if (!note.ok()) return std::move(note).error().while_doing("reading attribute " + name);
  return std::optional<memory::PodNote>(*std::move(note));
}

Status write_note(int group, const std::string& name, const memory::PodNote& note) {
  const std::string text = memory::format_note(note);
  if (::fsetxattr(group, name.c_str(), text.data(), text.size(), 0) == 0) return ok_status();
  return failure("write attribute", name);
}

Result<std::optional<memory::Bytes>> read_limit(int group, const std::string& file) {
  const Result<UniqueFd> fd = open_beneath(group, file, O_RDONLY);
  if (!fd.ok()) return fd.error();
  std::array<char, 64> buffer{};
  const ssize_t size = ::read(fd->get(), buffer.data(), buffer.size());
  if (size < 0) return failure("read", file);
  return memory::parse_limit(std::string_view(buffer.data(), static_cast<std::size_t>(size)));
}

Status raise(int group, const std::string& file, memory::Bytes target) {
  const Result<std::optional<memory::Bytes>> now = read_limit(group, file);
  if (!now.ok()) return now.error();
  if (!*now || **now >= target) return ok_status();
  const Result<UniqueFd> fd = open_beneath(group, file, O_WRONLY | O_TRUNC);
  if (!fd.ok()) return fd.error();
  const std::string text = std::to_string(target.count);
  if (::write(fd->get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) return ok_status();
  return failure("write", file);
}

}  // namespace

Result<PodCgroups> PodCgroups::open(const std::filesystem::path& mount) {
  UniqueFd root(::open(mount.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct statvfs info {};
  std::string why;
  if (!root.valid() || ::fstatvfs(root.get(), &info) != 0) {
    why = errno_text(errno);
  } else if ((info.f_flag & ST_RDONLY) != 0) {
    why = "it is mounted read-only";
  } else {
    return PodCgroups(std::move(root));
  }
  return make_error(
      Errc::kUnsupported,
      "memory.hugetlbEnforcement \"pod\" needs the node's cgroup tree, writable, at \"{}\": {}; "
      "mount it (chart: hostCgroups.enabled), or use \"container\"",
      mount.string(), why);
}

Status PodCgroups::allow(std::string_view parent, const std::string& page, const std::string& container,
                         const memory::ContainerShare& share) const {
  const Result<std::string> path = memory::path_below_mount(parent);
  if (!path.ok()) return path.error();
  const Result<UniqueFd> group = open_beneath(root_.get(), *path, O_RDONLY | O_DIRECTORY);
  if (!group.ok()) return group.error();
  const std::string limit = fmt::format("hugetlb.{}.max", page);
  const std::string reserved = fmt::format("hugetlb.{}.rsvd.max", page);
  const std::string attribute = fmt::format("user.dracpu.hugetlb.{}", page);
  const Result<std::optional<memory::PodNote>> known = read_note(group->get(), attribute);
  if (!known.ok()) return known.error();
  memory::PodNote note;
  if (*known) {
    note = **known;
  } else {
    const Result<std::optional<memory::Bytes>> before = read_limit(group->get(), limit);
    if (!before.ok()) return before.error();
    note.baseline = *before;
  }
  note.containers.insert_or_assign(container, share);
  const std::optional<memory::Bytes> target = memory::pod_limit(note);
  if (!target || (!*known && *target <= *note.baseline)) return ok_status();  // it has the room
  if (note != *known) {
    if (Status s = write_note(group->get(), attribute, note); !s.ok()) return s;
  }
  if (Status s = raise(group->get(), reserved, *target); !s.ok() && s.error().code != Errc::kNotFound)
    return s;
  return raise(group->get(), limit, *target);
}

}  // namespace dracpu::agent
