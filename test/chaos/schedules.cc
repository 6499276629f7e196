// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "schedules.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/unique_fd.h"
#include "child.h"
#include "schedule.h"

namespace dracpu::chaos {
namespace {

constexpr std::size_t kEnough = 10;

class QuietStderr {
 public:
  QuietStderr() : kept_(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) {
    const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    (void)std::fflush(stderr);
    if (kept_.valid() && nowhere.valid()) ::dup2(nowhere.get(), STDERR_FILENO);
  }
  ~QuietStderr() {
    if (kept_.valid()) ::dup2(kept_.get(), STDERR_FILENO);
  }
  QuietStderr(const QuietStderr&) = delete;
  QuietStderr& operator=(const QuietStderr&) = delete;

 private:
  UniqueFd kept_;
};

// In memory where the system has such a folder: nothing here needs a real disk, and there are very many
// files.
Result<sandbox::Folder> make_folder() {
  const char* memory = "/dev/shm";
  if (::access(memory, W_OK | X_OK) == 0) return sandbox::Folder::make("dracpu-chaos-", memory);
  return sandbox::Folder::make("dracpu-chaos-");
}

}  // namespace

Status run_schedules(std::size_t count, std::uint64_t seed, Report& report) {
  const Result<sandbox::Folder> folder = make_folder();
  if (!folder.ok()) return folder.error();
  const QuietStderr quiet;
  Result<Bed> bed = Bed::make(folder->path());
  if (!bed.ok()) return std::move(bed).error();
  const std::size_t before = report.violations();
  for (std::size_t i = 0; i < count && report.violations() < before + kEnough; ++i)
    (void)Schedule(*bed, seed + i, report).run();
  return ok_status();
}

}  // namespace dracpu::chaos
