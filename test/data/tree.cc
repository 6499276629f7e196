// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "data/tree.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <vector>

namespace dracpu::test {
namespace {

constexpr std::string_view kSystem = "sys/devices/system";

class Painter {
 public:
  explicit Painter(const TreeSpec& spec) : spec_(spec) {}

  topology::MemorySource paint() {
    const std::string all = fmt::format("0-{}\n", spec_.cpus() - 1);
    for (const char* list : {"online", "present", "possible"})
      put(fmt::format("{}/cpu/{}", kSystem, list), all);
    put(fmt::format("{}/cpu/offline", kSystem), "\n");
    put(fmt::format("{}/cpu/smt/control", kSystem), spec_.threads > 1 ? "on\n" : "notsupported\n");
    put(fmt::format("{}/cpu/smt/active", kSystem), spec_.threads > 1 ? "1\n" : "0\n");
    for (std::uint32_t core = 0; core < spec_.cores(); ++core) {
      for (std::uint32_t thread = 0; thread < spec_.threads; ++thread) paint_cpu(core, thread);
    }
    put(fmt::format("{}/node/online", kSystem), fmt::format("0-{}\n", nodes() - 1));
    for (std::uint32_t node = 0; node < nodes(); ++node) paint_node(node);
    return std::move(out_);
  }

 private:
  std::uint32_t nodes() const { return spec_.sockets * spec_.nodes_per_socket; }
  std::uint32_t cores_per_socket() const { return spec_.nodes_per_socket * spec_.cores_per_node; }

  std::uint32_t cpu_of(std::uint32_t core, std::uint32_t thread) const {
    return spec_.are_siblings_adjacent ? core * spec_.threads + thread : core + thread * spec_.cores();
  }
  CpuSet cpus_of_cores(std::uint32_t first, std::uint32_t count) const {
    CpuSet out;
    for (std::uint32_t core = first; core < first + count; ++core) {
      for (std::uint32_t thread = 0; thread < spec_.threads; ++thread)
        out.insert(CpuId(cpu_of(core, thread)));
    }
    return out;
  }

  void put(std::string path, std::string content) { out_.add(std::move(path), std::move(content)); }
  void put_set(const std::string& dir, std::string_view list, std::string_view mask, const CpuSet& set) {
    put(fmt::format("{}/{}", dir, list), set.to_string() + "\n");
    if (spec_.has_masks) put(fmt::format("{}/{}", dir, mask), mask_text(set, spec_.cpus()) + "\n");
  }

  void paint_cpu(std::uint32_t core, std::uint32_t thread) {
    const std::string cpu = fmt::format("{}/cpu/cpu{}", kSystem, cpu_of(core, thread));
    const std::uint32_t socket = core / cores_per_socket();
    const std::string dir = cpu + "/topology";
    put(dir + "/physical_package_id", fmt::format("{}\n", socket));
    put(dir + "/die_id", "0\n");
    put(dir + "/cluster_id", "65535\n");
    put(dir + "/core_id", fmt::format("{}\n", core % cores_per_socket()));
    put_set(dir, "core_cpus_list", "core_cpus", cpus_of_cores(core, 1));
    put_set(dir, "package_cpus_list", "package_cpus",
            cpus_of_cores(socket * cores_per_socket(), cores_per_socket()));
    if (spec_.cores_per_l3 == 0) return;
    paint_cache(cpu + "/cache/index0", 1, "Data", "32K", core, cpus_of_cores(core, 1));
    paint_cache(cpu + "/cache/index1", 1, "Instruction", "32K", core, cpus_of_cores(core, 1));
    paint_cache(cpu + "/cache/index2", 2, "Unified", "1024K", core, cpus_of_cores(core, 1));
    const std::uint32_t group = core / spec_.cores_per_l3;
    paint_cache(cpu + "/cache/index3", 3, "Unified", "32768K", group,
                cpus_of_cores(group * spec_.cores_per_l3, spec_.cores_per_l3));
  }

  void paint_cache(const std::string& dir, int level, std::string_view type, std::string_view size,
                   std::uint32_t id, const CpuSet& cpus) {
    put(dir + "/level", fmt::format("{}\n", level));
    put(dir + "/type", fmt::format("{}\n", type));
    put(dir + "/size", fmt::format("{}\n", size));
    put(dir + "/id", fmt::format("{}\n", id));
    put_set(dir, "shared_cpu_list", "shared_cpu_map", cpus);
  }

  void paint_node(std::uint32_t node) {
    const std::string dir = fmt::format("{}/node/node{}", kSystem, node);
    const CpuSet cpus = cpus_of_cores(node * spec_.cores_per_node, spec_.cores_per_node);
    put_set(dir, "cpulist", "cpumap", cpus);
    put(dir + "/meminfo",
        fmt::format("Node {0} MemTotal:       1048576 kB\nNode {0} MemFree:        524288 kB\n", node));
    for (const char* file : {"nr_hugepages", "free_hugepages", "surplus_hugepages"}) {
      put(fmt::format("{}/hugepages/hugepages-2048kB/{}", dir, file), "0\n");
    }
    std::string row;
    for (std::uint32_t to = 0; to < nodes(); ++to)
      fmt::format_to(std::back_inserter(row), "{} ", to == node ? 10 : 20);
    row.back() = '\n';
    put(dir + "/distance", row);

    const std::string bus = fmt::format("0000:{:02x}", node * 16);
    const std::string root = fmt::format("sys/devices/pci{}", bus);
    put_set(fmt::format("{}/pci_bus/{}", root, bus), "cpulistaffinity", "cpuaffinity", cpus);
    put(fmt::format("{}/{}:00.0/numa_node", root, bus), fmt::format("{}\n", node));
    put_set(fmt::format("{}/{}:00.0", root, bus), "local_cpulist", "local_cpus", cpus);
  }

  const TreeSpec& spec_;
  topology::MemorySource out_;
};

}  // namespace

topology::MemorySource make_tree(const TreeSpec& spec) { return Painter(spec).paint(); }

std::string mask_text(const CpuSet& set, std::uint32_t cpus) {
  std::vector<std::uint32_t> groups((cpus + 31) / 32);
  set.for_each([&](CpuId cpu) { groups[cpu.get() / 32] |= std::uint32_t{1} << (cpu.get() % 32); });
  std::string out;
  for (std::size_t i = groups.size(); i-- > 0;) {
    if (!out.empty()) out += ',';
    fmt::format_to(std::back_inserter(out), "{:08x}", groups[i]);
  }
  return out;
}

void write_tree(const topology::MemorySource& tree, const std::filesystem::path& root) {
  for (const auto& [path, content] : tree.files()) {
    const std::filesystem::path file = root / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << content;
  }
}

}  // namespace dracpu::test
