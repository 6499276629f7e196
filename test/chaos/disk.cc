// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "disk.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

namespace dracpu::chaos {
namespace {

namespace fs = std::filesystem;

void store(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

std::string kind_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.find("state.json") != std::string::npos) return "state file";
  if (name.find("dra.cpu.json") != std::string::npos) return "old CDI file";
  if (name.find("_claim-") != std::string::npos) return "CDI file";
  return "folder";
}

Error gone() { return make_error(Errc::kUnavailable, "the process has died"); }

Error failure(Fault fault) { return make_error(Errc::kUnavailable, "injected: {}", name_of(fault)); }

}  // namespace

std::string name_of(Where where) {
  switch (where) {
    case Where::kBefore:
      return "before";
    case Where::kInside:
      return "inside";
    case Where::kAfter:
      return "after";
  }
  return {};
}

std::string name_of(Fault fault) {
  switch (fault) {
    case Fault::kIo:
      return "EIO";
    case Fault::kFull:
      return "ENOSPC";
    case Fault::kReadOnly:
      return "EROFS";
    case Fault::kShortWrite:
      return "short write";
    case Fault::kSync:
      return "EIO at sync";
  }
  return {};
}

void SimDisk::die_at(std::size_t n, Where where) {
  death_at_ = operations_ + n;
  death_where_ = where;
}

void SimDisk::fail_at(std::size_t n, std::size_t times, Fault fault) {
  fault_from_ = operations_ + n;
  fault_until_ = fault_from_ + times;
  fault_ = fault;
}

void SimDisk::calm() {
  death_at_.reset();
  fault_until_ = fault_from_ = 0;
}

std::vector<std::string> SimDisk::take_faults() { return std::exchange(faults_, {}); }

std::optional<SimDisk::Fate> SimDisk::next(const std::string& operation, const fs::path& path) {
  if (dead_) return std::nullopt;
  const std::size_t n = operations_++;
  Fate out;
  if (death_at_ == n) {
    out.death = death_where_;
    if (out.death == Where::kInside && operation != "write") out.death = Where::kAfter;
    died_at_ = operation + ", " + kind_of(path) + ", " + name_of(*out.death);
    if (out.death == Where::kBefore) {
      dead_ = true;
      return std::nullopt;
    }
    return out;
  }
  if (n >= fault_from_ && n < fault_until_) {
    out.fault = fault_;
    const bool partial = fault_ == Fault::kShortWrite || fault_ == Fault::kSync;
    if (partial && operation != "write") out.fault = Fault::kIo;
    faults_.push_back(name_of(*out.fault) + " on " + operation);
  }
  return out;
}

Status SimDisk::done(const Fate& fate) {
  if (!fate.death) return ok_status();
  dead_ = true;
  return gone();
}

Status SimDisk::write_and_sync(const fs::path& path, std::string_view data, mode_t /*mode*/) {
  const std::optional<Fate> fate = next("write", path);
  if (!fate) return gone();
  const bool is_partial = fate->fault == Fault::kShortWrite || fate->fault == Fault::kSync;
  if (fate->fault && !is_partial) return failure(*fate->fault);
  if (!fs::is_directory(path.parent_path()))
    return make_error(Errc::kNotFound, "no folder for \"{}\"", path.string());
  Folder& folder = folder_of(path);
  FilePtr& file = folder.now[path.filename()];
  if (!file) {
    file = std::make_shared<File>();
    folder.pending.push_back({"", path.filename(), file});
  }
  std::size_t n = data.size();
  // Dying with everything written but not synced is one of the cases.
  if (fate->death == Where::kInside) n = random_.pick(data.size() + 1);
  if (fate->fault == Fault::kShortWrite) n = random_.pick(data.size());
  file->now = data.substr(0, n);
  file->is_clean = false;
  store(path, file->now);
  if (fate->fault) return failure(*fate->fault);
  if (fate->death == Where::kInside) return done(*fate);
  if (!is_unsynced_) {
    file->synced = file->now;
    file->is_clean = true;
  }
  return done(*fate);
}

