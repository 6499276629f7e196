// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The only file of the sandbox that knows gRPC.

#include "kubelet.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "dra_v1.grpc.pb.h"
#include "dra_v1beta1.grpc.pb.h"
#include "pluginregistration.grpc.pb.h"

namespace dracpu::sandbox {
namespace {

namespace registration = ::pluginregistration;
namespace v1 = ::k8s::io::kubelet::pkg::apis::dra::v1;
namespace v1beta1 = ::k8s::io::kubelet::pkg::apis::dra::v1beta1;
using Clock = std::chrono::steady_clock;
using PrepareAnswer = std::map<std::string, Result<PreparedClaim>>;
using UnprepareAnswer = std::map<std::string, Status>;

// Deadlines of the kubelet: spec 1.4 and 1.6.
constexpr std::chrono::seconds kGetInfo{1};
constexpr std::chrono::seconds kNotify{5};
constexpr std::chrono::seconds kCall{45};
constexpr std::chrono::milliseconds kFirstRetry{500};

struct Registered {
  std::string service;
  std::string endpoint;
  std::filesystem::path socket;
  std::shared_ptr<grpc::Channel> channel;
};

struct Known {
  ino_t inode = 0;
  timespec made{};
  bool done = false;
  std::chrono::milliseconds pause = kFirstRetry;
  Clock::time_point next;
};

std::shared_ptr<grpc::Channel> dial(const std::string& path) {
  grpc::ChannelArguments args;
  args.SetInt("grpc.use_local_subchannel_pool", 1);  // a re-created socket must not find the old connection
  return grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), args);
}

void set_limit(grpc::ClientContext& context, std::chrono::seconds limit) {
  context.set_deadline(std::chrono::system_clock::now() + limit);
}

Error call_failed(const grpc::Status& status) {
  return make_error(Errc::kUnavailable, "rpc error: code = {} desc = {}",
                    static_cast<int>(status.error_code()), status.error_message());
}

// What the kubelet checks before it reads an answer (spec 2.3).
template <typename Map>
Status check_answer(const std::vector<ClaimName>& claims, const Map& answered) {
  std::set<std::string> asked;
  for (const ClaimName& c : claims) asked.insert(c.uid);
  for (const auto& [uid, one] : answered) {
    if (!asked.contains(uid))
      return make_error(Errc::kCorrupt, "returned result for unknown claim UID {}", uid);
  }
  if (static_cast<std::size_t>(answered.size()) < asked.size()) {
    return make_error(Errc::kCorrupt, "skipped {} ResourceClaims",
                      asked.size() - static_cast<std::size_t>(answered.size()));
  }
  return ok_status();
}

template <typename Request>
Request request_of(const std::vector<ClaimName>& claims) {
  Request request;
  for (const ClaimName& c : claims) {
    auto* claim = request.add_claims();
    claim->set_namespace_(c.ns);
    claim->set_name(c.name);
    claim->set_uid(c.uid);
  }
  return request;
}

template <typename Stub, typename Request, typename Response>
Result<PrepareAnswer> prepare_with(Stub& stub, const std::vector<ClaimName>& claims) {
  grpc::ClientContext context;
  set_limit(context, kCall);
  Response response;
  const grpc::Status status = stub.NodePrepareResources(&context, request_of<Request>(claims), &response);
  if (!status.ok()) return call_failed(status);
  if (Status s = check_answer(claims, response.claims()); !s.ok()) return std::move(s).error();
  PrepareAnswer out;
  for (const auto& [uid, one] : response.claims()) {
    if (!one.error().empty()) {
      out.emplace(uid, make_error(Errc::kConflict, "{}", one.error()));
      continue;
    }
    PreparedClaim claim;
    for (const auto& device : one.devices()) {
      claim.device_names.push_back(device.device_name());
      for (const std::string& id : device.cdi_device_ids()) {
        if (std::find(claim.cdi_devices.begin(), claim.cdi_devices.end(), id) == claim.cdi_devices.end()) {
          claim.cdi_devices.push_back(id);
        }
      }
    }
    out.emplace(uid, std::move(claim));
  }
  return out;
}

