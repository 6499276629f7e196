// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What a run of the fault suite counts, and what it found.
//
// Threads Any.

#ifndef DRACPU_CHAOS_REPORT_H_
#define DRACPU_CHAOS_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace dracpu::chaos {

struct Violation {
  std::string part;
  std::uint64_t seed = 0;  // of the schedule alone
  std::string what;
  std::vector<std::string> trail;  // what was done until then
};

class Report {
 public:
  // `group` orders the table: "crash", "fault", ...
  void count(const std::string& group, const std::string& what, std::size_t n = 1);
  // A figure that is no count, told as it is.
  void note(const std::string& group, const std::string& what, std::string value);
  // Distinct things that were seen; the table says how many.
  void seen(const std::string& group, const std::string& what, const std::string& thing);
  void violation(Violation violation);

  std::size_t counted(const std::string& group, const std::string& what) const;
  std::size_t violations() const;
  std::vector<Violation> list() const;
  // The table; it ends with the number of violations and the seed.
  std::string table(const std::string& title, std::uint64_t seed) const;

 private:
  using Key = std::pair<std::string, std::string>;
  mutable std::mutex mutex_;
  std::map<Key, std::size_t> counts_;
  std::map<Key, std::string> notes_;
  std::map<Key, std::set<std::string>> seen_;
  std::vector<Violation> violations_;
};

// "p50 3.1 ms, p99 8.0 ms, max 9.2 ms of 1000"; sorts the values, which are milliseconds.
std::string spread(std::vector<double> values);

}  // namespace dracpu::chaos

#endif  // DRACPU_CHAOS_REPORT_H_