Status SimDisk::rename(const fs::path& from, const fs::path& to) {
  const std::optional<Fate> fate = next("rename", to);
  if (!fate) return gone();
  if (fate->fault) return failure(*fate->fault);
  if (Status s = unsynced_file_ops().rename(from, to); !s.ok()) return s;
  Folder& folder = folder_of(to);
  const FilePtr file = folder.now[from.filename()];
  folder.now.erase(from.filename());
  if (file) folder.now[to.filename()] = file;
  folder.pending.push_back({from.filename(), to.filename(), file});
  return done(*fate);
}

Status SimDisk::remove(const fs::path& path) {
  const std::optional<Fate> fate = next("remove", path);
  if (!fate) return gone();
  if (fate->fault) return failure(*fate->fault);
  if (Status s = unsynced_file_ops().remove(path); !s.ok()) {
    if (fate->death) return done(*fate);
    return s;
  }
  Folder& folder = folder_of(path);
  folder.now.erase(path.filename());
  folder.pending.push_back({path.filename(), "", nullptr});
  return done(*fate);
}

Status SimDisk::sync_dir(const fs::path& dir) {
  const std::optional<Fate> fate = next("folder sync", dir);
  if (!fate) return gone();
  if (fate->fault) return failure(*fate->fault);
  if (is_unsynced_) return done(*fate);
  Folder& folder = folders_[dir];
  folder.certain = folder.now;
  folder.pending.clear();
  return done(*fate);
}

void SimDisk::after_process_death() {
  dead_ = false;
  died_at_.clear();
  calm();
}

std::string SimDisk::content_after_cut(const File& file) {
  if (file.is_clean) return file.now;
  const std::string old = file.synced.value_or("");
  const std::size_t cut = random_.pick(file.now.size() + 1);
  switch (random_.pick(6)) {
    case 0:
      return old;
    case 1:
      return "";
    case 2:
      return file.now;
    case 3:
      return file.now.substr(0, cut);
    case 4:  // the length is on disk, the last blocks are not
      return file.now.substr(0, cut) + std::string(file.now.size() - cut, '\0');
    default:
      return file.now.substr(0, cut) + (cut < old.size() ? old.substr(cut) : "");
  }
}

void SimDisk::after_power_cut(const std::vector<fs::path>& volatile_folders) {
  after_process_death();
  for (auto& [path, folder] : folders_) {
    Names names;
    const bool is_volatile =
        std::find(volatile_folders.begin(), volatile_folders.end(), path) != volatile_folders.end();
    if (!is_volatile) {
      names = folder.certain;
      // All, none, or each change by itself.
      const std::size_t way = random_.pick(3);
      for (const Change& c : folder.pending) {
        if (way == 0 || (way == 2 && random_.chance(50))) continue;
        if (!c.removed.empty()) names.erase(c.removed);
        if (!c.linked.empty() && c.file) names[c.linked] = c.file;
      }
    }
    std::error_code ec;
    for (const auto& entry : fs::directory_iterator(path, ec)) fs::remove_all(entry.path(), ec);
    Names settled;
    for (const auto& [name, file] : names) {
      const std::string text = content_after_cut(*file);
      settled[name] = std::make_shared<File>(File{text, text, true});
      store(path / name, text);
    }
    folder = Folder{settled, settled, {}};
  }
}

void SimDisk::put(const fs::path& path, const std::string& content) {
  std::error_code ec;
  fs::create_directories(path.parent_path(), ec);
  Folder& folder = folder_of(path);
  const auto file = std::make_shared<File>(File{content, content, true});
  folder.now[path.filename()] = file;
  folder.certain[path.filename()] = file;
  store(path, content);
}

void SimDisk::erase(const fs::path& path) {
  Folder& folder = folder_of(path);
  folder.now.erase(path.filename());
  folder.certain.erase(path.filename());
  std::erase_if(folder.pending, [&](const Change& c) { return c.linked == path.filename(); });
  std::error_code ec;
  fs::remove(path, ec);
}

void SimDisk::erase_folder(const fs::path& dir) {
  std::error_code ec;
  fs::remove_all(dir, ec);
  folders_[dir] = Folder{};
}

}  // namespace dracpu::chaos