template <typename Stub, typename Request, typename Response>
Result<UnprepareAnswer> unprepare_with(Stub& stub, const std::vector<ClaimName>& claims) {
  grpc::ClientContext context;
  set_limit(context, kCall);
  Response response;
  const grpc::Status status = stub.NodeUnprepareResources(&context, request_of<Request>(claims), &response);
  if (!status.ok()) return call_failed(status);
  if (Status s = check_answer(claims, response.claims()); !s.ok()) return std::move(s).error();
  UnprepareAnswer out;
  for (const auto& [uid, one] : response.claims()) {
    out.emplace(uid,
                one.error().empty() ? ok_status() : Status(make_error(Errc::kConflict, "{}", one.error())));
  }
  return out;
}

class Engine final : public Kubelet {
 public:
  Engine(std::filesystem::path root, KubeletOptions options)
      : registry_(std::move(root) / "plugins_registry"), options_(options) {}
  ~Engine() override { stop(); }

  void restart() override {
    if (up_.exchange(true)) return;
    looking_ = std::thread([this] { look_all(); });
  }

  void set_delay(std::chrono::milliseconds delay) override { delay_ = delay; }

  void stop() override {
    if (!up_.exchange(false)) return;
    looking_.join();
    known_.clear();
    const std::lock_guard<std::mutex> lock(mutex_);
    drivers_.clear();
    counts_.registered_now = 0;
  }

  Status wait_registered(const std::string& driver, std::chrono::milliseconds limit) override {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool there = changed_.wait_for(lock, limit, [&] { return drivers_.contains(driver); });
    if (there) return ok_status();
    return make_error(Errc::kUnavailable, "DRA driver {} is not registered{}{}", driver,
                      last_error_.empty() ? "" : "; last refusal: ", last_error_);
  }

  Result<PrepareAnswer> prepare(const std::string& driver, const std::vector<ClaimName>& claims) override {
    Result<Registered> r = find(driver);
    if (!r.ok()) return std::move(r).error();
    if (r->service == "v1.DRAPlugin") {
      v1::DRAPlugin::Stub stub(r->channel);
      return prepare_with<v1::DRAPlugin::Stub, v1::NodePrepareResourcesRequest,
                          v1::NodePrepareResourcesResponse>(stub, claims);
    }
    v1beta1::DRAPlugin::Stub stub(r->channel);
    return prepare_with<v1beta1::DRAPlugin::Stub, v1beta1::NodePrepareResourcesRequest,
                        v1beta1::NodePrepareResourcesResponse>(stub, claims);
  }

  Result<UnprepareAnswer> unprepare(const std::string& driver,
                                    const std::vector<ClaimName>& claims) override {
    Result<Registered> r = find(driver);
    if (!r.ok()) return std::move(r).error();
    if (r->service == "v1.DRAPlugin") {
      v1::DRAPlugin::Stub stub(r->channel);
      return unprepare_with<v1::DRAPlugin::Stub, v1::NodeUnprepareResourcesRequest,
                            v1::NodeUnprepareResourcesResponse>(stub, claims);
    }
    v1beta1::DRAPlugin::Stub stub(r->channel);
    return unprepare_with<v1beta1::DRAPlugin::Stub, v1beta1::NodeUnprepareResourcesRequest,
                          v1beta1::NodeUnprepareResourcesResponse>(stub, claims);
  }

