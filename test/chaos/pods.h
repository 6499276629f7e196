// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Pods that come and go: what a kubelet and a scheduler do, with their retries, in a thread of its own.
//
// Besides the plain life of a pod: containers that restart, prepares that are repeated, sent twice at once,
// or arrive again after unprepare. Every answer goes into Facts. Threads run() on its own; the rest while
// that is paused or over.

#ifndef DRACPU_CHAOS_PODS_H_
#define DRACPU_CHAOS_PODS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/random.h"
#include "facts.h"
#include "node.h"
#include "report.h"

namespace dracpu::chaos {

using test::Random;

class Pods {
 public:
  Pods(sandbox::Node& node, Facts& facts, Report& report, std::string name, std::uint64_t seed);

  void run();
  void pause(bool on) { paused_ = on; }
  bool is_idle() const { return idle_; }
  void stop() { stop_ = true; }
  // Ends all that is left. An error: something cannot be given back.
  Status end_all();
  // What did not work though it must in the end.
  std::vector<std::string> findings() const;

 private:
  struct Live {
    sandbox::Pod pod;
    std::map<std::string, std::size_t> cpus;  // of each claim
  };
  void act();
  void start_pod();
  void start_shared();
  void end_pod();
  void restart_container();
  void prepare_again(bool twice_at_once);
  void prepare_after_unprepare();
  // Until all are answered; false when that took too long.
  bool prepare(Live& live);
  // One call; true if all claims of the pod were answered as prepared.
  bool call_prepare(Live& live);
  Status unprepare(const Live& live);
  bool create(Live& live);
  Status finish(Live& live);
  void find(std::string what);

  sandbox::Node& node_;
  Facts& facts_;
  Report& report_;
  const std::string name_;
  Random random_;
  std::vector<Live> pods_;
  std::size_t next_ = 0;
  std::atomic<bool> paused_{false};
  std::atomic<bool> idle_{false};
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::vector<std::string> findings_;
};

}  // namespace dracpu::chaos

#endif  // DRACPU_CHAOS_PODS_H_
