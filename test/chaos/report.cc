// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dracpu::chaos {

void Report::count(const std::string& group, const std::string& what, std::size_t n) {
  const std::lock_guard<std::mutex> lock(mutex_);
  counts_[{group, what}] += n;
}

void Report::note(const std::string& group, const std::string& what, std::string value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  notes_[{group, what}] = std::move(value);
}

void Report::seen(const std::string& group, const std::string& what, const std::string& thing) {
  const std::lock_guard<std::mutex> lock(mutex_);
  seen_[{group, what}].insert(thing);
}

void Report::violation(Violation violation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  violations_.push_back(std::move(violation));
}

std::size_t Report::counted(const std::string& group, const std::string& what) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = counts_.find({group, what});
  return it == counts_.end() ? 0 : it->second;
}

std::size_t Report::violations() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return violations_.size();
}

std::vector<Violation> Report::list() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return violations_;
}

std::string Report::table(const std::string& title, std::uint64_t seed) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::map<Key, std::string> rows = notes_;
  for (const auto& [key, n] : counts_) rows[key] = std::to_string(n);
  for (const auto& [key, things] : seen_) rows[key] = std::to_string(things.size());
  std::string out = fmt::format("== {}\n", title);
  std::string group;
  for (const auto& [key, value] : rows) {
    out += fmt::format("{:<10}  {:<48}  {}\n", key.first == group ? "" : key.first, key.second, value);
    group = key.first;
  }
  return out + fmt::format("{:<10}  {:<48}  {}\n{:<10}  {:<48}  {}\n", "violations", "", violations_.size(),
                           "seed", "", seed);
}

std::string spread(std::vector<double> values) {
  if (values.empty()) return "none";
  std::sort(values.begin(), values.end());
  const auto at = [&](std::size_t percent) { return values[(values.size() - 1) * percent / 100]; };
  return fmt::format("p50 {:.1f} ms, p99 {:.1f} ms, max {:.1f} ms of {}", at(50), at(99), values.back(),
                     values.size());
}

}  // namespace dracpu::chaos
