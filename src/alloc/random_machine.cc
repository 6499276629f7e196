// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "alloc/random_machine.h"

#include <algorithm>
#include <utility>

#include "data/random_tree.h"
#include "topology/reader.h"

namespace dracpu::alloc {
namespace {

RandomMachine complete(Layout layout, Layout twin) {
  RandomMachine out{.rows = {},
                    .layout = std::move(layout),
                    .twin = std::move(twin),
                    .cpus = {},
                    .sockets = {},
                    .nodes = {},
                    .caches = {},
                    .cores = {}};
  const Layout& l = out.layout;
  for (const Layout::Place& p : l.cpus()) {
    out.cpus.insert(CpuId(p.number));
    out.rows.push_back({.cpu = p.number,
                        .socket = l.sockets()[p.socket].id,
                        .node = l.nodes()[p.node].id,
                        .core = l.cores()[p.core].id,
                        .cache = l.caches()[p.cache].id});
  }
  for (const Unit& unit : l.sockets()) out.sockets.push_back(l.cpus_of(unit));
  for (const Unit& unit : l.nodes()) out.nodes.push_back(l.cpus_of(unit));
  for (const Unit& unit : l.caches()) out.caches.push_back(l.cpus_of(unit));
  out.are_cores_equal = true;
  out.is_nested = true;
  for (const Unit& unit : l.cores()) {
    out.cores.push_back(l.cpus_of(unit));
    out.are_cores_equal = out.are_cores_equal && unit.cpus.size() == l.cores().front().cpus.size();
    const auto cache_of = [&](Index cpu) { return l.cpus()[cpu].cache; };
    const bool is_in_one_cache = std::all_of(unit.cpus.begin(), unit.cpus.end(), [&](Index cpu) {
      return cache_of(cpu) == cache_of(unit.cpus.front());
    });
    out.is_nested = out.is_nested && is_in_one_cache && unit.nodes.size() == 1 && unit.sockets.size() == 1;
  }
  return out;
}

}  // namespace

RandomMachine machine_from_tree(Random& random) {
  topology::MemorySource tree = test::random_tree(random);
  return complete(Layout(topology::read_topology(tree).value()),
                  Layout(topology::read_topology(tree).value()));
}

RandomMachine machine_from_rows(Random& random) {
  std::vector<Row> rows(random.between(1, 48));
  const std::int64_t most_cores = 1 + random.below(rows.size());
  const auto number = [&](std::int64_t count) {
    return static_cast<std::int64_t>(random.below(static_cast<std::size_t>(count + 1))) - 1;
  };
  const std::int64_t sockets = random.between(1, 4);
  const std::int64_t nodes = random.between(1, 6);
  const std::int64_t caches = random.below(6);
  for (Row& row : rows) {
    row = {.cpu = random.below(rows.size() * 2),
           .socket = number(sockets),
           .node = number(nodes),
           .cluster = number(2),
           .core = number(most_cores),
           .cache = number(caches)};
  }
  Layout layout{rows};
  return complete(std::move(layout), Layout(rows));
}

}  // namespace dracpu::alloc
