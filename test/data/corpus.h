// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The machines and vectors that tests run on, and the place where they lie.
//
// They are no part of this repository: $DRACPU_TEST_DATA names the folder, by default "shared" beside the
// source tree. It holds topologies/NAME.tar.gz with NAME.expected.json, and data/. A test that finds none
// skips and says so.

#ifndef DRACPU_TEST_DATA_CORPUS_H_
#define DRACPU_TEST_DATA_CORPUS_H_

#include <filesystem>
#include <string>
#include <vector>

namespace dracpu::test {

// A new directory in memory, or where temporary files go, removed with all it holds.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct Machine {
  std::string name;
  std::filesystem::path archive;
  std::filesystem::path expected;
};

std::filesystem::path data_dir();
// Sorted by name; empty if there are none.
std::vector<Machine> machines();
// Unpacks into `dir`, which becomes the root of the tree. False if tar fails.
bool unpack(const Machine& machine, const std::filesystem::path& dir);
// The whole file, empty if it cannot be read.
std::string slurp(const std::filesystem::path& path);

}  // namespace dracpu::test

#endif  // DRACPU_TEST_DATA_CORPUS_H_
