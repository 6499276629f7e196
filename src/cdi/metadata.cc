// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cdi/metadata.h"

#include <boost/json.hpp>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "cdi/directory.h"
#include "cdi/folder.h"

namespace dracpu::cdi {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr mode_t kMode = 0644;
constexpr std::size_t kMaxFile = std::size_t{1} << 20U;
constexpr std::string_view kInContainer = "/var/run/kubernetes.io/dra-device-attributes";

// A DNS name: nothing that leads elsewhere in a path.
Status check_name(std::string_view what, std::string_view name) {
  const bool is_good =
      !name.empty() && name.size() <= 253 && name.front() != '.' &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == std::string_view::npos;
  if (is_good) return ok_status();
  return make_error(Errc::kInvalidInput, "the {} \"{}\" is no DNS name and cannot be part of a path", what,
                    name.substr(0, 64));
}

// The UID of "<prefix><UID>_<request>.json"; nothing for other names. UIDs have no "_".
std::optional<ClaimUid> uid_in(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(".json")) return std::nullopt;
  name.remove_prefix(prefix.size());
  const std::size_t end = name.find('_');
  if (end == std::string_view::npos) return std::nullopt;
  return ClaimUid(std::string(name.substr(0, end)));
}

// Removes the CDI files for which `goes` says so.
template <typename Goes>
Result<std::size_t> remove_files(const fs::path& dir, const std::string& prefix, Goes goes) {
  const Result<std::vector<std::string>> names = names_in(dir);
  if (!names.ok()) return names.error();
  std::size_t removed = 0;
  for (const std::string& name : *names) {
    const std::optional<ClaimUid> uid = uid_in(name, prefix);
    if (!uid || !goes(*uid)) continue;
    if (Status s = remove_file(unsynced_file_ops(), dir / name); !s.ok()) return std::move(s).error();
    ++removed;
  }
  return removed;
}

}  // namespace

MetadataFiles::MetadataFiles(const fs::path& plugin_dir, fs::path cdi_dir, std::string driver)
    : dir_(plugin_dir / "dra-device-metadata"), cdi_dir_(std::move(cdi_dir)), driver_(std::move(driver)) {}

std::string MetadataFiles::device_id(const ClaimUid& uid, std::string_view request) const {
  return fmt::format("{}/metadata={}_{}", driver_, uid.get(), request);
}

fs::path MetadataFiles::cdi_file(const ClaimUid& uid, std::string_view request) const {
  return cdi_dir_ / fmt::format("{}_metadata_{}_{}.json", driver_, uid.get(), request);
}

Result<std::string> MetadataFiles::write(const MetadataPlace& place, std::string_view content) const {
  if (Status s = check_uid(place.uid); !s.ok()) return std::move(s).error();
  for (const auto& [what, name] :
       {std::pair{"namespace", &place.ns}, {"claim name", &place.claim}, {"request name", &place.request}}) {
    if (Status s = check_name(what, *name); !s.ok()) return std::move(s).error();
  }
  if (!place.pod_claim.empty()) {
    if (Status s = check_name("claim name in the pod", place.pod_claim); !s.ok()) return std::move(s).error();
  }
  const fs::path file = dir_ / (place.ns + "_" + place.claim) / place.request / "metadata.json";
  if (Status s = make_folder(file.parent_path()); !s.ok()) return std::move(s).error();
  if (Status s = replace_file(unsynced_file_ops(), file, content, kMode); !s.ok())
    return std::move(s).error();

  const bool is_direct = place.pod_claim.empty();
  const std::string inside = fmt::format("{}/{}/{}/{}/{}-metadata.json", kInContainer,
                                         is_direct ? "resourceclaims" : "resourceclaimtemplates",
                                         is_direct ? place.claim : place.pod_claim, place.request, driver_);
  const json::value spec = {
      {"cdiVersion", "0.5.0"},
      {"kind", driver_ + "/metadata"},
      {"devices", json::array{{{"name", fmt::format("{}_{}", place.uid.get(), place.request)},
                               {"containerEdits",
                                {{"mounts", json::array{{{"hostPath", file.string()},
                                                         {"containerPath", inside},
                                                         {"options", json::array{"ro", "bind"}}}}}}}}}}};
  if (Status s = make_folder(cdi_dir_); !s.ok()) return std::move(s).error();
  if (Status s = replace_file(unsynced_file_ops(), cdi_file(place.uid, place.request),
                              json::serialize(spec) + "\n", kMode);
      !s.ok()) {
    return std::move(s).error();
  }
  return device_id(place.uid, place.request);
}

std::optional<std::string> MetadataFiles::existing(const ClaimUid& uid, std::string_view request) const {
  if (!check_uid(uid).ok() || !check_name("request name", request).ok()) return std::nullopt;
  std::error_code ignored;
  if (!fs::exists(cdi_file(uid, request), ignored)) return std::nullopt;
  return device_id(uid, request);
}

std::optional<ClaimPlace> MetadataFiles::place_of(const ClaimUid& uid) const {
  const Result<std::vector<std::string>> names = names_in(cdi_dir_);
  if (!names.ok()) return std::nullopt;
  for (const std::string& file : *names) {
    if (uid_in(file, driver_ + "_metadata_") != uid) continue;
    const Result<std::string> text = read_file(cdi_dir_ / file, kMaxFile);
    if (!text.ok()) continue;
    // <dir_>/<namespace>_<claim>/<request>/metadata.json; a namespace has no "_".
    const std::string before = (dir_ / "").string();
    const std::size_t begin = text->find(before);
    if (begin == std::string::npos) continue;
    const std::string_view rest = std::string_view(*text).substr(begin + before.size());
    const std::string_view folder = rest.substr(0, rest.find('/'));
    const std::size_t middle = folder.find('_');
    if (middle == std::string_view::npos) continue;
    ClaimPlace out{std::string(folder.substr(0, middle)), std::string(folder.substr(middle + 1))};
    if (check_name("namespace", out.ns).ok() && check_name("claim name", out.name).ok()) return out;
  }
  return std::nullopt;
}

Status MetadataFiles::remove(const ClaimUid& uid, std::string_view ns, std::string_view claim) const {
  if (!check_uid(uid).ok()) return ok_status();  // never written
  const Result<std::size_t> removed =
      remove_files(cdi_dir_, driver_ + "_metadata_", [&](const ClaimUid& found) { return found == uid; });
  if (!removed.ok()) return removed.error();
  if (!check_name("namespace", ns).ok() || !check_name("claim name", claim).ok()) return ok_status();
  std::error_code failed;
  fs::remove_all(dir_ / fmt::format("{}_{}", ns, claim), failed);
  if (failed) {
    return make_error(Errc::kUnavailable, "remove folder \"{}/{}_{}\": {}", dir_.string(), ns, claim,
                      failed.message());
  }
  return ok_status();
}

Result<std::size_t> MetadataFiles::sweep(const std::set<ClaimUid>& keep) const {
  return remove_files(cdi_dir_, driver_ + "_metadata_",
                      [&](const ClaimUid& uid) { return !keep.contains(uid); });
}

}  // namespace dracpu::cdi
