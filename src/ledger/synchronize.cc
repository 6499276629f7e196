// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The ledger's step for the runtime's complete list of containers.

#include <algorithm>
#include <utility>

#include "ledger/claim_env.h"
#include "ledger/ledger.h"

namespace dracpu::ledger {
namespace {

// The kernel's text parsed; an unreadable one compares unequal to every set, so it is corrected.
std::optional<CpuSet> told_by(const std::string& cpus) {
  Result<CpuSet> parsed = CpuSet::parse(cpus);
  if (!parsed.ok() || parsed->empty()) return std::nullopt;
  return std::move(parsed).value();
}

bool runs_on(const ClaimCpus& wanted, const std::string& cpus) {
  CpuSet all;
  for (const auto& [uid, part] : wanted) all |= part;
  return !all.empty() && told_by(cpus) == all;
}

}  // namespace

Synchronized Ledger::synchronize(const std::vector<ContainerFacts>& given) {
  Synchronized out;
  // A container whose pod the runtime does not name is who it was.
  std::vector<ContainerFacts> mended;
  const auto is_nameless = [](const ContainerFacts& c) { return c.who.pod.get().empty(); };
  if (std::any_of(given.begin(), given.end(), is_nameless)) {
    mended = given;
    for (ContainerFacts& c : mended) {
      const auto known = is_nameless(c) ? containers_.find(c.id) : containers_.end();
      if (known != containers_.end()) c.who = known->second.who;
    }
  }
  const std::vector<ContainerFacts>& containers = mended.empty() ? given : mended;
  containers_.clear();
  containers_.reserve(containers.size());
  shared_ = 0;
  std::vector<const ContainerFacts*> exclusive;
  std::vector<const ContainerFacts*> shared;
  const auto place = [&](const ContainerFacts& c) {
    return static_cast<std::size_t>(&c - containers.data());
  };
  const auto report = [&](const ContainerFacts& c, Error why) {
    out.findings.push_back({place(c), c.id, c.pod, c.who.container, std::move(why)});
  };
  const auto as_shared = [&](const ContainerFacts& c, Error why) {
    shared.push_back(&c);
    report(c, std::move(why));
  };
  // Containers that run on exactly their claims' CPUs come first: after a crash that lost the owners, a
  // second container with the same claim cannot take it by being earlier in the list.
  for (const bool settled_first : {true, false}) {
    for (const ContainerFacts& c : containers) {
      if (c.env->empty()) {
        if (settled_first) shared.push_back(&c);
        continue;
      }
      Result<ClaimCpus> wanted = read_claim_env(*c.env);
      if ((wanted.ok() && runs_on(*wanted, c.cpus)) != settled_first) continue;
      if (!wanted.ok()) {
        as_shared(c, std::move(wanted).error());
        continue;
      }
      if (wanted->empty()) {
        shared.push_back(&c);
        continue;
      }
      Result<std::vector<ClaimUid>> claims = match_claims(c, *wanted);
      if (!claims.ok()) {
        as_shared(c, std::move(claims).error());
        continue;
      }
      for (const ClaimUid& uid : *claims) {
        std::optional<Owner>& owner = claims_.at(uid).owner;
        out.new_owner = out.new_owner || !owner;
        owner = c.who;
      }
      exclusive.push_back(&c);
      put(c.id, {c.who, Kind::kExclusive, std::move(claims).value(), std::nullopt, false, c.pod});
    }
  }
  const CpuSet now = pool();
  if (now.empty() && !shared.empty() && !claims_.empty()) {
    report(
        *shared.front(),
        make_error(Errc::kNoCapacity,
                   "no CPU of this node is left for its shared containers ({}): claims and reservedCPUs hold "
                   "them all; the containers stay where they are, end a claim",
                   shared.size()));
  }
  for (const ContainerFacts* c : shared) {
    std::optional<CpuSet> told = told_by(c->cpus);
    if (!now.empty() && told != now) {
      out.updates.push_back({c->id, now});
      told = now;
    }
    put(c->id, {c->who, Kind::kShared, {}, std::move(told), false});
  }
  for (const ContainerFacts* c : exclusive) {
    Container& container = containers_.at(c->id);
    CpuSet cpus = union_of(container.claims);
    if (cpus.empty()) {
      report(*c, make_error(Errc::kNoCapacity, "every CPU of its claims is offline"));
      continue;
    }
    if (told_by(c->cpus) != cpus) {
      out.updates.push_back({c->id, cpus});
      out.elsewhere.push_back(place(*c));
    }
    container.told = std::move(cpus);
  }
  out.shared = shared.size();
  out.exclusive = exclusive.size();
  return out;
}

}  // namespace dracpu::ledger
