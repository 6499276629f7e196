// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "agent/cleanup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "agent/state_codec.h"
#include "base/file.h"
#include "cdi/directory.h"
#include "cdi/spec.h"
#include "kubelet/options.h"
#include "store/state_file.h"

namespace dracpu::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kClaimPrefix = "dra.k8s.io-cpu_claim-";
constexpr std::string_view kSuffix = ".json";
constexpr std::string_view kLeftover = ".json.new";  // base/file.h: "." before, ".new" behind

// Without following a link; nothing if there is no such file.
std::optional<struct stat> look_at(const fs::path& path) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0) return std::nullopt;
  return st;
}

bool is_kind(const struct stat& st, Trace::Kind kind) {
  switch (kind) {
    case Trace::Kind::kFile:
      return S_ISREG(st.st_mode);
    case Trace::Kind::kSocket:
      return S_ISSOCK(st.st_mode);
    case Trace::Kind::kFolder:
      return S_ISDIR(st.st_mode);
  }
  return false;
}

std::string_view name_of(Trace::Kind kind) {
  switch (kind) {
    case Trace::Kind::kFile:
      return "regular file";
    case Trace::Kind::kSocket:
      return "socket";
    case Trace::Kind::kFolder:
      return "folder";
  }
  return "";
}

// Sorted; none if the folder is missing.
Result<std::vector<std::string>> names_in(const fs::path& dir) {
  std::vector<std::string> out;
  std::error_code ec;
  for (fs::directory_iterator it(dir, ec), end; !ec && it != end; it.increment(ec))
    out.push_back(it->path().filename().string());
  if (ec && ec != std::errc::no_such_file_or_directory)
    return make_error(Errc::kUnavailable, "read folder \"{}\": {}", dir.string(), ec.message());
  std::sort(out.begin(), out.end());
  return out;
}

// The part of a name between what it begins and ends with; nothing if it does not.
std::optional<std::string> middle_of(std::string_view name, std::string_view begin, std::string_view end) {
  if (name.size() <= begin.size() + end.size() || !name.starts_with(begin) || !name.ends_with(end))
    return std::nullopt;
  return std::string(name.substr(begin.size(), name.size() - begin.size() - end.size()));
}

std::string dotted(std::string_view name) { return "." + std::string(name); }

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// What a CDI file of this name is, by its name; empty: none of the driver's.
std::string what_claim_file(const std::string& name) {
  if (const auto uid = middle_of(name, kClaimPrefix, kSuffix); uid && cdi::check_uid(ClaimUid(*uid)).ok())
    return "CDI file of claim " + *uid;
  if (middle_of(name, dotted(kClaimPrefix), kLeftover)) return "CDI file, half written";
  if (name == dotted(cdi::kCpuFiles.all_claims) + ".new") return "CDI file, half written";
  return {};
}

std::string what_metadata_file(const std::string& name, const std::vector<std::string>& drivers) {
  for (const std::string& driver : drivers) {
    const std::string prefix = driver + "_metadata_";
    if (middle_of(name, dotted(prefix), kLeftover)) return "CDI file of metadata, half written";
    const std::optional<std::string> middle = middle_of(name, prefix, kSuffix);
    if (!middle) continue;
    const std::string uid = middle->substr(0, middle->find('_'));
    if (uid.size() < middle->size() && cdi::check_uid(ClaimUid(uid)).ok())
      return "CDI file of metadata of claim " + uid;
  }
  return {};
}

}  // namespace

Cleanup::Cleanup(CleanupPlace place) : place_(std::move(place)), guard_(place_.cdi_dir) {}

void Cleanup::keep(const fs::path& path, std::string why) { plan_.kept.push_back({path, std::move(why)}); }

void Cleanup::add(const fs::path& path, Trace::Kind kind, std::string what) {
  const std::optional<struct stat> st = look_at(path);
  if (!st) return;
  const bool is_known = std::any_of(plan_.traces.begin(), plan_.traces.end(),
                                    [&path](const Trace& t) { return t.path == path; });
  if (is_known) return;
  if (!is_kind(*st, kind)) return keep(path, fmt::format("is no {}", name_of(kind)));
  plan_.traces.push_back({path, std::move(what), kind, FileId(*st), Trace::Outcome::kPlanned, ""});
}

bool Cleanup::may_enter(const fs::path& dir) {
  const std::optional<struct stat> st = look_at(dir);
  if (!st) return false;
  if (S_ISDIR(st->st_mode)) return true;
  keep(dir, "is no folder; links are not followed");
  return false;
}

