// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A disk that can fail at every operation, and that forgets at a power cut what was not synced.
//
// What a process sees lies in real files below `root`, so that readers need no seam. Beside it this class
// keeps what is certain to survive: the content of a file since its last sync, the names of a folder since
// the folder's last sync. At a power cut each change that is not certain is kept or lost, each by itself, and
// content that is not certain is old, empty, torn at any byte, or whole. Death   The process "dies" at an
// operation: before it, inside a write, or after it. From then on nothing it does
//         has an effect, and every call is an error; what it answers is for the caller to ignore.
// Threads One at a time.

#ifndef DRACPU_CHAOS_DISK_H_
#define DRACPU_CHAOS_DISK_H_

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/random.h"

namespace dracpu::chaos {

using test::Random;

enum class Where { kBefore, kInside, kAfter };
// kShortWrite: a part is written, then the disk is full. kSync: all is done, only the sync fails.
enum class Fault { kIo, kFull, kReadOnly, kShortWrite, kSync };

std::string name_of(Where where);
std::string name_of(Fault fault);

class SimDisk final : public FileOps {
 public:
  explicit SimDisk(Random& random) : random_(random) {}

  Status write_and_sync(const std::filesystem::path& path, std::string_view data, mode_t mode) override;
  Status rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  Status remove(const std::filesystem::path& path) override;
  Status sync_dir(const std::filesystem::path& dir) override;

  // The process dies at the n-th operation from now, 0 being the next.
  void die_at(std::size_t n, Where where);
  // Operations from the n-th on fail, `times` of them.
  void fail_at(std::size_t n, std::size_t times, Fault fault);
  void calm();  // takes both back
  // From now on syncs are said to be done and are not, as if the driver had left them out: to see that it is
  // found.
  void leave_syncs_out() { is_unsynced_ = true; }
  bool is_dead() const { return dead_; }
  // "rename, state file, after": the operation of the death.
  const std::string& died_at() const { return died_at_; }
  // Operations that failed since the last call, as "EIO on rename".
  std::vector<std::string> take_faults();

  // What a new process finds.
  void after_process_death();
  void after_power_cut(const std::vector<std::filesystem::path>& volatile_folders);

  // By another hand than the driver's; certain at once.
  void put(const std::filesystem::path& path, const std::string& content);
  void erase(const std::filesystem::path& path);
  void erase_folder(const std::filesystem::path& folder);

 private:
  struct File {
    std::string now;
    std::optional<std::string> synced;
    bool is_clean = false;
  };
  using FilePtr = std::shared_ptr<File>;
  using Names = std::map<std::string, FilePtr>;
  struct Change {
    std::string removed;
    std::string linked;
    FilePtr file;
  };
  struct Folder {
    Names now;
    Names certain;
    std::vector<Change> pending;
  };
  struct Fate {
    std::optional<Fault> fault;
    std::optional<Where> death;
  };

  // Nothing: the process is dead.
  std::optional<Fate> next(const std::string& operation, const std::filesystem::path& path);
  Status done(const Fate& fate);
  Folder& folder_of(const std::filesystem::path& path) { return folders_[path.parent_path()]; }
  std::string content_after_cut(const File& file);

  Random& random_;
  std::map<std::filesystem::path, Folder> folders_;
  std::size_t operations_ = 0;
  std::optional<std::size_t> death_at_;
  Where death_where_ = Where::kBefore;
  std::size_t fault_from_ = 0;
  std::size_t fault_until_ = 0;
  Fault fault_ = Fault::kIo;
  bool dead_ = false;
  bool is_unsynced_ = false;
  std::string died_at_;
  std::vector<std::string> faults_;
};

}  // namespace dracpu::chaos

#endif  // DRACPU_CHAOS_DISK_H_
