// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Runs every vector of the shared collection: what must come out, and where a published answer is as lawful.

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <iostream>
#include <map>
#include <string>

#include "alloc/free_state.h"
#include "alloc/pick.h"
#include "alloc/policy.h"
#include "data/corpus.h"

namespace dracpu::alloc {
namespace {

namespace json = boost::json;

struct Tally {
  int expected = 0;
  int published = 0;  // lawful too, but not the better answer
  int wrong = 0;
  int not_attempted = 0;
};

enum class Verdict { kExpected, kPublished, kWrong, kNotAttempted };

CpuSet cpus_at(const json::object& from, std::string_view key) {
  const json::value* text = from.if_contains(key);
  if (text == nullptr) return {};
  return CpuSet::parse(text->as_string().c_str()).value();
}

bool flag_at(const json::object& from, std::string_view key) {
  const json::value* value = from.if_contains(key);
  return value != nullptr && value->as_bool();
}

Layout layout_of(const json::value& topology) {
  std::vector<Row> rows;
  for (const json::value& cells : topology.at("cpus").as_array()) {
    const auto cell = [&](std::size_t i) { return cells.at(i).as_int64(); };
    rows.push_back({.cpu = static_cast<std::uint32_t>(cell(0)),
                    .socket = cell(1),
                    .node = cell(2),
                    .cluster = cell(3),
                    .core = cell(4),
                    .cache = cell(5)});
  }
  return Layout(rows);
}

Options options_of(const json::object& vector) {
  Options out;
  out.sorting = vector.at("strategy") == "spread" ? Sorting::kSpread : Sorting::kPacked;
  out.prefer_caches = flag_at(vector, "prefer_align_by_uncore_cache");
  out.distribute = vector.at("algorithm") == "distributed";
  if (const json::value* group = vector.if_contains("cpu_group_size")) {
    out.group_size = static_cast<std::size_t>(group->as_int64());
  }
  return out;
}

// "0-3", or the vectors' word for the error.
std::string answer_of(const Result<CpuSet>& result) {
  if (result.ok()) return result->to_string();
  switch (result.error().code) {
    case Errc::kNoCapacity:
      return "insufficient-cpus";
    case Errc::kInvalidInput:
      return "smt-alignment";
    case Errc::kUnsupported:
      return "smt-alignment-physical";
    default:
      return "error: " + result.error().text;
  }
}

std::string wanted(const json::value& outcome) {
  const json::object& o = outcome.as_object();
  const json::value* error = o.if_contains("error");
  return std::string(error != nullptr ? error->as_string() : o.at("cpus").as_string());
}

CpuSet all_cpus(const Layout& layout) {
  CpuSet out;
  for (const Layout::Place& place : layout.cpus()) out.insert(CpuId(place.number));
  return out;
}

Verdict compare(const json::object& vector, const std::string& got) {
  const std::string want = wanted(vector.at("expect"));
  if (got == want) return Verdict::kExpected;
  const json::value* published = vector.if_contains("published");
  if (published != nullptr && vector.at("verdict") == "prefer" && got == wanted(*published)) {
    return Verdict::kPublished;
  }
  ADD_FAILURE() << vector.at("name") << "\n  got  " << got << "\n  want " << want;
  return Verdict::kWrong;
}

Verdict run_allocation(const Layout& layout, const json::object& vector) {
  const std::int64_t requested = vector.at("requested").as_int64();
  if (requested < 0) return Verdict::kNotAttempted;  // cannot be said: the count is unsigned
  const CpuSet free = cpus_at(vector, "available");
  const Result<CpuSet> got = pick(layout, free, static_cast<std::size_t>(requested), options_of(vector));
  EXPECT_TRUE(!got.ok() || got->is_subset_of(free));
  return compare(vector, answer_of(got));
}

Verdict run_sequence(const Layout& layout, const json::object& vector) {
  CpuSet free = all_cpus(layout) - cpus_at(vector, "reserved");
  std::map<std::string, CpuSet> held;
  for (const json::value& entry : vector.at("steps").as_array()) {
    const json::object& step = entry.as_object();
    const std::string id(step.at("id").as_string());
    if (step.at("op") == "release") {
      free |= held[id];
      held.erase(id);
      continue;
    }
    const Result<CpuSet> got =
        pick(layout, free, static_cast<std::size_t>(step.at("requested").as_int64()), options_of(vector));
    if (answer_of(got) != wanted(step.at("expect"))) {
      ADD_FAILURE() << vector.at("name") << " step " << id << "\n  got  " << answer_of(got) << "\n  want "
                    << wanted(step.at("expect"));
      return Verdict::kWrong;
    }
    if (!got.ok()) continue;
    free -= *got;
    held[id] = *got;
  }
  EXPECT_EQ(free, cpus_at(vector.at("expect").as_object(), "free_at_end"));
  return Verdict::kExpected;
}

Verdict run_order(const Layout& layout, const json::object& vector) {
  FreeState free(layout);
  free.add(cpus_at(vector, "available"));
  json::object got;
  const auto add_units = [&](std::string_view key, std::span<const Index> order,
                             const std::vector<Unit>& units, auto count_free) {
    json::array all, whole;
    for (const Index i : order) {
      all.emplace_back(units[i].id);
      if (count_free(i) == units[i].cpus.size()) whole.emplace_back(units[i].id);
    }
    got.emplace(key, std::move(all));
    got.emplace("free_" + std::string(key), std::move(whole));
  };
  add_units("sockets", free.socket_order(), layout.sockets(),
            [&](Index i) { return free.free_in_socket(i); });
  add_units("numa", free.node_order(), layout.nodes(), [&](Index i) { return free.free_in_node(i); });
  add_units("uncore", free.cache_order(), layout.caches(), [&](Index i) { return free.free_in_cache(i); });
  add_units("cores", free.core_order(), layout.cores(), [&](Index i) { return free.free_in_core(i); });
  const auto add_cpus = [&](std::string_view key, std::span<const Index> order) {
    json::array numbers;
    for (const Index cpu : order) numbers.emplace_back(layout.cpus()[cpu].number);
    got.emplace(key, std::move(numbers));
  };
  add_cpus("cpus_packed", free.packed_cpu_order());
  add_cpus("cpus_spread", free.spread_cpu_order());
  Verdict verdict = Verdict::kExpected;
  for (const auto& [key, want] : vector.at("expect").as_object()) {
    const json::value* mine = got.if_contains(key);
    if (mine == nullptr) continue;
    // Numbers differ in signedness only; their text does not.
    if (json::serialize(*mine) == json::serialize(want)) continue;
    ADD_FAILURE() << vector.at("name") << ' ' << key << "\n  got  " << *mine << "\n  want " << want;
    verdict = Verdict::kWrong;
  }
  return verdict;
}

std::vector<NumaNodeId> nodes_of(const json::value& list) {
  std::vector<NumaNodeId> out;
  for (const json::value& node : list.as_array())
    out.emplace_back(static_cast<std::int32_t>(node.as_int64()));
  return out;
}

std::size_t requested_of(const json::object& vector) {
  return static_cast<std::size_t>(vector.at("requested").as_int64());
}

Verdict run_affinity(const Layout& layout, const json::object& vector) {
  return compare(vector, answer_of(pick_near(layout, cpus_at(vector, "available"), requested_of(vector),
                                             nodes_of(vector.at("affinity_numa")),
                                             flag_at(vector, "align_by_socket"), options_of(vector))));
}

Verdict run_whole_cores(const Layout& layout, const json::object& vector) {
  const CpuSet shared = all_cpus(layout) - cpus_at(vector, "held");
  return compare(vector, answer_of(pick_whole_cores(layout, shared, cpus_at(vector, "reserved"),
                                                    requested_of(vector), options_of(vector))));
}

Verdict run_hints(const Layout& layout, const json::object& vector) {
  std::vector<Hint> got = numa_hints(layout, cpus_at(vector, "available"), cpus_at(vector, "reusable"),
                                     requested_of(vector), flag_at(vector, "align_by_socket"));
  std::vector<Hint> want;
  for (const json::value& hint : vector.at("expect").at("hints").as_array()) {
    want.push_back({nodes_of(hint.at("numa")), hint.at("preferred").as_bool()});
  }
  std::sort(got.begin(), got.end());
  std::sort(want.begin(), want.end());
  EXPECT_TRUE(got == want) << vector.at("name");
  return got == want ? Verdict::kExpected : Verdict::kWrong;
}

Verdict run(const Layout& layout, const json::object& vector) {
  const json::string& kind = vector.at("class").as_string();
  if (kind == "sequence") return run_sequence(layout, vector);
  if (kind == "order") return run_order(layout, vector);
  if (kind == "affinity") return run_affinity(layout, vector);
  if (kind == "hints") return run_hints(layout, vector);
  if (kind == "full-pcpus-only") return run_whole_cores(layout, vector);
  if (!vector.contains("available") || !vector.contains("requested")) return Verdict::kNotAttempted;
  return run_allocation(layout, vector);
}

TEST(Vectors, GiveTheExpectedCpus) {
  const std::filesystem::path file = test::data_dir() / "data" / "allocation-vectors.json";
  const std::string text = test::slurp(file);
  if (text.empty()) GTEST_SKIP() << "no vectors in " << file << "; set DRACPU_TEST_DATA";
  const json::value data = json::parse(text);
  std::map<std::string, Layout> layouts;
  for (const auto& [name, topology] : data.at("topologies").as_object()) {
    layouts.emplace(std::string(name), layout_of(topology));
  }
  std::map<std::string, Tally> tallies;
  Tally sum;
  for (const json::value& entry : data.at("vectors").as_array()) {
    const json::object& vector = entry.as_object();
    const Verdict verdict = run(layouts.at(std::string(vector.at("topology").as_string())), vector);
    for (Tally* tally : {&tallies[std::string(vector.at("class").as_string())], &sum}) {
      tally->expected += verdict == Verdict::kExpected ? 1 : 0;
      tally->published += verdict == Verdict::kPublished ? 1 : 0;
      tally->wrong += verdict == Verdict::kWrong ? 1 : 0;
      tally->not_attempted += verdict == Verdict::kNotAttempted ? 1 : 0;
    }
  }
  tallies["all"] = sum;
  for (const auto& [kind, tally] : tallies) {
    std::cout << fmt::format("{:34} expected {:4}  published {:3}  wrong {:3}  not attempted {:3}\n", kind,
                             tally.expected, tally.published, tally.wrong, tally.not_attempted);
  }
}

}  // namespace
}  // namespace dracpu::alloc
