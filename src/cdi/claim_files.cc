// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cdi/claim_files.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "cdi/folder.h"
#include "cdi/spec.h"

namespace dracpu::cdi {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileSuffix = ".json";
constexpr std::string_view kLeftoverSuffix = ".json.new";  // base/file.h: "." before, ".new" behind
constexpr std::size_t kMaxUid = 221;                       // NAME_MAX 255 - "." - prefix - ".json.new"
constexpr std::size_t kMaxFile = std::size_t{1} << 20U;    // one claim takes some 250 bytes
constexpr std::size_t kShown = 64;                         // of a bad UID, in an error text
constexpr mode_t kMode = 0644;                             // nothing secret; the runtime may not be root

static_assert(1 + kCpuFiles.prefix.size() + kMaxUid + kLeftoverSuffix.size() <= 255);
static_assert(1 + kMemoryFiles.prefix.size() + kMaxUid + kLeftoverSuffix.size() <= 255);

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

}  // namespace

std::string device_id(const KindOfFiles& files, const ClaimUid& uid) {
  return fmt::format("{}=claim-{}", files.kind, uid.get());
}

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

ClaimFiles::ClaimFiles(fs::path dir, const KindOfFiles& files, FileOps& ops)
    : dir_(std::move(dir)), files_(files), ops_(ops) {}

fs::path ClaimFiles::claim_path(const ClaimUid& uid) const {
  return dir_ / fmt::format("{}{}{}", files_.prefix, uid.get(), kFileSuffix);
}

FileEntry ClaimFiles::read_claim_file(const fs::path& path, ClaimUid uid) const {
  const auto with = [&](Result<std::vector<std::string>> env) {
    return FileEntry{uid, std::move(env), path, Layout::kPerClaim};
  };
  const Result<std::string> text = read_regular(path);
  if (!text.ok()) return with(text.error().code == Errc::kNotFound ? text.error() : unreadable(text.error()));
  Result<std::vector<SpecVariables>> devices = parse_variables(*text, files_.kind);
  if (!devices.ok()) return with(std::move(devices).error());
  if (devices->size() != 1) return with(make_error(Errc::kCorrupt, "{} devices, not one", devices->size()));
  SpecVariables& device = devices->front();
  if (device.uid != uid)
    return with(make_error(Errc::kCorrupt, "it is about claim \"{}\"", device.uid.get()));
  return with(std::move(device.env));
}

std::vector<FileEntry> ClaimFiles::read_file_of_all(const fs::path& path) const {
  const auto failed = [&](const Error& e) {
    return std::vector<FileEntry>{{ClaimUid(), unreadable(e), path, Layout::kAllClaims}};
  };
  const Result<std::string> text = read_regular(path);
  if (!text.ok())
    return text.error().code == Errc::kNotFound ? std::vector<FileEntry>{} : failed(text.error());
  Result<std::vector<SpecVariables>> devices = parse_variables(*text, files_.kind);
  if (!devices.ok()) return failed(devices.error());
  std::vector<FileEntry> out;
  for (SpecVariables& device : *devices)
    out.push_back({std::move(device.uid), std::move(device.env), path, Layout::kAllClaims});
  return out;
}

Status ClaimFiles::write(const ClaimUid& uid, const std::vector<std::string>& env) {
  if (Status s = check_uid(uid); !s.ok()) return s;
  const Result<std::string> spec = variables_spec(files_.kind, uid, env);
  if (!spec.ok()) return spec.error();
  if (Status s = make_folder(dir_); !s.ok()) return s;
  // First ours, then out of the file of all: a crash between leaves two definitions, which the next write
  // mends, and never none.
  if (Status s = replace_file(ops_, claim_path(uid), *spec, kMode); !s.ok()) return s;
  return drop_from_file_of_all(uid);
}

bool ClaimFiles::may_have(const ClaimUid& uid) const {
  std::error_code failed;
  return check_uid(uid).ok() && (fs::exists(fs::symlink_status(claim_path(uid), failed)) ||
                                 (failed && failed != std::errc::no_such_file_or_directory));
}

Status ClaimFiles::remove(const ClaimUid& uid) {
  if (Status s = check_uid(uid); !s.ok()) return s;
  if (Status s = remove_file(ops_, claim_path(uid)); !s.ok()) return s;
  return drop_from_file_of_all(uid);
}

Status ClaimFiles::drop_from_file_of_all(const ClaimUid& uid) {
  const fs::path path = dir_ / files_.all_claims;
  std::error_code ec;
  if (!fs::exists(fs::symlink_status(path, ec))) return ok_status();
  const Locked lock(file_of_all_);
  const Result<std::string> text = read_regular(path);
  if (!text.ok()) {
    // What is no file of the kind defines no device for the runtime either; list() reports it.
    return text.error().code == Errc::kUnavailable ? Status(text.error()) : ok_status();
  }
  if (text->find(uid.get()) == std::string::npos) return ok_status();
  const Result<std::string> rest = without_claim(*text, files_.kind, uid);
  if (!rest.ok()) return ok_status();
  if (rest->empty()) return remove_file(ops_, path);
  return replace_file(ops_, path, *rest, kMode);
}

Result<std::vector<FileEntry>> ClaimFiles::list() const {
  Result<std::vector<std::string>> names = names_in(dir_);
  if (!names.ok()) return std::move(names).error();
  std::vector<FileEntry> out;
  for (const std::string& name : *names) {
    const fs::path path = dir_ / name;
    if (name == files_.all_claims) {
      for (FileEntry& e : read_file_of_all(path)) out.push_back(std::move(e));
      continue;
    }
    if (!name.starts_with(files_.prefix) || !name.ends_with(kFileSuffix)) continue;
    const std::size_t length = name.size() - files_.prefix.size() - kFileSuffix.size();
    ClaimUid uid(name.substr(files_.prefix.size(), length));
    if (Status s = check_uid(uid); !s.ok()) {
      out.push_back({ClaimUid(), Error{Errc::kCorrupt, s.error().text}, path, Layout::kPerClaim});
      continue;
    }
    FileEntry entry = read_claim_file(path, std::move(uid));
    const bool went_away = !entry.env.ok() && entry.env.error().code == Errc::kNotFound;
    if (!went_away) out.push_back(std::move(entry));
  }
  return out;
}

Result<std::size_t> ClaimFiles::sweep() {
  Result<std::vector<std::string>> names = names_in(dir_);
  if (!names.ok()) return std::move(names).error();
  std::size_t removed = 0;
  for (const std::string& name : *names) {
    const bool of_claim =
        name.starts_with(fmt::format(".{}", files_.prefix)) && name.ends_with(kLeftoverSuffix);
    const bool of_all = name == fmt::format(".{}.new", files_.all_claims);
    if (!of_claim && !of_all) continue;
    if (Status s = remove_file(ops_, dir_ / name); !s.ok()) return std::move(s).error();
    ++removed;
  }
  return removed;
}

}  // namespace dracpu::cdi
