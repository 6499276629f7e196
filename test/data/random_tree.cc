// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "data/random_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "base/cpuset.h"

namespace dracpu::test {
namespace {

// One thread of the machine that is drawn.
struct Thread {
  std::uint32_t cpu = 0;
  std::int64_t socket = 0;
  std::int64_t node = 0;  // negative: in no node
  std::size_t core = 0;   // on the whole machine
  std::int64_t core_number = 0;
  std::int64_t cache = -1;  // negative: none
  std::size_t nth = 0;      // in its core
  bool is_online = true;
};

template <typename T>
void shuffle(std::vector<T>& list, Random& random) {
  for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random.below(i)]);
}

// `count` different numbers, dense or with gaps, in order or not.
std::vector<std::int64_t> numbers(std::size_t count, Random& random) {
  const bool has_gaps = random.one_in(3);
  std::vector<std::int64_t> out;
  std::int64_t next = random.one_in(4) ? random.below(9) : 0;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(next);
    next += has_gaps ? 1 + random.below(40) : 1;
  }
  if (random.one_in(4)) shuffle(out, random);
  return out;
}

class Drawer {
 public:
  explicit Drawer(Random& random) : random_(random) {}

  std::vector<Thread> draw() {
    const std::uint32_t sockets = random_.one_in(12) ? 8 : random_.between(1, 4);
    const std::uint32_t parts = random_.one_in(2) ? 1 : random_.between(1, sockets == 8 ? 2 : 4);
    const bool is_big = random_.one_in(12);
    static constexpr std::array<std::uint32_t, 5> kThreads{1, 2, 2, 4, 8};
    const std::uint32_t threads = random_.one_of(kThreads);
    const std::uint32_t most_cpus = is_big ? 256 : 64;
    const std::uint32_t most_cores = std::clamp(most_cpus / (sockets * parts * threads), 1U, 24U);
    const bool is_uneven = random_.one_in(3);
    const bool is_mixed = threads > 1 && random_.one_in(5);
    const std::uint32_t cores_per_part = random_.between(1, most_cores);
    std::size_t part = 0;
    std::size_t core = 0;
    for (std::uint32_t socket = 0; socket < sockets; ++socket) {
      for (std::uint32_t p = 0; p < parts; ++p, ++part) {
        const std::uint32_t cores = is_uneven ? random_.between(1, most_cores) : cores_per_part;
        for (std::uint32_t c = 0; c < cores; ++c, ++core) {
          const std::uint32_t width = is_mixed && random_.one_in(2) ? 1 : threads;
          for (std::uint32_t t = 0; t < width; ++t) {
            threads_.push_back({.socket = socket,
                                .node = static_cast<std::int64_t>(part),
                                .core = core,
                                .core_number = static_cast<std::int64_t>(c + p * cores),
                                .nth = t});
          }
        }
      }
    }
    place_caches();
    number_cores();
    number_units(sockets, part);
    number_cpus();
    switch_off();
    return std::move(threads_);
  }

 private:
  // Caches by part, by socket, or by a few cores that lie side by side; on some machines not everywhere.
  void place_caches() {
    const std::uint32_t kind = random_.below(4);
    if (kind == 0) return;
    const std::size_t cores_each = random_.between(1, 6);
    const std::int64_t without = random_.one_in(5) ? random_.below(2) : -1;
    for (Thread& t : threads_) {
      if (t.socket == without) continue;
      t.cache = kind == 1 ? t.node : (kind == 2 ? t.socket : static_cast<std::int64_t>(t.core / cores_each));
    }
  }

  // Unique on the machine, from 0 in every part, from 0 in every socket (as drawn), the same, or unknown.
  void number_cores() {
    const std::uint32_t kind = random_.below(6);
    std::map<std::int64_t, std::size_t> first;
    for (Thread& t : threads_) {
      first.emplace(t.node, t.core);
      if (kind <= 1) t.core_number = static_cast<std::int64_t>(t.core);
      if (kind == 2) t.core_number = static_cast<std::int64_t>(t.core - first[t.node]);
      if (kind == 3) t.core_number = 0;
      if (kind == 4) t.core_number = -1;
    }
  }

