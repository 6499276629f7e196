// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "node.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <cstring>
#include <map>
#include <thread>

#include "base/file.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "cdi_files.h"

namespace dracpu::sandbox {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr const char* kClaims = "/apis/resource.k8s.io/v1/namespaces/demo/resourceclaims";
constexpr const char* kNamespace = "demo";
constexpr std::chrono::seconds kStopLimit{10};
// sun_path holds 107 bytes and the end; the driver's longest socket name below our folder is this one.
constexpr std::size_t kMaxFolder =
    107 - std::string_view("/kubelet/plugins_registry/dra.cpu-reg.sock").size();

std::string new_uid() {
  const std::string h = random_hex(16);
  return fmt::format("{}-{}-4{}-8{}-{}", h.substr(0, 8), h.substr(8, 4), h.substr(13, 3), h.substr(17, 3),
                     h.substr(20, 12));
}

Error refused(std::string_view what, const ApiReply& reply) {
  return make_error(Errc::kUnavailable, "{}: {} {}", what, reply.status, reply.body);
}

long double amount_of(const json::value& capacity) {
  const json::value& v = capacity.is_object() ? capacity.get_object().at("value") : capacity;
  return parse_amount(v.get_string()).value_or(0);
}

json::object result_of(const std::string& request, const std::string& driver, const std::string& node,
                       const std::string& device, json::object consumed) {
  return {{"request", request}, {"driver", driver},     {"pool", node},
          {"device", device},   {"shareID", new_uid()}, {"consumedCapacity", std::move(consumed)}};
}

json::object allocation_of(const std::string& node, json::array results) {
  const json::object here{
      {"key", "metadata.name"}, {"operator", "In"}, {"values", json::array{json::value(node)}}};
  return {{"devices", json::object{{"results", std::move(results)}, {"config", json::array{}}}},
          {"nodeSelector", json::object{{"nodeSelectorTerms",
                                         json::array{json::object{{"matchFields", json::array{here}}}}}}}};
}

json::object request_of(const std::string& name, const std::string& cls, json::object amounts) {
  const json::object exactly{{"deviceClassName", cls},
                             {"allocationMode", "ExactCount"},
                             {"count", 1},
                             {"capacity", json::object{{"requests", std::move(amounts)}}}};
  return {{"name", name}, {"exactly", exactly}};
}

}  // namespace

bool eventually(milliseconds limit, const std::function<bool()>& good) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!good()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