  KubeletCounts counts() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return counts_;
  }

  std::string service_of(const std::string& driver) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = drivers_.find(driver);
    return it == drivers_.end() ? std::string() : it->second.service;
  }

 private:
  Result<Registered> find(const std::string& driver) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = drivers_.find(driver);
    if (it == drivers_.end())
      return make_error(Errc::kUnavailable, "DRA driver {} is not registered", driver);
    return it->second;
  }

  void look_all() {
    while (up_) {
      if (delay_.load().count() >= 0) look();
      std::this_thread::sleep_for(options_.look);
    }
  }

  void look() {
    std::set<std::filesystem::path> there;
    std::error_code ec;
    for (const auto& entry : std::filesystem::directory_iterator(registry_, ec)) {
      struct stat info {};
      const std::filesystem::path& path = entry.path();
      if (path.filename().string().starts_with(".") || ::stat(path.c_str(), &info) != 0 ||
          !S_ISSOCK(info.st_mode)) {
        continue;
      }
      there.insert(path);
      Known& known = known_[path];
      const bool same = known.inode == info.st_ino && known.made.tv_sec == info.st_ctim.tv_sec &&
                        known.made.tv_nsec == info.st_ctim.tv_nsec;
      if (same && (known.done || Clock::now() < known.next)) continue;
      if (!same) {
        deregister(path);
        known = Known{info.st_ino, info.st_ctim, false, kFirstRetry, {}};
      }
      known.done = introduce(path);
      known.next = Clock::now() + known.pause;
      known.pause *= 2;
    }
    std::erase_if(known_, [&](const auto& entry) {
      if (there.contains(entry.first)) return false;
      deregister(entry.first);
      return true;
    });
  }

  void deregister(const std::filesystem::path& socket) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(drivers_, [&](const auto& entry) { return entry.second.socket == socket; });
    counts_.registered_now = drivers_.size();
  }

  bool introduce(const std::filesystem::path& socket) {
    const std::shared_ptr<grpc::Channel> channel = dial(socket.string());
    if (!channel->WaitForConnected(std::chrono::system_clock::now() + options_.dial)) return false;
    for (const auto until = Clock::now() + delay_.load(); up_ && Clock::now() < until;)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    registration::Registration::Stub stub(channel);
    registration::PluginInfo info;
    {
      grpc::ClientContext context;
      set_limit(context, kGetInfo);
      if (!stub.GetInfo(&context, registration::InfoRequest(), &info).ok()) return false;
    }
    Registered driver;
    driver.socket = socket;
    driver.endpoint = info.endpoint().empty() ? socket.string() : info.endpoint();
    for (const std::string& version : info.supported_versions()) {
      if (driver.service.empty() && (version == "v1.DRAPlugin" || version == "v1beta1.DRAPlugin")) {
        driver.service = version;
      }
    }
    std::string problem;
    if (info.type() != "DRAPlugin") problem = "unknown plugin type " + info.type();
    if (driver.service.empty())
      problem = "none of services supported by the plugin are supported by the kubelet";
    if (problem.empty()) {
      driver.channel = dial(driver.endpoint);
      driver.channel->GetState(true);  // connect at once
    }
    registration::RegistrationStatus verdict;
    verdict.set_plugin_registered(problem.empty());
    verdict.set_error(problem);
    registration::RegistrationStatusResponse nothing;
    grpc::ClientContext context;
    set_limit(context, kNotify);
    const bool told = stub.NotifyRegistrationStatus(&context, verdict, &nothing).ok();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!told || !problem.empty()) {
      ++counts_.refused;
      last_error_ = problem.empty() ? "the plugin did not take the notification" : problem;
      return false;
    }
    ++counts_.registrations;
    drivers_[info.name()] = std::move(driver);
    counts_.registered_now = drivers_.size();
    changed_.notify_all();
    return true;
  }

  const std::filesystem::path registry_;
  const KubeletOptions options_;
  std::atomic<std::chrono::milliseconds> delay_{std::chrono::milliseconds(0)};
  std::atomic<bool> up_ = false;
  std::thread looking_;
  std::map<std::filesystem::path, Known> known_;  // of the looking thread
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Registered> drivers_;
  KubeletCounts counts_;
  std::string last_error_;
};

}  // namespace

Result<std::unique_ptr<Kubelet>> Kubelet::start(std::filesystem::path root, KubeletOptions options) {
  std::error_code ec;
  std::filesystem::create_directories(root / "plugins_registry", ec);
  if (ec) return make_error(Errc::kUnavailable, "make folder \"{}\": {}", root.string(), ec.message());
  auto engine = std::make_unique<Engine>(std::move(root), options);
  engine->restart();
  return std::unique_ptr<Kubelet>(std::move(engine));
}

}  // namespace dracpu::sandbox