  void number_units(std::size_t sockets, std::size_t parts) {
    const std::vector<std::int64_t> socket_number = numbers(sockets, random_);
    const std::vector<std::int64_t> node_number = numbers(parts, random_);
    const bool has_sockets = !random_.one_in(10);
    // Nodes are the parts, or sockets, or pairs of them, or one; or some CPUs are in none.
    const std::uint32_t kind = random_.below(8);
    const std::int64_t homeless = random_.one_in(10) ? random_.below(parts) : -1;
    for (Thread& t : threads_) {
      const std::int64_t part = t.node;
      if (kind == 5) t.node = t.socket;
      if (kind == 6) t.node = t.socket / 2;
      if (kind == 7) t.node = 0;
      t.node = part == homeless ? -1 : node_number[static_cast<std::size_t>(t.node)];
      t.socket = has_sockets ? socket_number[static_cast<std::size_t>(t.socket)] : -1;
    }
  }

  void number_cpus() {
    std::vector<std::size_t> order(threads_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const std::uint32_t kind = random_.below(5);  // 0 and 1: threads of a core side by side
    if (kind == 2 || kind == 3) {
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return threads_[a].nth < threads_[b].nth; });
    }
    if (kind == 4) shuffle(order, random_);
    const bool has_gaps = random_.one_in(4);
    std::uint32_t next = random_.one_in(8) ? random_.below(100) : 0;
    for (const std::size_t i : order) {
      threads_[i].cpu = next;
      next += has_gaps && random_.one_in(4) ? 1 + random_.below(30) : 1;
    }
  }

  void switch_off() {
    if (!random_.one_in(4)) return;
    for (std::size_t i = 1; i < threads_.size(); ++i) threads_[i].is_online = !random_.one_in(6);
  }

  Random& random_;
  std::vector<Thread> threads_;
};

CpuSet cpus_where(const std::vector<Thread>& threads, auto&& is_wanted) {
  CpuSet out;
  for (const Thread& t : threads) {
    if (is_wanted(t)) out.insert(CpuId(t.cpu));
  }
  return out;
}

topology::MemorySource tree_of(const std::vector<Thread>& threads, Random& random) {
  topology::MemorySource out;
  const std::string cpu_dir = "sys/devices/system/cpu";
  const std::string node_dir = "sys/devices/system/node";
  const auto put = [&](const std::string& dir, const char* file, const std::string& text) {
    out.add(dir + '/' + file, text + '\n');
  };
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  put(cpu_dir, "online", cpus_where(threads, [](const Thread& t) { return t.is_online; }).to_string());
  std::map<std::size_t, CpuSet> cores;
  std::map<std::int64_t, CpuSet> caches;
  std::map<std::int64_t, CpuSet> nodes;
  std::map<std::int64_t, CpuSet> sockets;
  for (const Thread& t : threads) {
    sockets[t.socket].insert(CpuId(t.cpu));
    cores[t.core].insert(CpuId(t.cpu));
    if (t.cache >= 0) caches[t.cache].insert(CpuId(t.cpu));
    if (t.node >= 0) nodes[t.node].insert(CpuId(t.cpu));
  }
  const bool has_cache_ids = random.one_in(2);
  const bool has_siblings = !random.one_in(10);
  for (const Thread& t : threads) {
    if (!t.is_online) continue;
    const std::string cpu = fmt::format("{}/cpu{}", cpu_dir, t.cpu);
    put(cpu + "/topology", "physical_package_id", number(t.socket));
    put(cpu + "/topology", "core_id", number(t.core_number));
    if (has_siblings) put(cpu + "/topology", "core_cpus_list", cores[t.core].to_string());
    put(cpu + "/topology", "package_cpus_list", sockets[t.socket].to_string());
    if (t.cache < 0) continue;
    put(cpu + "/cache/index3", "level", "3");
    put(cpu + "/cache/index3", "shared_cpu_list", caches[t.cache].to_string());
    if (has_cache_ids) put(cpu + "/cache/index3", "id", number(t.cache % 3 == 2 ? t.cache * 5 : t.cache));
  }
  if (nodes.empty()) return out;
  if (random.one_in(6)) nodes[nodes.rbegin()->first + 1];  // memory alone
  CpuSet ids;
  for (const auto& [id, cpus] : nodes) {
    ids.insert(CpuId(static_cast<std::uint32_t>(id)));
    put(fmt::format("{}/node{}", node_dir, id), "cpulist", cpus.to_string());
  }
  put(node_dir, "online", ids.to_string());
  return out;
}

}  // namespace

topology::MemorySource random_tree(Random& random) {
  const std::vector<Thread> threads = Drawer(random).draw();
  return tree_of(threads, random);
}

}  // namespace dracpu::test
