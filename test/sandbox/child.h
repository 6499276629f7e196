// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Child processes, and the folder that everything of one sandbox lies in.
//
// A Child dies with its owner object, and with this process (PR_SET_PDEATHSIG counts the thread that made it:
// make children from a thread that lives as long). Threads One object, one thread.

#ifndef DRACPU_SANDBOX_CHILD_H_
#define DRACPU_SANDBOX_CHILD_H_

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace dracpu::sandbox {

class Child {
 public:
  // Runs argv[0] with `env` added to this process's environment; both outputs are appended to `log`.
  static Result<Child> start(const std::vector<std::string>& argv, const std::vector<std::string>& env,
                             const std::filesystem::path& log);
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}
  Child& operator=(Child&& other) noexcept;
  ~Child();

  pid_t pid() const { return pid_; }
  bool running();
  // The exit status, 128 + signal if it was killed, or nothing if it did not end in time.
  std::optional<int> wait(std::chrono::milliseconds limit);
  void signal(int number) const;
  // SIGKILL, and waits.
  void kill();

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
  std::optional<int> status_;
};

// A folder of its own below `base`, which is the system's temporary folder if empty; removed at the end
// unless kept.
class Folder {
 public:
  static Result<Folder> make(const std::string& prefix, std::filesystem::path base = {});
  Folder(Folder&& other) noexcept : path_(std::exchange(other.path_, {})), keep_(other.keep_) {}
  Folder& operator=(Folder&&) = delete;
  ~Folder();

  const std::filesystem::path& path() const { return path_; }
  void keep() { keep_ = true; }

 private:
  explicit Folder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
  bool keep_ = false;
};

Status write_text(const std::filesystem::path& path, std::string_view text);

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_CHILD_H_