Node::Node(std::filesystem::path folder, NodeOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {}

Node::~Node() {
  if (driver_) (void)stop_driver();
}

Result<std::unique_ptr<Node>> Node::create(const std::filesystem::path& folder, NodeOptions options) {
  std::unique_ptr<Node> node(new Node(folder, std::move(options)));
  if (Status s = node->setup(); !s.ok()) return std::move(s).error();
  return node;
}

Status Node::setup() {
  if (folder_.string().size() > kMaxFolder) {
    return make_error(Errc::kInvalidInput,
                      "folder \"{}\" is too long for unix sockets in it: at most {} bytes", folder_.string(),
                      kMaxFolder);
  }
  Result<std::unique_ptr<ApiServer>> api = ApiServer::create(options_.server);
  if (!api.ok()) return std::move(api).error();
  api_ = *std::move(api);
  json::object object{
      {"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", json::object{{"name", options_.name}}}};
  if (!options_.allocatable_memory.empty())
    object["status"] = {{"allocatable", {{"memory", options_.allocatable_memory}}}};
  const ApiReply node = api_->store().create("/api/v1/nodes", object);
  if (node.status != 201) return refused("creating the node object", node);
  if (options_.api_up) {
    if (Status s = api_->start(); !s.ok()) return s;
  }
  Result<std::unique_ptr<Kubelet>> kubelet = Kubelet::start(root_dir(), options_.kubelet);
  if (!kubelet.ok()) return std::move(kubelet).error();
  kubelet_ = *std::move(kubelet);
  std::error_code ec;
  std::filesystem::create_directories(cdi_dir(), ec);
  std::filesystem::create_directories(root_dir() / "plugins", ec);
  options_.runtime.socket = folder_ / "nri" / "nri.sock";
  options_.runtime.cdi_dir = cdi_dir();
  Result<std::unique_ptr<Runtime>> runtime = Runtime::start(options_.runtime);
  if (!runtime.ok()) return std::move(runtime).error();
  runtime_ = *std::move(runtime);
  if (Status s = write_text(folder_ / "kubeconfig", api_->kubeconfig()); !s.ok()) return s;
  return write_text(folder_ / "dracpu.yaml", config_text());
}

std::string Node::config_text() const {
  return fmt::format(
      "apiVersion: dracpu/v1beta1\nkind: DriverConfiguration\n"
      "node:\n  name: {}\n  reservedCPUs: \"{}\"\n"
      "runtime:\n  kubeletRootDir: {}\n  nriSocket: {}\n  cdiDir: {}\n  kubeconfig: {}\n  growPool: {}\n"
      "observe:\n  bindAddress: \"unix:{}\"\n  statusPage: \"unix:{}\"\n  verbosity: {}\n{}",
      options_.name, options_.reserved_cpus, root_dir().string(), options_.runtime.socket.string(),
      cdi_dir().string(), (folder_ / "kubeconfig").string(), options_.grow_pool,
      (folder_ / "http.sock").string(), (folder_ / kStatusPage).string(), options_.verbosity,
      options_.memory.empty() ? "" : fmt::format("memory: {}\n", options_.memory));
}

Status Node::reserve(const std::string& cpus) {
  options_.reserved_cpus = cpus;
  return write_text(folder_ / "dracpu.yaml", config_text());
}

Result<Child> Node::spawn(const std::string& name) const {
  std::vector<std::string> env{"DRACPU_SOCKET=" + (folder_ / (name + ".sock")).string()};
  if (options_.standby_ready) env.emplace_back("DRACPU_STANDBY_READY=true");
  if (!options_.host_root.empty()) env.push_back("HOST_ROOT=" + options_.host_root.string());
  return Child::start({options_.driver.string(), "--config=" + (folder_ / "dracpu.yaml").string()}, env,
                      folder_ / (name + ".log"));
}

Status Node::start_driver() {
  registrations_before_ = kubelet_->counts().registrations;
  Result<Child> child = spawn("dracpu");
  if (!child.ok()) return std::move(child).error();
  driver_.emplace(*std::move(child));
  return ok_status();
}

Result<Child> Node::start_second_driver() { return spawn("second"); }

Result<int> Node::stop_driver() {
  if (!driver_) return make_error(Errc::kNotFound, "the driver was not started");
  driver_->signal(SIGTERM);
  const std::optional<int> status = driver_->wait(kStopLimit);
  driver_.reset();
  if (!status)
    return make_error(Errc::kUnavailable, "the driver did not stop within {} s", kStopLimit.count());
  return *status;
}

Status Node::wait_ready(milliseconds limit) {
  const auto missing = [&]() -> std::string {
    if (!driver_runs()) return "the driver ended";
    if (kubelet_->counts().registrations <= registrations_before_) return "no registration with the kubelet";
    if (runtime_->counts().plugins == 0) return "no connection to the runtime";
    return slices().empty() ? "no ResourceSlice" : "";
  };
  if (eventually(limit, [&] { return missing().empty() || !driver_runs(); }) && missing().empty())
    return ok_status();
  return make_error(Errc::kUnavailable, "the driver is not ready: {}; its log ends:\n{}", missing(),
                    driver_log());
}

std::string Node::driver_log(std::size_t lines) const {
  Result<std::string> text = read_file(folder_ / "dracpu.log");
  if (!text.ok()) return std::move(text).error().text;
  std::size_t at = text->size();
  for (std::size_t n = 0; n <= lines && at != std::string::npos && at > 0; ++n)
    at = text->rfind('\n', at - 1);
  return at == std::string::npos || at == 0 ? *text : text->substr(at + 1);
}

Result<std::pair<int, std::string>> Node::probe(const std::string& path, const std::string& socket) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = (folder_ / socket).string();
  std::memcpy(static_cast<void*>(address.sun_path), name.c_str(), name.size() + 1);
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  if (!fd.valid() || ::connect(fd.get(), generic, sizeof address) != 0) {
    return make_error(Errc::kUnavailable, "connect \"{}\": {}", name, errno_text(errno));
  }
  const std::string request =
      fmt::format("GET {} HTTP/1.1\r\nHost: sandbox\r\nConnection: close\r\n\r\n", path);
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    return make_error(Errc::kUnavailable, "send: {}", errno_text(errno));
  }
  std::string all;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = ::recv(fd.get(), buffer.data(), buffer.size(), 0)) > 0;) {
    all.append(buffer.data(), static_cast<std::size_t>(n));
  }
  const std::size_t body = all.find("\r\n\r\n");
  if (all.size() < 12 || body == std::string::npos)
    return make_error(Errc::kCorrupt, "no HTTP answer on {}", path);
  return std::pair(parse_number<int>(all.substr(9, 3)).value_or(0), all.substr(body + 4));
}

