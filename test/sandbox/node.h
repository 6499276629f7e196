// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One node: the driver as a child process, its three neighbours around it, and what a scheduler and a kubelet
// do between them. Everything lies in one folder; nothing of the host is touched.
//
// Order of a pod's life: make_claim (the user and the scheduler), start_pod (kubelet: prepare, then create),
// end_pod (stop and remove all containers, then unprepare), delete_claim. Threads Any for pods and claims;
// the driver is started and stopped by one thread.

#ifndef DRACPU_SANDBOX_NODE_H_
#define DRACPU_SANDBOX_NODE_H_

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api_server.h"
#include "base/cpuset.h"
#include "base/result.h"
#include "child.h"
#include "kubelet.h"
#include "runtime.h"

namespace dracpu::sandbox {

inline constexpr const char* kDriverName = "dra.cpu";
inline constexpr const char* kMemoryDriver = "dra.memory";

struct NodeOptions {
  std::filesystem::path driver{};  // the binary
  std::string name = "sandbox-node";
  std::filesystem::path host_root{};  // in front of the driver's /sys; empty: this machine
  std::string reserved_cpus = "none";
  std::string grow_pool = "auto";
  int verbosity = 2;
  ServerProfile server{};
  RuntimeOptions runtime{};  // paths are filled in
  KubeletOptions kubelet{};
  bool api_up = true;
  bool standby_ready = false;
  std::string allocatable_memory{};  // in the node's status; empty: there is no status
  std::string memory{};  // the section of the configuration, in one line such as "{enabled: true}"
};

// An amount of a memory device: "hugepages-2mi-numa001", "64Mi".
struct MemoryWish {
  std::string device;
  std::string size;
};

struct Pod {
  PodInfo info;
  std::vector<ClaimName> claims;
  std::vector<std::string> devices;  // CDI ids that the kubelet remembers
  std::vector<std::string> containers;
};

class Node {
 public:
  // The neighbours are up, the driver is not started.
  static Result<std::unique_ptr<Node>> create(const std::filesystem::path& folder, NodeOptions options);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  ApiServer& api() { return *api_; }
  Kubelet& kubelet() { return *kubelet_; }
  Runtime& runtime() { return *runtime_; }
  const std::filesystem::path& folder() const { return folder_; }
  const std::string& name() const { return options_.name; }

  Status start_driver();
  // kill -9.
  void kill_driver() { driver_.reset(); }
  // SIGTERM; the exit status.
  Result<int> stop_driver();
  bool driver_runs() { return driver_ && driver_->running(); }
  pid_t driver_pid() const { return driver_ ? driver_->pid() : -1; }
  // A second process with the same configuration.
  Result<Child> start_second_driver();
  // Registered with this start's sockets, synchronized, slices published.
  Status wait_ready(std::chrono::milliseconds limit = std::chrono::seconds(20));
  // The last lines of the driver's log, for failures.
  std::string driver_log(std::size_t lines = 30) const;
  // GET on the driver's health endpoint: status code and body. kControl and kSecondControl ask one process of
  // the two, whoever owns the node.
  Result<std::pair<int, std::string>> probe(const std::string& path,
                                            const std::string& socket = "http.sock") const;
  static constexpr const char* kControl = "dracpu.sock";
  static constexpr const char* kStatusPage = "status.sock";
  static constexpr const char* kSecondControl = "second.sock";
  // The configuration of the next start.
  Status reserve(const std::string& cpus);

  // A claim for `cpus` CPUs, allocated to the first published device that has room.
  Result<ClaimName> make_claim(const std::string& name, std::size_t cpus);
  // A claim on memory that is reserved for the pod, and with `cpus` on that many CPUs of `cpu_device`, too.
  Result<ClaimName> make_memory_claim(const std::string& name, const PodInfo& pod,
                                      const std::vector<MemoryWish>& wishes, std::size_t cpus = 0,
                                      const std::string& cpu_device = "cpudevnuma000");
  // A claim of one request on a device of the CPUs: capacity to amount, which in combined mode may be memory.
  Result<ClaimName> make_slot_claim(const std::string& name, const PodInfo& pod, const std::string& device,
                                    const std::map<std::string, std::string>& amounts);
  // A claim with this `spec.devices`, each request on a memory device.
  Result<ClaimName> make_allocated_claim(const std::string& name, const PodInfo& pod,
                                         const boost::json::object& devices,
                                         const std::map<std::string, MemoryWish>& by_request);
  static PodInfo new_pod(const std::string& name);
  // A pod that exists already, its claims prepared by these drivers in this order.
  Result<Pod> start_pod_of(const PodInfo& pod, const std::vector<ClaimName>& claims,
                           const std::vector<std::string>& drivers);
  Status end_pod_of(const Pod& pod, const std::vector<std::string>& drivers);
  Result<ContainerView> container_of(const Pod& pod) const;
  // The configuration of the next start.
  Status set_memory(const std::string& section);
  Status delete_claim(const ClaimName& claim);
  // A pod with one container "main"; with claims it is prepared first. `env` is the pod's own.
  Result<Pod> start_pod(const std::string& name, const std::vector<ClaimName>& claims = {},
                        const std::vector<std::string>& env = {});
  // One more container in the pod, or the same one again after a stop.
  Result<std::string> add_container(Pod& pod, const std::string& name = "main",
                                    const std::vector<std::string>& env = {});
  Status end_pod(const Pod& pod);

  // The CPUs that a claim's CDI file names.
  Result<CpuSet> claim_cpus(const ClaimName& claim) const;
  // The CPUs that the runtime was told for the pod's first container.
  Result<CpuSet> pod_cpus(const Pod& pod) const;
  std::vector<boost::json::object> slices();

 private:
  Node(std::filesystem::path folder, NodeOptions options);
  Status setup();
  std::string config_text() const;
  Result<Child> spawn(const std::string& name) const;
  Result<std::string> pick_device(std::size_t cpus);
  Status prepare(Pod& pod, const std::string& driver);
  Result<ClaimName> put_claim(const std::string& name, const boost::json::object& devices,
                              const boost::json::object& allocation, const PodInfo& pod);
  std::filesystem::path root_dir() const { return folder_ / "kubelet"; }
  std::filesystem::path cdi_dir() const { return folder_ / "cdi"; }

  const std::filesystem::path folder_;
  NodeOptions options_;
  std::unique_ptr<ApiServer> api_;
  std::unique_ptr<Kubelet> kubelet_;
  std::unique_ptr<Runtime> runtime_;
  std::optional<Child> driver_;
  std::size_t registrations_before_ = 0;
  std::mutex scheduling_;
};

// Asks again every few milliseconds until `good` says yes; false when the limit came first.
bool eventually(std::chrono::milliseconds limit, const std::function<bool()>& good);

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_NODE_H_