Status Cleanup::add_folder(const fs::path& dir, std::string what) {
  const Result<std::vector<std::string>> names = names_in(dir);
  if (!names.ok()) return names.error();
  bool stays = false;
  for (const std::string& name : *names) {
    const fs::path path = dir / name;
    const auto has_path = [&path](const auto& one) { return one.path == path; };
    if (std::any_of(plan_.traces.begin(), plan_.traces.end(), has_path)) continue;
    stays = true;
    if (std::none_of(plan_.kept.begin(), plan_.kept.end(), has_path))
      keep(path, "is not known to be the driver's");
  }
  if (stays) {
    keep(dir, "is not empty");
  } else {
    add(dir, Trace::Kind::kFolder, std::move(what));
  }
  return ok_status();
}

Status Cleanup::take_lock(bool will_remove) {
  const bool may_make = will_remove && !place_.is_names_only && look_at(place_.cdi_dir);
  if (!may_make && !look_at(guard_.path())) return ok_status();
  const Result<bool> taken = guard_.try_take();
  if (!taken.ok()) return taken.error();
  is_held_elsewhere_ = !*taken;
  return ok_status();
}

void Cleanup::look_for_life() {
  if (is_held_elsewhere_ && !place_.is_names_only)
    plan_.alive.push_back(fmt::format("a driver holds the lock \"{}\"", guard_.path().string()));
  for (const std::string& driver : place_.drivers) {
    kubelet::ServerOptions options;
    options.kubelet_root_dir = place_.kubelet_root;
    options.driver_name = driver;
    if (const Status s = kubelet::check_no_other_driver(options); !s.ok())
      plan_.alive.push_back(s.error().text);
  }
}

void Cleanup::look_for_claims() {
  store::StateFile file(place_.state_file);
  const Result<State> state = load_state(file);
  const auto is_ours = [this](const std::string& driver) {
    return std::find(place_.drivers.begin(), place_.drivers.end(), driver) != place_.drivers.end();
  };
  if (!state.ok()) {
    if (state.error().code != Errc::kNotFound)
      plan_.claims.push_back("perhaps some, the state file cannot be read: " + state.error().text);
  } else if (place_.is_names_only && !is_ours(state->driver)) {
    return;  // what is on record belongs to the driver of another name
  } else {
    for (const auto& [uid, claim] : state->claims)
      plan_.claims.push_back(
          fmt::format("{}/{} ({}, CPUs {})", claim.ns, claim.name, uid.get(), claim.cpus.to_string()));
    // Its sockets may not be there yet.
    if (is_held_elsewhere_ && place_.is_names_only)
      plan_.alive.push_back(
          fmt::format("a driver holds the lock \"{}\", and the state file says that it is \"{}\"",
                      guard_.path().string(), state->driver));
  }
  if (place_.is_names_only) return;
  const Result<std::vector<cdi::Entry>> files = cdi::Directory(place_.cdi_dir).list();
  if (!files.ok()) return;  // look_at_cdi() tells
  for (const cdi::Entry& e : *files) {
    if (e.uid.get().empty() || (state.ok() && state->claims.contains(e.uid))) continue;
    plan_.claims.push_back(fmt::format("{} (known by {} alone)", e.uid.get(), e.path.string()));
  }
}

Status Cleanup::look_at_metadata(const fs::path& dir) {
  if (!may_enter(dir)) return ok_status();
  const Result<std::vector<std::string>> claims = names_in(dir);
  if (!claims.ok()) return claims.error();
  for (const std::string& claim : *claims) {
    // <namespace>_<claim>/<request>/metadata.json
    const fs::path claim_dir = dir / claim;
    if (claim.find('_') == std::string::npos || !may_enter(claim_dir)) continue;
    const Result<std::vector<std::string>> requests = names_in(claim_dir);
    if (!requests.ok()) return requests.error();
    for (const std::string& request : *requests) {
      const fs::path request_dir = claim_dir / request;
      if (!may_enter(request_dir)) continue;
      add(request_dir / "metadata.json", Trace::Kind::kFile, "metadata of a claim");
      add(request_dir / ".metadata.json.new", Trace::Kind::kFile, "metadata of a claim, half written");
      if (Status s = add_folder(request_dir, "metadata of a claim"); !s.ok()) return s;
    }
    if (Status s = add_folder(claim_dir, "metadata of a claim"); !s.ok()) return s;
  }
  return add_folder(dir, "metadata of claims");
}