std::vector<json::object> Node::slices() { return api_->store().list("resourceslices"); }

Result<std::string> Node::pick_device(std::size_t cpus) {
  std::map<std::string, long double> used;
  for (const json::object& claim : api_->store().list("resourceclaims")) {
    const json::value* status = claim.if_contains("status");
    if (status == nullptr) continue;
    for (const json::value& r : status->at("allocation").at("devices").at("results").as_array()) {
      if (r.at("driver").as_string() != kDriverName) continue;
      used[std::string(r.at("device").as_string())] += amount_of(r.at("consumedCapacity").at("dra.cpu/cpu"));
    }
  }
  for (const json::object& slice : slices()) {
    const json::value* devices = slice.at("spec").as_object().if_contains("devices");
    if (devices == nullptr || slice.at("spec").at("driver").as_string() != kDriverName) continue;
    for (const json::value& d : devices->as_array()) {
      const std::string name(d.at("name").as_string());
      const long double room = amount_of(d.at("capacity").at("dra.cpu/cpu")) - used[name];
      if (room >= static_cast<long double>(cpus)) return name;
    }
  }
  return make_error(Errc::kNoCapacity, "0/1 nodes are available: no device has {} CPUs left", cpus);
}

Result<ClaimName> Node::make_claim(const std::string& name, std::size_t cpus) {
  const std::lock_guard<std::mutex> lock(scheduling_);
  Result<std::string> device = pick_device(cpus);
  if (!device.ok()) return std::move(device).error();
  const json::object amount{{"dra.cpu/cpu", std::to_string(cpus)}};
  return put_claim(
      name, {{"requests", json::array{request_of("cpus", kDriverName, amount)}}},
      allocation_of(options_.name, {result_of("cpus", kDriverName, options_.name, *device, amount)}),
      new_pod(name));
}

Result<ClaimName> Node::put_claim(const std::string& name, const json::object& devices,
                                  const json::object& allocation, const PodInfo& pod) {
  const ApiReply made = api_->store().create(kClaims, {{"apiVersion", "resource.k8s.io/v1"},
                                                       {"kind", "ResourceClaim"},
                                                       {"metadata", json::object{{"name", name}}},
                                                       {"spec", json::object{{"devices", devices}}}});
  if (made.status != 201) return refused("creating the claim", made);
  json::object claim = json::parse(made.body).as_object();
  const json::array reserved{json::object{{"resource", "pods"}, {"name", pod.name}, {"uid", pod.uid}}};
  claim["status"] = json::object{{"allocation", allocation}, {"reservedFor", reserved}};
  const ApiReply set = api_->store().handle(
      Caller::kSandbox, "PUT", fmt::format("{}/{}/status", kClaims, name), json::serialize(claim));
  if (set.status != 200) return refused("allocating the claim", set);
  return ClaimName{kNamespace, name, std::string(claim.at("metadata").at("uid").as_string())};
}

Result<ClaimName> Node::make_memory_claim(const std::string& name, const PodInfo& pod,
                                          const std::vector<MemoryWish>& wishes, std::size_t cpus,
                                          const std::string& cpu_device) {
  json::array requests;
  json::array results;
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    const std::string request = fmt::format("memory-{}", i);
    const json::object amount{{"size", wishes[i].size}};
    requests.push_back(request_of(request, kMemoryDriver, amount));
    results.push_back(result_of(request, kMemoryDriver, options_.name, wishes[i].device, amount));
  }
  if (cpus > 0) {
    const json::object amount{{"dra.cpu/cpu", std::to_string(cpus)}};
    requests.push_back(request_of("cpus", kDriverName, amount));
    results.push_back(result_of("cpus", kDriverName, options_.name, cpu_device, amount));
  }
  return put_claim(name, {{"requests", requests}}, allocation_of(options_.name, std::move(results)), pod);
}

Result<ClaimName> Node::make_allocated_claim(const std::string& name, const PodInfo& pod,
                                             const json::object& devices,
                                             const std::map<std::string, MemoryWish>& by_request) {
  json::array results;
  for (const auto& [request, wish] : by_request)
    results.push_back(result_of(request, kMemoryDriver, options_.name, wish.device, {{"size", wish.size}}));
  return put_claim(name, devices, allocation_of(options_.name, std::move(results)), pod);
}

Result<ClaimName> Node::make_slot_claim(const std::string& name, const PodInfo& pod,
                                        const std::string& device,
                                        const std::map<std::string, std::string>& amounts) {
  json::object of_slot;
  for (const auto& [key, amount] : amounts) of_slot[key] = amount;
  return put_claim(
      name, {{"requests", json::array{request_of("slot", kDriverName, of_slot)}}},
      allocation_of(options_.name, {result_of("slot", kDriverName, options_.name, device, of_slot)}), pod);
}

