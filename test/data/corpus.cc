// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "data/corpus.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace dracpu::test {

TempDir::TempDir() {
  // Ten thousand small files are made and removed again: memory is the place for them.
  const std::filesystem::path shm = "/dev/shm";
  const bool has_shm = ::access(shm.c_str(), W_OK | X_OK) == 0;
  std::string pattern =
      ((has_shm ? shm : std::filesystem::temp_directory_path()) / "dracpu-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a temporary directory");
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path data_dir() {
  const char* const named = std::getenv("DRACPU_TEST_DATA");
  return named != nullptr && *named != '\0' ? named : DRACPU_TEST_DATA_DEFAULT;
}

std::vector<Machine> machines() {
  std::vector<Machine> out;
  constexpr std::string_view kSuffix = ".tar.gz";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(data_dir() / "topologies", error)) {
    const std::string file = entry.path().filename().string();
    if (!file.ends_with(kSuffix)) continue;
    const std::string name = file.substr(0, file.size() - kSuffix.size());
    out.push_back({name, entry.path(), entry.path().parent_path() / (name + ".expected.json")});
  }
  std::sort(out.begin(), out.end(), [](const Machine& a, const Machine& b) { return a.name < b.name; });
  return out;
}

bool unpack(const Machine& machine, const std::filesystem::path& dir) {
  std::string archive = machine.archive.string();
  std::string target = dir.string();
  std::array<std::string, 5> args = {"tar", "-xzf", archive, "-C", target};
  std::array<char*, 6> argv{};
  for (std::size_t i = 0; i < args.size(); ++i) argv[i] = args[i].data();
  pid_t child = 0;
  if (::posix_spawnp(&child, "tar", nullptr, nullptr, argv.data(), environ) != 0) return false;
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace dracpu::test