Status Cleanup::look_at_plugin(const fs::path& dir, const std::string& driver) {
  if (!may_enter(dir)) return ok_status();
  add(dir / "dra.sock", Trace::Kind::kSocket, "socket for the kubelet");
  add(dir / ".dra.new", Trace::Kind::kSocket, "socket for the kubelet, not yet in place");
  if (Status s = look_at_metadata(dir / "dra-device-metadata"); !s.ok()) return s;
  // The state file may lie in it; its own turn comes.
  if (dir == place_.state_file.parent_path() && !place_.is_names_only) return ok_status();
  return add_folder(dir, fmt::format("folder of driver {}", driver));
}

Status Cleanup::look_at_plugins() {
  const fs::path registry = place_.kubelet_root / "plugins_registry";
  if (may_enter(registry)) {
    for (const std::string& driver : place_.drivers) {
      add(registry / (driver + "-reg.sock"), Trace::Kind::kSocket, "registration socket");
      add(registry / ("." + driver + ".new"), Trace::Kind::kSocket, "registration socket, not yet in place");
    }
  }
  const fs::path plugins = place_.kubelet_root / "plugins";
  if (!may_enter(plugins)) return ok_status();
  for (const std::string& driver : place_.drivers) {
    if (Status s = look_at_plugin(plugins / driver, driver); !s.ok()) return s;
  }
  return ok_status();
}

Status Cleanup::look_at_state() {
  const fs::path dir = place_.state_file.parent_path();
  if (!may_enter(dir)) return ok_status();
  const std::string file = place_.state_file.filename().string();
  const Result<std::vector<std::string>> names = names_in(dir);
  if (!names.ok()) return names.error();
  for (const std::string& name : *names) {
    const std::optional<std::string> since = middle_of(name, file + ".unreadable-", "");
    if (name == file) add(dir / name, Trace::Kind::kFile, "state file");
    if (name == dotted(file) + ".new") add(dir / name, Trace::Kind::kFile, "state file, half written");
    if (since && is_number(*since)) add(dir / name, Trace::Kind::kFile, "state file that could not be read");
  }
  // A folder of somebody's own choice stays.
  if (dir.parent_path() != place_.kubelet_root / "plugins") return ok_status();
  return add_folder(dir, "folder of the state file");
}

Status Cleanup::look_at_cdi() {
  const Result<std::vector<std::string>> names = names_in(place_.cdi_dir);
  if (!names.ok()) return names.error();
  for (const std::string& name : *names) {
    const fs::path path = place_.cdi_dir / name;
    if (std::string what = what_metadata_file(name, place_.drivers); !what.empty())
      add(path, Trace::Kind::kFile, std::move(what));
    if (place_.is_names_only) continue;
    if (std::string what = what_claim_file(name); !what.empty())
      add(path, Trace::Kind::kFile, std::move(what));
    if (name != cdi::kCpuFiles.all_claims) continue;
    const std::optional<struct stat> st = look_at(path);
    const bool is_ours = st && S_ISREG(st->st_mode) && [&path] {
      const Result<std::string> text = read_file(path);
      return text.ok() && cdi::parse_spec(*text).ok();
    }();
    if (is_ours) {
      add(path, Trace::Kind::kFile, "CDI file of all claims, of release 0.1.0");
    } else {
      keep(path, "is no CDI file of release 0.1.0");
    }
  }
  return ok_status();
}

Status Cleanup::look(bool will_remove) {
  plan_ = {};
  if (Status s = take_lock(will_remove); !s.ok()) return s;
  look_for_life();
  look_for_claims();
  if (Status s = look_at_plugins(); !s.ok()) return s;
  if (Status s = look_at_cdi(); !s.ok()) return s;
  if (place_.is_names_only) return ok_status();
  if (Status s = look_at_state(); !s.ok()) return s;
  // Last: until then it keeps a driver from starting.
  add(guard_.path(), Trace::Kind::kFile, "lock");
  return ok_status();
}

void Cleanup::remove() {
  for (Trace& trace : plan_.traces) {
    const std::optional<struct stat> st = look_at(trace.path);
    if (!st) {
      trace.outcome = Trace::Outcome::kGone;
      continue;
    }
    trace.outcome = Trace::Outcome::kFailed;
    if (FileId(*st) != trace.id || !is_kind(*st, trace.kind)) {
      trace.why = "it was replaced meanwhile";
      continue;
    }
    const bool is_folder = trace.kind == Trace::Kind::kFolder;
    const int failed = is_folder ? ::rmdir(trace.path.c_str()) : ::unlink(trace.path.c_str());
    if (failed != 0) {
      trace.why = errno_text(errno);
    } else {
      trace.outcome = Trace::Outcome::kRemoved;
    }
  }
}

}  // namespace dracpu::agent
