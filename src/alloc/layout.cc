// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "alloc/layout.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <tuple>

namespace dracpu::alloc {
namespace {

constexpr Index kNone = std::numeric_limits<Index>::max();

// Makes one unit per different id, ascending, and tells each row its unit's index.
class UnitMaker {
 public:
  explicit UnitMaker(const std::vector<std::int64_t>& id_of_row) {
    ids_ = id_of_row;
    std::sort(ids_.begin(), ids_.end());
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
  }
  std::vector<Unit> units() const {
    std::vector<Unit> out(ids_.size());
    for (std::size_t i = 0; i < ids_.size(); ++i) out[i].id = ids_[i];
    return out;
  }
  Index index_of(std::int64_t id) const {
    return static_cast<Index>(std::lower_bound(ids_.begin(), ids_.end(), id) - ids_.begin());
  }

 private:
  std::vector<std::int64_t> ids_;
};

template <typename F>
std::vector<std::int64_t> column(const std::vector<Row>& rows, F&& get) {
  std::vector<std::int64_t> out;
  out.reserve(rows.size());
  for (const Row& row : rows) out.push_back(get(row));
  return out;
}

// The number of a core if no other core has it; otherwise, on the whole machine, the rank of the core in the
// order socket, cluster, number.
std::vector<std::int64_t> core_keys(const std::vector<Row>& rows) {
  using Identity = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  const auto identity = [](const Row& row) { return Identity(row.socket, row.cluster, row.core); };
  std::map<Identity, std::int64_t> rank;
  std::set<std::int64_t> numbers;
  for (const Row& row : rows) {
    rank.emplace(identity(row), 0);
    numbers.insert(row.core);
  }
  std::int64_t next = 0;
  for (auto& [id, r] : rank) r = next++;
  const bool is_unique = numbers.size() == rank.size();
  return column(rows, [&](const Row& row) { return is_unique ? row.core : rank.at(identity(row)); });
}

std::vector<std::int64_t> cache_keys(const std::vector<Row>& rows) {
  std::int64_t last_cache = -1;
  std::int64_t last_socket = -1;
  for (const Row& row : rows) {
    last_cache = std::max(last_cache, row.cache);
    last_socket = std::max(last_socket, row.socket);
  }
  return column(rows, [&](const Row& row) {
    if (row.cache >= 0) return row.cache;
    const std::int64_t socket = row.socket >= 0 ? row.socket : last_socket + 1;
    return last_cache + 1 + socket;
  });
}

void add_once(std::vector<Index>& list, Index value) {
  const auto at = std::lower_bound(list.begin(), list.end(), value);
  if (at == list.end() || *at != value) list.insert(at, value);
}

// Rows that carry what the selectors order by: known ranks in place of the kernel's ids where those repeat.
std::vector<Row> rows_of(const topology::Topology& topology) {
  // Cores with a number of their own keep it. Elsewhere rank by socket, die, cluster, number and lowest CPU,
  // which is unique because cores do not overlap.
  struct Key {
    std::array<std::int64_t, 5> order;
    std::size_t core;
    auto operator<=>(const Key&) const = default;
  };
  std::vector<Key> keys;
  std::set<std::int64_t> labels;
  for (std::size_t i = 0; i < topology.cores.size(); ++i) {
    const CpuId lowest = *topology.cores[i].cpus.first();
    const topology::Cpu& cpu = topology.cpus.at(lowest);
    keys.push_back({{cpu.socket ? cpu.socket->get() : -1, cpu.die.value_or(-1), cpu.cluster.value_or(-1),
                     cpu.core_label.value_or(-1), lowest.get()},
                    i});
    if (cpu.core_label && *cpu.core_label >= 0) labels.insert(*cpu.core_label);
  }
  std::vector<std::int64_t> number(topology.cores.size());
  const bool is_unique = labels.size() == topology.cores.size();
  std::sort(keys.begin(), keys.end());
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    number[keys[rank].core] = is_unique ? keys[rank].order[3] : static_cast<std::int64_t>(rank);
  }

  // Two caches may carry one id on different sockets; their order is by id, then by lowest CPU.
  std::vector<std::pair<std::int64_t, std::size_t>> by_label;
  for (std::size_t i = 0; i < topology.l3_groups.size(); ++i)
    by_label.emplace_back(topology.l3_groups[i].label, i);
  std::stable_sort(by_label.begin(), by_label.end());
  std::vector<std::int64_t> cache_rank(by_label.size());
  for (std::size_t rank = 0; rank < by_label.size(); ++rank) {
    cache_rank[by_label[rank].second] = static_cast<std::int64_t>(rank);
  }

  std::vector<Row> rows;
  rows.reserve(topology.cpus.size());
  for (const auto& [id, cpu] : topology.cpus) {
    rows.push_back({.cpu = id.get(),
                    .socket = cpu.socket ? cpu.socket->get() : -1,
                    .node = cpu.node ? cpu.node->get() : -1,
                    .cluster = -1,  // the number alone names the core now
                    .core = number[cpu.core],
                    .cache = cpu.l3 ? cache_rank[*cpu.l3] : -1});
  }
  return rows;
}

}  // namespace

Layout::Layout(const topology::Topology& topology) {
  const std::vector<Row> rows = rows_of(topology);
  build(rows, column(rows, [](const Row& row) { return row.core; }));
}

Layout::Layout(std::span<const Row> given) {
  std::vector<Row> rows(given.begin(), given.end());
  std::erase_if(rows, [](const Row& row) { return row.cpu > kMaxCpu; });
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.cpu < b.cpu; });
  const auto same = [](const Row& a, const Row& b) { return a.cpu == b.cpu; };
  rows.erase(std::unique(rows.begin(), rows.end(), same), rows.end());
  build(rows, core_keys(rows));
}

void Layout::build(const std::vector<Row>& rows, const std::vector<std::int64_t>& core) {
  const std::vector<std::int64_t> cache = cache_keys(rows);
  const UnitMaker sockets(column(rows, [](const Row& r) { return r.socket; }));
  const UnitMaker nodes(column(rows, [](const Row& r) { return r.node; }));
  const UnitMaker caches(cache);
  const UnitMaker cores(core);
  sockets_ = sockets.units();
  nodes_ = nodes.units();
  caches_ = caches.units();
  cores_ = cores.units();

  for (std::size_t i = 0; i < rows.size(); ++i) {
    has_caches_ = has_caches_ || rows[i].cache >= 0;
    const Place place = {.number = rows[i].cpu,
                         .socket = sockets.index_of(rows[i].socket),
                         .node = nodes.index_of(rows[i].node),
                         .cache = caches.index_of(cache[i]),
                         .core = cores.index_of(core[i])};
    for (Unit* unit :
         {&sockets_[place.socket], &nodes_[place.node], &caches_[place.cache], &cores_[place.core]}) {
      unit->cpus.push_back(static_cast<Index>(i));
      add_once(unit->nodes, place.node);
      add_once(unit->sockets, place.socket);
      add_once(unit->cores, place.core);
    }
    if (place.number >= index_.size()) index_.resize(place.number + 1, kNone);
    index_[place.number] = static_cast<Index>(i);
    cpus_.push_back(place);
  }
}

std::optional<Index> Layout::index_of(CpuId cpu) const {
  if (cpu.get() >= index_.size() || index_[cpu.get()] == kNone) return std::nullopt;
  return index_[cpu.get()];
}

CpuSet Layout::cpus_of(const Unit& unit) const {
  CpuSet out;
  for (const Index cpu : unit.cpus) out.insert(CpuId(cpus_[cpu].number));
  return out;
}

}  // namespace dracpu::alloc
