// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "cdi_view.h"

namespace dracpu::chaos {
namespace {

constexpr std::size_t kMostFindings = 20;
constexpr std::string_view kPrefix = "DRA_CPUSET_";

// The claims that a container's environment names.
std::vector<std::string> claims_of(const sandbox::ContainerView& c) {
  std::vector<std::string> out;
  for (const std::string& e : c.env) {
    if (e.starts_with(kPrefix)) out.push_back(e.substr(kPrefix.size(), e.find('=') - kPrefix.size()));
  }
  return out;
}

}  // namespace

Facts::Facts(std::filesystem::path cdi_folder, std::filesystem::path state_file,
             const sandbox::Runtime& runtime)
    : cdi_(std::move(cdi_folder)), state_(std::move(state_file)), runtime_(runtime) {
  thread_ = std::thread([this] { look_all(); });
}

Facts::~Facts() {
  stop_ = true;
  thread_.join();
}

void Facts::find(std::string what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool is_known = std::find(findings_.begin(), findings_.end(), what) != findings_.end();
  if (!is_known && findings_.size() < kMostFindings) findings_.push_back(std::move(what));
}

void Facts::prepared(const std::string& uid, std::size_t cpus) {
  const std::optional<CpuSet> set = claim_in_cdi(cdi_, uid);
  if (!set) return find(fmt::format("claim {} was answered as prepared and has no CDI file", uid));
  if (set->size() != cpus)
    return find(fmt::format("claim {} asked for {} CPUs and got {}", uid, cpus, set->to_string()));
  std::optional<std::string> wrong;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [it, is_new] = facts_.emplace(uid, Fact{*set, next_version_++});
    if (!is_new && it->second.cpus != *set) {
      wrong = fmt::format("claim {} was prepared with {}, and again with {}", uid,
                          it->second.cpus.to_string(), set->to_string());
    }
    for (const auto& [other, fact] : facts_) {
      if (other != uid && fact.cpus.intersects(*set))
        wrong =
            fmt::format("claims {} and {} were both prepared with a CPU of {}", uid, other, set->to_string());
    }
  }
  if (wrong) find(*wrong);
}

void Facts::ending(const std::string& uid) {
  const std::lock_guard<std::mutex> lock(mutex_);
  facts_.erase(uid);
}

std::map<std::string, Facts::Fact> Facts::copy() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return facts_;
}

std::map<std::string, CpuSet> Facts::now() const {
  std::map<std::string, CpuSet> out;
  for (const auto& [uid, fact] : copy()) out[uid] = fact.cpus;
  return out;
}

std::vector<std::string> Facts::findings() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return findings_;
}

void Facts::look_all() {
  while (!stop_) {
    look();
    ++looks_;
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
  }
}

void Facts::look() {
  const std::map<std::string, Fact> before = copy();
  std::map<std::string, std::optional<CpuSet>> files;
  for (const auto& [uid, fact] : before) files[uid] = claim_in_cdi(cdi_, uid);
  const auto state = claims_in_state(state_);
  const std::vector<sandbox::ContainerView> containers = runtime_.containers();
  const std::map<std::string, Fact> after = copy();
  // Only what was true before and after is judged.
  const auto is_settled = [&](const std::string& uid) {
    const auto was = before.find(uid);
    const auto is = after.find(uid);
    return was != before.end() && is != after.end() && was->second.version == is->second.version;
  };
  for (const auto& [uid, fact] : before) {
    if (!is_settled(uid)) continue;
    const std::string is = fact.cpus.to_string();
    if (files[uid] != fact.cpus) {
      find(fmt::format("claim {} was prepared with {}, its CDI file says {}", uid, is,
                       files[uid] ? files[uid]->to_string() : "nothing"));
    }
    const auto saved = state ? state->find(uid) : decltype(state->find(uid)){};
    if (!state || saved == state->end() || saved->second != fact.cpus) {
      find(fmt::format("claim {} was prepared with {}, the state file {}", uid, is,
                       !state                  ? "cannot be read"
                       : saved == state->end() ? "does not have it"
                                               : "says " + saved->second.to_string()));
    }
  }
  for (const sandbox::ContainerView& c : containers) {
    const std::vector<std::string> claims = claims_of(c);
    if (!c.running || claims.empty() || c.cpus.empty()) continue;
    CpuSet wanted;
    bool settled = true;
    for (const std::string& uid : claims) {
      settled = settled && is_settled(uid);
      if (settled) wanted |= before.at(uid).cpus;
    }
    if (settled && c.cpus != wanted.to_string())
      find(fmt::format("container {} owns {} and was told {}", c.id, wanted.to_string(), c.cpus));
    const auto [told, is_first] = told_.emplace(c.id, c.cpus);
    if (!is_first && told->second != c.cpus)
      find(fmt::format("container {} was told {} and then {}", c.id, told->second, c.cpus));
  }
}

std::string Facts::odd_containers() const {
  const std::map<std::string, CpuSet> facts = now();
  CpuSet owned;
  for (const sandbox::ContainerView& c : runtime_.containers()) {
    if (!c.running) continue;
    CpuSet wanted;
    for (const std::string& uid : claims_of(c)) {
      if (const auto it = facts.find(uid); it != facts.end()) wanted |= it->second;
    }
    if (wanted.intersects(owned)) return "two containers own a CPU, one of them " + c.id;
    owned |= wanted;
    if (!wanted.empty() && c.cpus != wanted.to_string())
      return fmt::format("container {} owns {} and runs on {}", c.id, wanted.to_string(), c.cpus);
  }
  for (const sandbox::ContainerView& c : runtime_.containers()) {
    if (!c.running || !claims_of(c).empty()) continue;
    const Result<CpuSet> cpus = CpuSet::parse(c.cpus);
    if (!cpus.ok() || cpus->empty()) return "container " + c.id + " without a claim has no set";
    if (cpus->intersects(owned))
      return fmt::format("container {} without a claim runs on {}, of which {} are owned", c.id, c.cpus,
                         (*cpus & owned).to_string());
  }
  return {};
}

}  // namespace dracpu::chaos
