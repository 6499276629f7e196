// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A disk for tests that fails where it is told to.

#ifndef DRACPU_AGENT_TEST_FILES_H_
#define DRACPU_AGENT_TEST_FILES_H_

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file.h"

namespace dracpu::agent {

// Every write, rename to and removal of a path with this text in it fails; empty: none.
class FaultyFiles final : public FileOps {
 public:
  std::string fail_on;

  Status write_and_sync(const std::filesystem::path& p, std::string_view d, mode_t m) override {
    return bad(p) ? failure() : real_file_ops().write_and_sync(p, d, m);
  }
  Status rename(const std::filesystem::path& a, const std::filesystem::path& b) override {
    return bad(b) ? failure() : real_file_ops().rename(a, b);
  }
  Status remove(const std::filesystem::path& p) override {
    return bad(p) ? failure() : real_file_ops().remove(p);
  }
  Status sync_dir(const std::filesystem::path& d) override { return real_file_ops().sync_dir(d); }

 private:
  bool bad(const std::filesystem::path& p) const {
    return !fail_on.empty() && p.string().find(fail_on) != std::string::npos;
  }
  static Status failure() { return make_error(Errc::kUnavailable, "no space left on device"); }
};

}  // namespace dracpu::agent

#endif  // DRACPU_AGENT_TEST_FILES_H_
