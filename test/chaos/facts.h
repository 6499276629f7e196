// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What the kubelet was answered, kept outside the driver, and an observer that compares it all the time with
// what lies on disk and what the runtime was told.
//
// From the answer to a prepare until the call of unprepare: the claim's CDI file is there and says the same
// CPUs, the state file has the claim with them, no other claim has one of them, and its containers, once they
// were told a set, keep it. Threads Any; one of its own, which looks every few milliseconds.

#ifndef DRACPU_CHAOS_FACTS_H_
#define DRACPU_CHAOS_FACTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/cpuset.h"
#include "runtime.h"

namespace dracpu::chaos {

class Facts {
 public:
  Facts(std::filesystem::path cdi_folder, std::filesystem::path state_file, const sandbox::Runtime& runtime);
  ~Facts();

  // The answer came; reads the claim's CDI file. Also for repeated prepares.
  void prepared(const std::string& uid, std::size_t cpus);
  // Before unprepare is called.
  void ending(const std::string& uid);
  std::map<std::string, CpuSet> now() const;
  // What is wrong with the running containers while the driver is connected and nothing changes; empty:
  // nothing.
  std::string odd_containers() const;

  std::vector<std::string> findings() const;
  std::size_t looks() const { return looks_; }

 private:
  struct Fact {
    CpuSet cpus;
    std::uint64_t version = 0;
  };
  std::map<std::string, Fact> copy() const;
  void look_all();
  void look();
  void find(std::string what);

  const std::filesystem::path cdi_;
  const std::filesystem::path state_;
  const sandbox::Runtime& runtime_;
  mutable std::mutex mutex_;
  std::map<std::string, Fact> facts_;
  std::uint64_t next_version_ = 1;
  std::vector<std::string> findings_;
  std::map<std::string, std::string> told_;  // of the looking thread: container to its first set
  std::atomic<std::size_t> looks_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace dracpu::chaos

#endif  // DRACPU_CHAOS_FACTS_H_
