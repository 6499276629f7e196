// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The effective configuration of one driver process: every field has its final value.
//
// Source  RULINGS "Configuration v1beta1 (complete)"; spec driver-behaviours sections 2 and 3 for v1alpha1
// and
//         the flags, which are read into the same structure.
// Threads A value.

#ifndef DRACPU_CONFIG_CONFIG_H_
#define DRACPU_CONFIG_CONFIG_H_

#include <filesystem>
#include <string>

#include "base/cpuset.h"

namespace dracpu::config {

enum class DeviceMode { kGrouped, kIndividual };
enum class GroupBy { kNumaNode, kSocket, kMachine };
enum class Allocator { kCpuManager, kExternal };
enum class GrowPool { kAuto, kNextHook };
enum class LogFormat { kText, kJson };
enum class MemoryMode { kSeparate, kCombined };
enum class HugetlbEnforcement { kNone, kContainer, kPod };
enum class MemoryLimitPolicy { kNone, kWhenUnset };
enum class Format { kFlagsOnly, kV1Alpha1, kV1Beta1 };

inline constexpr int kMostVerbose = 10;  // log level
inline constexpr const char* kControlSocket = "/run/dracpu/control.sock";

struct Config {
  Format format = Format::kFlagsOnly;
  std::string file;  // where it came from, empty if there was none

  struct Node {
    std::string name;  // empty: the caller takes the host name, trimmed and lower-cased
    CpuSet reserved_cpus;
    std::filesystem::path sysfs_overlay;
    std::filesystem::path host_root;  // $HOST_ROOT, in front of sysfs and procfs; empty: "/"
  } node;

  struct Cpu {
    DeviceMode devices = DeviceMode::kGrouped;
    GroupBy group_by = GroupBy::kNumaNode;
    Allocator allocator = Allocator::kCpuManager;
    bool prefer_l3 = true;
  } cpu;

  struct Publish {
    std::string driver_name = "dra.cpu";
    bool pcie_roots = false;
    bool node_allocatable_mapping = false;
  } publish;

  // Texts are as written in the file and known to be well-formed (memory/reserved.h).
  struct Memory {
    bool enabled = false;
    MemoryMode mode = MemoryMode::kSeparate;
    std::string nodes;     // "0-1,4"; empty: those with CPUs
    std::string reserved;  // "0:memory=1Gi;1:memory=512Mi"
    HugetlbEnforcement hugetlb = HugetlbEnforcement::kContainer;
    MemoryLimitPolicy limit = MemoryLimitPolicy::kNone;
    bool verify_free_hugepages = true;
    int rescan_seconds = 60;  // 0: never

    friend bool operator==(const Memory&, const Memory&) = default;
  } memory;

  struct State {
    std::filesystem::path file;  // empty: <kubelet_root_dir>/plugins/dracpu/state.json
  } state;

  struct Runtime {
    std::filesystem::path kubelet_root_dir = "/var/lib/kubelet";
    std::filesystem::path nri_socket = "/var/run/nri/nri.sock";
    std::filesystem::path cdi_dir = "/var/run/cdi";
    std::filesystem::path kubeconfig;  // empty: in-cluster
    GrowPool grow_pool = GrowPool::kAuto;
  } runtime;

  struct Observe {
    std::string bind_address = ":8080";
    std::string status_page;  // empty: off
    bool events = true;
    LogFormat log_format = LogFormat::kText;
    int verbosity = 0;
    std::string vmodule;  // klog's rules per source file, flag only
    // Of this process alone, where bind_address is shared with the host: health and questions of dracpu's own
    // subcommands. $DRACPU_SOCKET.
    std::filesystem::path control_socket = kControlSocket;
    bool standby_ready = false;  // $DRACPU_STANDBY_READY: a waiting process is ready, for updates with surge
  } observe;
};

}  // namespace dracpu::config

#endif  // DRACPU_CONFIG_CONFIG_H_
