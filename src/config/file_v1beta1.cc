// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The nested form (RULINGS "Configuration v1beta1").

#include "config/parts.h"

namespace dracpu::config {
namespace {

constexpr int kLongestRescan = 3600;  // seconds

class Reader {
 public:
  Reader(const YamlNode& root, const std::string& file, Settings& out)
      : root_(root), problems_(file), out_(out) {}

  Status read() {
    Section top = section(root_, "");
    top.find("apiVersion");
    if (!top.word("kind", {"DriverConfiguration"}) && root_.find("kind") == nullptr) {
      problems_.add(root_.at, "kind is missing; state kind: DriverConfiguration");
    }
    if (const YamlNode* node = top.section("node")) read_node(*node);
    if (const YamlNode* node = top.section("cpu")) read_cpu(*node);
    if (const YamlNode* node = top.section("publish")) read_publish(*node);
    if (const YamlNode* node = top.section("memory")) read_memory(*node);
    if (const YamlNode* node = top.section("state")) read_state(*node);
    if (const YamlNode* node = top.section("runtime")) read_runtime(*node);
    if (const YamlNode* node = top.section("observe")) read_observe(*node);
    top.finish();
    if (problems_.empty()) return ok_status();
    return problems_.to_error();
  }

 private:
  Section section(const YamlNode& node, std::string prefix) {
    return {node, std::move(prefix), Section::Rules::kStrict, problems_, out_.warnings};
  }

  void read_node(const YamlNode& node) {
    Section s = section(node, "node.");
    s.text("name", out_.node_name);
    out_.reserved_stated = s.text("reservedCPUs", out_.reserved_cpus);
    std::string overlay;
    if (s.text("sysfsOverlay", overlay)) out_.config.node.sysfs_overlay = overlay;
    s.finish();
  }

  void read_cpu(const YamlNode& node) {
    Section s = section(node, "cpu.");
    s.text("devices", out_.device_mode);
    s.text("groupBy", out_.group_by);
    s.text("allocator", out_.allocator);
    s.boolean("preferL3", out_.config.cpu.prefer_l3);
    s.finish();
  }

  void read_publish(const YamlNode& node) {
    Section s = section(node, "publish.");
    s.text("driverName", out_.driver_name);
    s.boolean("pcieRoots", out_.config.publish.pcie_roots);
    s.boolean("nodeAllocatableMapping", out_.config.publish.node_allocatable_mapping);
    s.finish();
  }

  void read_memory(const YamlNode& node) {
    Section s = section(node, "memory.");
    Config::Memory& m = out_.config.memory;
    s.boolean("enabled", m.enabled);
    s.choice("mode", {MemoryMode::kSeparate, MemoryMode::kCombined}, m.mode);
    s.text("nodes", out_.memory_nodes);
    s.text("reserved", out_.memory_reserved);
    s.choice("hugetlbEnforcement",
             {HugetlbEnforcement::kNone, HugetlbEnforcement::kContainer, HugetlbEnforcement::kPod},
             m.hugetlb);
    s.choice("limitPolicy", {MemoryLimitPolicy::kNone, MemoryLimitPolicy::kWhenUnset}, m.limit);
    s.boolean("verifyFreeHugepages", m.verify_free_hugepages);
    s.integer("rescanSeconds", 0, kLongestRescan, m.rescan_seconds);
    s.finish();
    // Judged together with the rest.
    note(node, "mode", name_of(m.mode), out_.memory_mode);
    note(node, "rescanSeconds", fmt::format("{}", m.rescan_seconds), out_.memory_rescan);
  }

  // Where a value that is read already was written.
  void note(const YamlNode& node, std::string_view key, std::string_view value, Stated& out) {
    if (const YamlNode* at = node.find(key); at != nullptr)
      out = {std::string(value), out.name, problems_.place(at->at)};
  }

  void read_state(const YamlNode& node) {
    Section s = section(node, "state.");
    s.text("file", out_.state_file);
    s.finish();
  }

  void read_runtime(const YamlNode& node) {
    Section s = section(node, "runtime.");
    s.text("kubeletRootDir", out_.kubelet_root_dir);
    s.text("nriSocket", out_.nri_socket);
    s.text("cdiDir", out_.cdi_dir);
    std::string kubeconfig;
    if (s.text("kubeconfig", kubeconfig)) out_.config.runtime.kubeconfig = kubeconfig;
    s.choice("growPool", {GrowPool::kAuto, GrowPool::kNextHook}, out_.config.runtime.grow_pool);
    s.finish();
  }

  void read_observe(const YamlNode& node) {
    Section s = section(node, "observe.");
    s.text("bindAddress", out_.bind_address);
    s.text("statusPage", out_.status_page);
    s.boolean("events", out_.config.observe.events);
    s.choice("logFormat", {LogFormat::kText, LogFormat::kJson}, out_.config.observe.log_format);
    s.integer("verbosity", 0, kMostVerbose, out_.config.observe.verbosity);
    s.finish();
  }

  const YamlNode& root_;
  Problems problems_;
  Settings& out_;
};

}  // namespace

Status read_v1beta1(const YamlNode& root, const std::string& file, Settings& out) {
  out.config.format = Format::kV1Beta1;
  return Reader(root, file, out).read();
}

}  // namespace dracpu::config