PodInfo Node::new_pod(const std::string& name) { return {new_uid(), kNamespace, name}; }

Status Node::prepare(Pod& pod, const std::string& driver) {
  auto prepared = kubelet_->prepare(driver, pod.claims);
  if (!prepared.ok()) return std::move(prepared).error();
  for (const ClaimName& claim : pod.claims) {
    const Result<PreparedClaim>& one = prepared->at(claim.uid);
    if (!one.ok()) {
      return Error(one.error())
          .while_doing(fmt::format("NodePrepareResources failed for ResourceClaim {}", claim.name));
    }
    pod.devices.insert(pod.devices.end(), one->cdi_devices.begin(), one->cdi_devices.end());
  }
  return ok_status();
}

Result<Pod> Node::start_pod_of(const PodInfo& info, const std::vector<ClaimName>& claims,
                               const std::vector<std::string>& drivers) {
  Pod pod;
  pod.info = info;
  pod.claims = claims;
  for (const std::string& driver : drivers) {
    if (Status s = prepare(pod, driver); !s.ok()) return std::move(s).error();
  }
  if (Result<std::string> id = add_container(pod); !id.ok()) return std::move(id).error();
  return pod;
}

Status Node::end_pod_of(const Pod& pod, const std::vector<std::string>& drivers) {
  for (const std::string& id : pod.containers) {
    if (Status s = runtime_->remove(id); !s.ok() && s.error().code != Errc::kNotFound) return s;
  }
  for (const std::string& driver : drivers) {
    auto undone = kubelet_->unprepare(driver, pod.claims);
    if (!undone.ok()) return std::move(undone).error();
    for (const auto& [uid, one] : *undone) {
      if (!one.ok()) return Error(one.error()).while_doing("NodeUnprepareResources failed");
    }
  }
  return ok_status();
}

Result<ContainerView> Node::container_of(const Pod& pod) const {
  if (pod.containers.empty()) return make_error(Errc::kNotFound, "pod {} has no container", pod.info.name);
  return runtime_->container(pod.containers.back());
}

Status Node::set_memory(const std::string& section) {
  options_.memory = section;
  return write_text(folder_ / "dracpu.yaml", config_text());
}

Status Node::delete_claim(const ClaimName& claim) {
  const ApiReply reply =
      api_->store().handle(Caller::kSandbox, "DELETE", fmt::format("{}/{}", kClaims, claim.name), "");
  return reply.status == 200 ? ok_status() : Status(refused("deleting the claim", reply));
}

Result<Pod> Node::start_pod(const std::string& name, const std::vector<ClaimName>& claims,
                            const std::vector<std::string>& env) {
  Pod pod;
  pod.info = new_pod(name);
  pod.claims = claims;
  if (!claims.empty()) {
    if (Status s = prepare(pod, kDriverName); !s.ok()) return std::move(s).error();
  }
  Result<std::string> id = add_container(pod, "main", env);
  if (!id.ok()) return std::move(id).error();
  return pod;
}

Result<std::string> Node::add_container(Pod& pod, const std::string& name,
                                        const std::vector<std::string>& env) {
  Result<std::string> id = runtime_->create({pod.info, name, env, pod.devices});
  if (id.ok()) pod.containers.push_back(*id);
  return id;
}

Status Node::end_pod(const Pod& pod) {
  return end_pod_of(pod,
                    pod.claims.empty() ? std::vector<std::string>{} : std::vector<std::string>{kDriverName});
}

Result<CpuSet> Node::claim_cpus(const ClaimName& claim) const {
  Result<std::vector<std::string>> env = cdi_env(cdi_dir(), {"dra.k8s.io/cpu=claim-" + claim.uid});
  if (!env.ok()) return std::move(env).error();
  const std::string key = fmt::format("DRA_CPUSET_{}=", claim.uid);
  for (const std::string& e : *env) {
    if (e.starts_with(key)) return CpuSet::parse(std::string_view(e).substr(key.size()));
  }
  return make_error(Errc::kCorrupt, "the CDI file of claim {} has no {}", claim.name, key);
}

Result<CpuSet> Node::pod_cpus(const Pod& pod) const {
  if (pod.containers.empty()) return make_error(Errc::kNotFound, "pod {} has no container", pod.info.name);
  Result<ContainerView> view = runtime_->container(pod.containers.back());
  return view.ok() ? CpuSet::parse(view->cpus) : Result<CpuSet>(std::move(view).error());
}

}  // namespace dracpu::sandbox
