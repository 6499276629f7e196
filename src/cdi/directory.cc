// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cdi/directory.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "cdi/folder.h"
#include "cdi/spec.h"

namespace dracpu::cdi {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFilePrefix = "dra.k8s.io-cpu_claim-";
constexpr std::string_view kFileSuffix = ".json";
constexpr std::string_view kLeftoverSuffix = ".json.new";  // base/file.h: "." before, ".new" behind
constexpr std::size_t kMaxUid = 224;                       // NAME_MAX 255 - "." - prefix - ".json.new"
constexpr std::size_t kMaxFile = std::size_t{1} << 20U;    // one claim takes some 250 bytes
constexpr std::size_t kShown = 64;                         // of a bad UID, in an error text
constexpr mode_t kMode = 0644;                             // nothing secret; the runtime may not be root

static_assert(1 + kFilePrefix.size() + kMaxUid + kLeftoverSuffix.size() <= 255);

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// A fifo or device under our name must not block the reader, and a link must not lead elsewhere.
Result<std::string> read_regular(const fs::path& path) {
  std::error_code ec;
  const fs::file_status status = fs::symlink_status(path, ec);
  if (status.type() != fs::file_type::not_found && status.type() != fs::file_type::regular) {
    return make_error(Errc::kCorrupt, "\"{}\" is not a regular file", path.string());
  }
  return read_file(path, kMaxFile);
}

Error unreadable(const Error& cause) {
  return Error{cause.code == Errc::kUnavailable ? Errc::kUnavailable : Errc::kCorrupt, cause.text};
}

std::optional<Entry> read_claim_file(const fs::path& path, ClaimUid uid) {
  const auto with = [&](Result<CpuSet> cpus) { return Entry{uid, std::move(cpus), path, Layout::kPerClaim}; };
  const Result<std::string> text = read_regular(path);
  if (!text.ok() && text.error().code == Errc::kNotFound) return std::nullopt;  // went away meanwhile
  if (!text.ok()) return with(unreadable(text.error()));
  Result<std::vector<SpecDevice>> devices = parse_spec(*text);
  if (!devices.ok()) return with(std::move(devices).error());
  if (devices->size() != 1) return with(make_error(Errc::kCorrupt, "{} devices, not one", devices->size()));
  SpecDevice& device = devices->front();
  if (device.uid != uid) {
    return with(make_error(Errc::kCorrupt, "it is about claim \"{}\"", device.uid.get()));
  }
  return with(std::move(device.cpus));
}

std::vector<Entry> read_old_file(const fs::path& path) {
  const auto failed = [&](const Error& e) {
    return std::vector<Entry>{{ClaimUid(), unreadable(e), path, Layout::kAllClaims}};
  };
  const Result<std::string> text = read_regular(path);
  if (!text.ok()) return text.error().code == Errc::kNotFound ? std::vector<Entry>{} : failed(text.error());
  Result<std::vector<SpecDevice>> devices = parse_spec(*text);
  if (!devices.ok()) return failed(devices.error());
  std::vector<Entry> out;
  for (SpecDevice& device : *devices) {
    out.push_back({std::move(device.uid), std::move(device.cpus), path, Layout::kAllClaims});
  }
  return out;
}

}  // namespace

std::string device_id(const ClaimUid& uid) { return fmt::format("{}=claim-{}", kKind, uid.get()); }

std::string env_name(const ClaimUid& uid) { return "DRA_CPUSET_" + uid.get(); }

Status check_uid(const ClaimUid& uid) {
  const std::string& text = uid.get();
  const auto bad = [&](std::string_view why) {
    return make_error(Errc::kInvalidInput, "claim uid \"{}\" {}", std::string_view(text).substr(0, kShown),
                      why);
  };
  if (!std::all_of(text.begin(), text.end(),
                   [](char c) { return is_letter_or_digit(c) || c == '-' || c == '.'; })) {
    return make_error(Errc::kInvalidInput,
                      "claim uid {:?} has characters other than letters, digits, \"-\" and \".\"",
                      std::string_view(text).substr(0, kShown));
  }
  if (text.empty()) return bad("is empty");
  if (text.size() > kMaxUid) return bad(fmt::format("has {} characters, more than {}", text.size(), kMaxUid));
  if (!is_letter_or_digit(text.front()) || !is_letter_or_digit(text.back())) {
    return bad("does not begin and end with a letter or digit");
  }
  if (text.find("..") != std::string::npos) return bad("has two dots in a row");
  return ok_status();
}

