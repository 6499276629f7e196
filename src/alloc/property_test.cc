// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// What every selection must keep, on machines, free sets and requests drawn at random (spec cpu-allocation,
// section 10, and what the forms promise of themselves).
//
// DRACPU_PROPERTY_CASES  how many cases, 20000 by default
// DRACPU_PROPERTY_SEED   seed of the first one; each further case has the next number. A failure names its
//                        seed: with that and one case it is run again, alone
//
// Machines are made once for kBlock seeds and shared by them.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alloc/pick.h"
#include "alloc/policy.h"
#include "alloc/random_machine.h"
#include "base/strings.h"
#include "data/random_tree.h"

namespace dracpu::alloc {
namespace {

constexpr std::uint64_t kBlock = std::uint64_t{1} << 16U;
constexpr std::size_t kMachines = 256;
constexpr std::uint64_t kDefaultCases = 20000;

struct Request {
  const RandomMachine& machine;
  CpuSet free;  // may name CPUs that the machine does not have
  std::size_t count = 0;
  Options options;

  CpuSet known() const { return free & machine.cpus; }
};

// Empty: all is well. Otherwise what is wrong.
using Verdict = std::string;

std::string text_of(const Request& r) {
  const Options& o = r.options;
  std::string out =
      fmt::format("{} of \"{}\", {}{}", r.count, r.free.to_string(),
                  o.sorting == Sorting::kPacked ? "packed" : "spread", o.prefer_caches ? ", caches" : "");
  if (o.distribute) out += fmt::format(", distributed by {}", o.group_size);
  out += "\ncpu: socket node core cache";
  for (const Row& row : r.machine.rows) {
    fmt::format_to(std::back_inserter(out), "\n{}: {} {} {} {}", row.cpu, row.socket, row.node, row.core,
                   row.cache);
  }
  return out;
}

Verdict check_same(const Result<CpuSet>& first, const Result<CpuSet>& second) {
  if (first.ok() != second.ok()) return "one of two equal requests is refused";
  if (first.ok() && *first != *second) {
    return fmt::format("two answers: \"{}\" and \"{}\"", first->to_string(), second->to_string());
  }
  return {};
}

// Exactly so many, all free and known; refused only because fewer are.
Verdict check_answer(const Request& r, const Result<CpuSet>& got) {
  const std::size_t available = r.known().size();
  if (!got.ok()) {
    if (got.error().code != Errc::kNoCapacity) return "wrong error: " + got.error().text;
    return available < r.count ? "" : fmt::format("refused, though {} are free", available);
  }
  if (got->size() != r.count) return fmt::format("{} CPUs: \"{}\"", got->size(), got->to_string());
  if (!got->is_subset_of(r.known())) return fmt::format("\"{}\" is not all free", got->to_string());
  return {};
}

// True if no socket and no node can be taken as a whole: then the form alone decides.
bool takes_no_whole_unit(const Request& r) {
  const auto is_taken = [&](const CpuSet& unit) {
    return unit.size() <= r.count && unit.is_subset_of(r.free);
  };
  const RandomMachine& m = r.machine;
  return std::none_of(m.sockets.begin(), m.sockets.end(), is_taken) &&
         std::none_of(m.nodes.begin(), m.nodes.end(), is_taken);
}

// Where one cache has enough, one cache is enough.
Verdict check_one_cache(const Request& r, const CpuSet& got) {
  const auto has_enough = [&](const CpuSet& cache) { return (cache & r.free).size() >= r.count; };
  const auto has_all = [&](const CpuSet& cache) { return got.is_subset_of(cache); };
  const std::vector<CpuSet>& caches = r.machine.caches;
  if (std::none_of(caches.begin(), caches.end(), has_enough)) return {};
  if (std::any_of(caches.begin(), caches.end(), has_all)) return {};
  return fmt::format("\"{}\" lies in several caches, one would do", got.to_string());
}

// No whole core stays free that could have taken the place of single CPUs.
Verdict check_whole_cores_first(const Request& r, const CpuSet& got) {
  std::size_t single = got.size();
  for (const CpuSet& core : r.machine.cores) {
    if (core.is_subset_of(got)) single -= core.size();
  }
  for (const CpuSet& core : r.machine.cores) {
    if (core.size() <= single && core.is_subset_of(r.free) && !core.intersects(got)) {
      return fmt::format("\"{}\" has {} single CPUs, core \"{}\" was whole", got.to_string(), single,
                         core.to_string());
    }
  }
  return {};
}

// In a socket no core gives a further thread while another one has a free one and gives two less.
Verdict check_spread(const Request& r, const CpuSet& got) {
  for (const CpuSet& socket : r.machine.sockets) {
    if (!socket.intersects(got)) continue;
    std::size_t most = 0;
    for (const CpuSet& core : r.machine.cores) most = std::max(most, (core & socket & got).size());
    for (const CpuSet& core : r.machine.cores) {
      const std::size_t given = (core & socket & got).size();
      if (given + 1 < most && (core & socket & r.free).size() > given) {
        return fmt::format("\"{}\" has {} threads of one core and {} of \"{}\"", got.to_string(), most, given,
                           core.to_string());
      }
    }
  }
  return {};
}

// Fewest nodes, as far as counting tells: no smaller number of the fullest nodes holds that many groups.
Verdict check_distributed(const Request& r, const CpuSet& got) {
  std::size_t used = 0;
  std::vector<std::size_t> groups;
  for (const CpuSet& node : r.machine.nodes) {
    const std::size_t given = (node & got).size();
    if (given > 0) ++used;
    groups.push_back((node & r.free).size() / r.options.group_size);
    if (given % r.options.group_size != 0) return {};  // packed on everything: no nodes can carry it
  }
  std::sort(groups.rbegin(), groups.rend());
  std::size_t least = 0;
  for (std::size_t held = 0; held * r.options.group_size < r.count && least < groups.size(); ++least) {
    held += groups[least];
  }
  return used < least ? fmt::format("\"{}\" is on {} nodes, {} hold that much", got.to_string(), used, least)
                      : "";
}

Verdict check_pick(const Request& r) {
  const Result<CpuSet> got = pick(r.machine.layout, r.free, r.count, r.options);
  Verdict wrong = check_same(got, pick(r.machine.twin, r.free, r.count, r.options));
  if (wrong.empty()) wrong = check_answer(r, got);
  if (!wrong.empty() || !got.ok() || r.count == 0) return wrong;
  const Options& o = r.options;
  if (o.distribute) {
    return o.group_size > 0 && r.count % o.group_size == 0 ? check_distributed(r, *got) : "";
  }
  if (o.prefer_caches) return takes_no_whole_unit(r) ? check_one_cache(r, *got) : "";
  if (!r.machine.is_nested) return {};
  if (o.sorting == Sorting::kPacked) return check_whole_cores_first(r, *got);
  return takes_no_whole_unit(r) ? check_spread(r, *got) : "";
}

std::vector<NumaNodeId> some_nodes(const RandomMachine& m, Random& random) {
  std::vector<NumaNodeId> out;
  for (const Unit& node : m.layout.nodes()) {
    if (random.one_in(2)) out.emplace_back(static_cast<std::int32_t>(node.id));
  }
  return out;
}

// As much as there is comes from the nodes that were named, or from their sockets.
Verdict check_near(const Request& r, Random& random) {
  const std::vector<NumaNodeId> affinity = some_nodes(r.machine, random);
  const bool by_socket = random.one_in(2);
  const auto run = [&](const Layout& layout) {
    return pick_near(layout, r.free, r.count, affinity, by_socket, r.options);
  };
  const Result<CpuSet> got = run(r.machine.layout);
  Verdict wrong = check_same(got, run(r.machine.twin));
  if (wrong.empty()) wrong = check_answer(r, got);
  if (!wrong.empty() || !got.ok()) return wrong;
  CpuSet near;
  const Layout& layout = r.machine.layout;
  for (std::size_t i = 0; i < layout.nodes().size(); ++i) {
    const NumaNodeId id(static_cast<std::int32_t>(layout.nodes()[i].id));
    if (std::find(affinity.begin(), affinity.end(), id) == affinity.end()) continue;
    near |= r.machine.nodes[i];
    for (const CpuSet& socket : r.machine.sockets) {
      if (by_socket && socket.intersects(r.machine.nodes[i])) near |= socket;
    }
  }
  near &= r.free;
  if ((*got & near).size() == std::min(r.count, near.size())) return {};
  return fmt::format("\"{}\" leaves near CPUs of \"{}\" free", got->to_string(), near.to_string());
}

// Cores that hold a reserved CPU do not count, though the rest of them may be given.
Verdict check_whole_cores(const Request& r, Random& random) {
  const RandomMachine& m = r.machine;
  CpuSet reserved;
  const bool are_whole = m.are_cores_equal && m.is_nested && random.one_in(2);
  Request whole{.machine = m, .free = are_whole ? CpuSet() : r.free, .count = r.count, .options = r.options};
  for (const CpuSet& core : m.cores) {
    if (random.one_in(8)) reserved |= are_whole ? core : core.lowest(1);
    if (are_whole && core.is_subset_of(r.free)) whole.free |= core;
  }
  const std::size_t threads = m.layout.threads_per_core();
  if (!random.one_in(8)) whole.count -= whole.count % threads;
  if (whole.options.distribute) whole.options.group_size = threads;
  CpuSet untouched = whole.free;
  for (const CpuSet& core : m.cores) {
    if (core.intersects(reserved)) untouched -= core;
  }
  const auto run = [&](const Layout& layout) {
    return pick_whole_cores(layout, whole.free, reserved, whole.count, whole.options);
  };
  const Result<CpuSet> got = run(m.layout);
  Verdict wrong = check_same(got, run(m.twin));
  if (!wrong.empty()) return wrong;
  if (whole.count % threads != 0) {
    return !got.ok() && got.error().code == Errc::kInvalidInput ? "" : "cores are split";
  }
  if (untouched.size() < whole.count) {
    return !got.ok() && got.error().code == Errc::kUnsupported ? "" : "there are not that many whole cores";
  }
  whole.free -= reserved;
  wrong = check_answer(whole, got);
  if (!wrong.empty() || !got.ok() || !are_whole || r.options.sorting == Sorting::kSpread) return wrong;
  for (const CpuSet& core : m.cores) {
    if (core.intersects(*got) && !core.is_subset_of(*got)) {
      return fmt::format("\"{}\" splits core \"{}\"", got->to_string(), core.to_string());
    }
  }
  return {};
}

// Every hint can carry the request, none of them names a node that is not there, and there is one if the
// machine can carry it.
Verdict check_hints(const Request& r, Random& random) {
  const RandomMachine& m = r.machine;
  if (m.nodes.size() > 6) return {};
  CpuSet reusable;
  r.known().for_each([&](CpuId cpu) {
    if (random.one_in(16)) reusable.insert(cpu);
  });
  const bool by_socket = random.one_in(2);
  const std::vector<Hint> hints = numa_hints(m.layout, r.free - reusable, reusable, r.count, by_socket);
  if (hints != numa_hints(m.twin, r.free - reusable, reusable, r.count, by_socket))
    return "two sets of hints";
  if (hints.empty() != (r.known().size() < r.count)) return fmt::format("{} hints", hints.size());
  for (const Hint& hint : hints) {
    CpuSet inside;
    for (std::size_t i = 0; i < m.nodes.size(); ++i) {
      const NumaNodeId id(static_cast<std::int32_t>(m.layout.nodes()[i].id));
      if (std::find(hint.nodes.begin(), hint.nodes.end(), id) != hint.nodes.end()) inside |= m.nodes[i];
    }
    if (!reusable.is_subset_of(inside)) return "a hint leaves out reusable CPUs";
    if ((inside & r.free).size() < r.count) return "a hint that cannot carry the request";
    if (!std::is_sorted(hint.nodes.begin(), hint.nodes.end())) return "a hint out of order";
  }
  return {};
}

// Everything, a share of it, whole cores, what is left of a unit, and sometimes numbers that do not exist.
CpuSet random_free(const RandomMachine& m, Random& random) {
  CpuSet within = m.cpus;
  if (random.one_in(3)) within = random.one_of(random.one_in(2) ? m.nodes : m.sockets);
  CpuSet out;
  const std::uint32_t keep = random.between(1, 8);
  if (random.one_in(3)) {
    for (const CpuSet& core : m.cores) {
      if (random.below(8) < keep) out |= core;
    }
  } else {
    m.cpus.for_each([&](CpuId cpu) {
      if (random.below(8) < keep) out.insert(cpu);
    });
  }
  out &= within;
  if (random.one_in(16)) out.insert(CpuId(random.below(2000)));
  return out;
}

std::size_t random_count(const RandomMachine& m, const CpuSet& free, Random& random) {
  switch (random.below(8)) {
    case 0:
      return random.one_of(random.one_in(2) ? m.nodes : m.caches).size();
    case 1:
      return random.below(4);
    case 2:
      return free.size();
    default:
      return random.below(free.size() + 2);
  }
}

Verdict run_case(const std::vector<RandomMachine>& machines, std::uint64_t seed) {
  Random random(seed ^ 0x5bf03635U);
  const RandomMachine& m = random.one_of(machines);
  Request r{.machine = m, .free = random_free(m, random), .count = 0, .options = {}};
  r.options = {.sorting = random.one_in(3) ? Sorting::kSpread : Sorting::kPacked,
               .prefer_caches = random.one_in(2),
               .distribute = random.one_in(3),
               .group_size = 1};
  if (random.one_in(2))
    r.options.group_size = random.one_in(2) ? m.layout.threads_per_core() : random.below(6);
  r.count = random_count(m, r.free, random);
  if (r.options.group_size > 1 && !random.one_in(8)) r.count -= r.count % r.options.group_size;
  const std::uint32_t form = random.below(8);
  Verdict wrong;
  if (form == 0) wrong = check_near(r, random);
  if (form == 1) wrong = check_whole_cores(r, random);
  if (form == 2) wrong = check_hints(r, random);
  if (form > 2) wrong = check_pick(r);
  return wrong.empty() ? wrong : fmt::format("{}\nform {}, {}", wrong, form, text_of(r));
}

std::vector<RandomMachine> machines_of(std::uint64_t block) {
  Random random(block);
  std::vector<RandomMachine> out;
  out.reserve(kMachines);
  while (out.size() < kMachines) {
    out.push_back(random.one_in(8) ? machine_from_rows(random) : machine_from_tree(random));
  }
  return out;
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  const std::optional<std::uint64_t> value = parse_number<std::uint64_t>(text);
  EXPECT_TRUE(value.has_value()) << name << " is no number";
  return value.value_or(otherwise);
}

TEST(Property, HoldsOnRandomMachines) {
  const std::uint64_t cases = from_environment("DRACPU_PROPERTY_CASES", kDefaultCases);
  const std::uint64_t first = from_environment("DRACPU_PROPERTY_SEED", 0);
  std::vector<RandomMachine> machines;
  int failures = 0;
  for (std::uint64_t i = 0; i < cases && failures < 5; ++i) {
    const std::uint64_t seed = first + i;
    if (i == 0 || seed % kBlock == 0) machines = machines_of(seed / kBlock);
    const Verdict wrong = run_case(machines, seed);
    if (wrong.empty()) continue;
    ++failures;
    ADD_FAILURE() << "DRACPU_PROPERTY_SEED=" << seed << " DRACPU_PROPERTY_CASES=1\n" << wrong;
  }
  std::cout << cases << " cases from seed " << first << '\n';
}

}  // namespace
}  // namespace dracpu::alloc
