// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "cli/state.h"

#include <sys/stat.h>

#include <boost/json.hpp>
#include <cerrno>
#include <set>
#include <vector>

#include "agent/node.h"
#include "agent/state_codec.h"
#include "base/time_text.h"
#include "cdi/claim_files.h"
#include "cli/process.h"
#include "config/load.h"
#include "memory/types.h"
#include "store/state_file.h"

namespace dracpu::cli {
namespace {

namespace json = boost::json;

struct Facts {
  std::filesystem::path path;
  store::Version version;
  struct stat file {};
  agent::State state;
  bool this_boot = false;
};

Result<std::filesystem::path> path_of(const CommandLine& line) {
  if (!line.state_file.empty()) return std::filesystem::path(line.state_file);
  Result<config::Loaded> loaded = load_config(line.config_file);
  if (!loaded.ok()) return std::move(loaded).error();
  return config::state_file(loaded->config);
}

Result<Facts> read(const std::filesystem::path& path) {
  Facts out;
  out.path = path;
  store::StateFile file(path);
  Result<agent::State> state = agent::load_state(file);
  if (!state.ok()) return std::move(state).error();
  out.state = *std::move(state);
  out.version = file.version();
  if (::stat(path.c_str(), &out.file) != 0)
    return make_error(Errc::kUnavailable, "look at \"{}\": {}", path.string(), errno_text(errno));
  const std::string boot = agent::boot_id();
  out.this_boot = !boot.empty() && boot == out.state.boot_id;
  return out;
}

std::string devices_of(const ledger::Claim& claim) {
  std::string out;
  for (const ledger::Grant& g : claim.grants)
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", g.device, g.cpus);
  return out.empty() ? "-" : out;
}

std::string amounts_text(const memory::Claim& claim) {
  std::string out;
  for (const memory::Grant& g : claim.grants) {
    out += fmt::format("{}{} on node {}: {}", out.empty() ? "" : ", ", memory::resource_name(g.kind),
                       g.node.get(), memory::text_of(g.bytes));
  }
  return out;
}

json::array memory_json(const Facts& f) {
  json::array claims;
  for (const auto& [uid, c] : f.state.memory) {
    json::object claim{{"namespace", c.ns}, {"name", c.name}, {"uid", uid.get()}};
    if (c.owner) claim["owner"] = {{"podUID", c.owner->pod.get()}, {"container", c.owner->container}};
    json::array results;
    for (const memory::Grant& g : c.grants) {
      results.push_back({{"request", g.request},
                         {"pool", g.pool},
                         {"device", g.device},
                         {"kind", memory::resource_name(g.kind)},
                         {"node", g.node.get()},
                         {"bytes", g.bytes.count}});
    }
    claim["results"] = std::move(results);
    claims.push_back(std::move(claim));
  }
  return claims;
}

std::string as_text(const Facts& f) {
  std::string out = fmt::format(
      "file     {}\nformat   {}.{}\nwritten  {}\nnode     {}\ndriver   {}\nboot     {} ({})\nclaims   {}\n",
      f.path.string(), f.version.major, f.version.minor, utc_text(f.file.st_mtime), f.state.node,
      f.state.driver, f.state.boot_id, f.this_boot ? "this one" : "an earlier one", f.state.claims.size());
  for (const auto& [uid, c] : f.state.claims) {
    out +=
        fmt::format("\n{}{}{}\n  uid      {}\n  cpus     {}\n  devices  {}\n  prepared {}\n  owner    {}\n",
                    c.ns, c.name.empty() ? "(name not known)" : "/", c.name, uid.get(), c.cpus.to_string(),
                    devices_of(c), c.prepared_at == 0 ? std::string("not known") : utc_text(c.prepared_at),
                    c.owner ? fmt::format("container {} of pod {}", c.owner->container, c.owner->pod.get())
                            : std::string("none yet"));
  }
  for (const auto& [uid, c] : f.state.memory) {
    out += fmt::format("\n{}{}{}\n  uid      {}\n  memory   {}\n  owner    {}\n", c.ns,
                       c.name.empty() ? "(name not known)" : "/", c.name, uid.get(), amounts_text(c),
                       c.owner ? fmt::format("container {} of pod {}", c.owner->container, c.owner->pod.get())
                               : std::string("none yet"));
  }
  return out;
}

std::string as_json(const Facts& f) {
  json::array claims;
  for (const auto& [uid, c] : f.state.claims) {
    json::object claim{
        {"namespace", c.ns}, {"name", c.name}, {"uid", uid.get()}, {"cpus", c.cpus.to_string()}};
    if (c.owner) claim["owner"] = {{"podUID", c.owner->pod.get()}, {"container", c.owner->container}};
    if (c.prepared_at != 0) claim["preparedAt"] = utc_text(c.prepared_at);
    json::array results;
    for (const ledger::Grant& g : c.grants)
      results.push_back({{"request", g.request}, {"pool", g.pool}, {"device", g.device}, {"cpus", g.cpus}});
    claim["results"] = std::move(results);
    claims.push_back(std::move(claim));
  }
  json::object out{{"file", f.path.string()},
                   {"format", fmt::format("{}.{}", f.version.major, f.version.minor)},
                   {"written", utc_text(f.file.st_mtime)},
                   {"node", f.state.node},
                   {"driver", f.state.driver},
                   {"bootID", f.state.boot_id},
                   {"thisBoot", f.this_boot},
                   {"claims", std::move(claims)}};
  if (!f.state.memory.empty()) out["memoryClaims"] = memory_json(f);
  return json::serialize(out) + "\n";
}

// What a checksum cannot tell.
std::vector<std::string> findings_of(const Facts& f) {
  std::vector<std::string> out;
  if ((f.file.st_mode & 077U) != 0)
    out.push_back(
        fmt::format("mode {:04o} lets others read or write it; chmod 0600", f.file.st_mode & 07777U));
  if (f.file.st_uid != ::geteuid())
    out.push_back(fmt::format("it belongs to user {}, not to {}", f.file.st_uid, ::geteuid()));
  std::map<std::uint32_t, ClaimUid> holders;
  if (f.state.node.empty()) out.emplace_back("node is empty, so it is no node's");
  if (f.state.driver.empty()) out.emplace_back("driver is empty");
  for (const auto& [uid, claim] : f.state.memory) {
    if (const Status s = cdi::check_uid(uid); !s.ok()) out.push_back(s.error().text);
  }
  for (const auto& [uid, claim] : f.state.claims) {
    if (const Status s = cdi::check_uid(uid); !s.ok()) out.push_back(s.error().text);
    if (claim.cpus.empty()) out.push_back(fmt::format("claim {} has no CPUs", uid.get()));
    CpuSet twice;
    std::set<ClaimUid> others;
    claim.cpus.for_each([&](CpuId cpu) {
      const auto [at, is_new] = holders.emplace(cpu.get(), uid);
      if (is_new) return;
      twice.insert(cpu);
      others.insert(at->second);
    });
    for (const ClaimUid& other : others)
      out.push_back(
          fmt::format("claims {} and {} both hold CPUs {}", other.get(), uid.get(), twice.to_string()));
  }
  return out;
}

}  // namespace

int run_state(const CommandLine& line) {
  const Result<std::filesystem::path> path = path_of(line);
  if (!path.ok()) return bad_input(path.error());
  const Result<Facts> facts = read(*path);
  if (!facts.ok()) {
    const bool is_damaged = facts.error().code == Errc::kCorrupt || facts.error().code == Errc::kUnsupported;
    complain(facts.error().text);
    if (is_damaged)
      complain(
          "the driver keeps such a file aside at its next start and rebuilds from CDI files and containers");
    return is_damaged ? kRefused : kBadInput;
  }
  if (line.action == "show")
    return print_result(line.output == "json" ? as_json(*facts) : as_text(*facts), kOk);
  const std::vector<std::string> findings = findings_of(*facts);
  if (line.output == "json") {
    return print_result(json::serialize(json::object{{"file", path->string()},
                                                     {"claims", facts->state.claims.size()},
                                                     {"findings", json::value_from(findings)}}) +
                            "\n",
                        findings.empty() ? kOk : kRefused);
  }
  std::string text;
  for (const std::string& f : findings) text += fmt::format("{}: {}\n", path->string(), f);
  if (findings.empty()) text = fmt::format("{}: ok, {} claims\n", path->string(), facts->state.claims.size());
  return print_result(text, findings.empty() ? kOk : kRefused);
}

}  // namespace dracpu::cli