Directory::Directory(fs::path dir, FileOps& ops) : dir_(std::move(dir)), ops_(ops) {}

fs::path Directory::claim_path(const ClaimUid& uid) const {
  return dir_ / fmt::format("{}{}{}", kFilePrefix, uid.get(), kFileSuffix);
}

Status Directory::write_claim(const ClaimUid& uid, const CpuSet& cpus) {
  if (Status s = check_uid(uid); !s.ok()) return s;
  if (cpus.empty()) return make_error(Errc::kInvalidInput, "claim \"{}\" has no CPUs to write", uid.get());
  if (Status s = make_folder(dir_); !s.ok()) return s;
  // First ours, then out of the old file: a crash between leaves two definitions, which the next write mends,
  // and never none.
  if (Status s = replace_file(ops_, claim_path(uid), claim_spec(uid, cpus), kMode); !s.ok()) return s;
  return drop_from_old_file(uid);
}

bool Directory::may_have(const ClaimUid& uid) const {
  std::error_code failed;
  return check_uid(uid).ok() && (fs::exists(fs::symlink_status(claim_path(uid), failed)) ||
                                 (failed && failed != std::errc::no_such_file_or_directory));
}

Status Directory::remove_claim(const ClaimUid& uid) {
  if (Status s = check_uid(uid); !s.ok()) return s;
  if (Status s = remove_file(ops_, claim_path(uid)); !s.ok()) return s;
  return drop_from_old_file(uid);
}

Status Directory::drop_from_old_file(const ClaimUid& uid) {
  const fs::path path = dir_ / kOldFileName;
  std::error_code ec;
  if (!fs::exists(fs::symlink_status(path, ec))) return ok_status();
  const Locked lock(old_file_);
  const Result<std::string> text = read_regular(path);
  if (!text.ok()) {
    // What is no file of ours defines no device for the runtime either; list() reports it.
    return text.error().code == Errc::kUnavailable ? Status(text.error()) : ok_status();
  }
  if (text->find(uid.get()) == std::string::npos) return ok_status();
  const Result<std::string> rest = without_claim(*text, uid);
  if (!rest.ok()) return ok_status();
  if (rest->empty()) return remove_file(ops_, path);
  return replace_file(ops_, path, *rest, kMode);
}

Result<std::vector<Entry>> Directory::list() const {
  Result<std::vector<std::string>> names = names_in(dir_);
  if (!names.ok()) return std::move(names).error();
  std::vector<Entry> out;
  for (const std::string& name : *names) {
    const fs::path path = dir_ / name;
    if (name == kOldFileName) {
      for (Entry& e : read_old_file(path)) out.push_back(std::move(e));
      continue;
    }
    if (!name.starts_with(kFilePrefix) || !name.ends_with(kFileSuffix)) continue;
    const std::size_t length = name.size() - kFilePrefix.size() - kFileSuffix.size();
    ClaimUid uid(name.substr(kFilePrefix.size(), length));
    if (Status s = check_uid(uid); !s.ok()) {
      out.push_back({ClaimUid(), Error{Errc::kCorrupt, s.error().text}, path, Layout::kPerClaim});
      continue;
    }
    if (std::optional<Entry> e = read_claim_file(path, std::move(uid))) out.push_back(*std::move(e));
  }
  return out;
}

Result<std::size_t> Directory::sweep() {
  Result<std::vector<std::string>> names = names_in(dir_);
  if (!names.ok()) return std::move(names).error();
  std::size_t removed = 0;
  for (const std::string& name : *names) {
    const bool of_claim = name.starts_with("." + std::string(kFilePrefix)) && name.ends_with(kLeftoverSuffix);
    const bool of_old = name == "." + std::string(kOldFileName) + ".new";
    if (!of_claim && !of_old) continue;
    if (Status s = remove_file(ops_, dir_ / name); !s.ok()) return std::move(s).error();
    ++removed;
  }
  return removed;
}

}  // namespace dracpu::cdi
