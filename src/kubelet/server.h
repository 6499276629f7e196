// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The kubelet's side of the driver: plugin registration, DRA v1 and v1beta1, device health, on two unix
// sockets.
//
// Source  spec kubelet-dra-wire sections 1 to 3.
// Errors  start() names the path and the fix (socket path over 107 bytes, folder missing or not writable).
// Threads Handler calls come from gRPC threads, several at once; they must not block. `done` is called
// exactly
//         once, from any thread, also after the caller has gone or the server has stopped; one that is
//         dropped without a call answers the caller as an internal error.

#ifndef DRACPU_KUBELET_SERVER_H_
#define DRACPU_KUBELET_SERVER_H_

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/ids.h"
#include "base/result.h"

namespace dracpu::kubelet {

struct ClaimRef {
  std::string ns;
  std::string name;
  ClaimUid uid;
};

struct PreparedDevice {
  std::vector<std::string> request_names;  // main request names, no "/subrequest"
  std::string pool;
  std::string device;
  std::vector<std::string> cdi_device_ids;
  std::optional<std::string> share_id;  // v1 only
};

using PrepareResults = std::map<ClaimUid, Result<std::vector<PreparedDevice>>>;
using UnprepareResults = std::map<ClaimUid, Status>;

class Handler {
 public:
  virtual ~Handler() = default;
  // One result per distinct uid in `claims`. The request's own order is kept; a uid may occur twice.
  virtual void prepare(std::vector<ClaimRef> claims, Deadline deadline,
                       std::function<void(PrepareResults)> done) = 0;
  virtual void unprepare(std::vector<ClaimRef> claims, Deadline deadline,
                         std::function<void(UnprepareResults)> done) = 0;
  // The kubelet's verdict on our registration; `error` is its text when it refused.
  virtual void on_registration(bool registered, const std::string& error) = 0;
};

enum class Health { kUnknown = 0, kHealthy = 1, kUnhealthy = 2 };
struct DeviceHealth {
  std::string pool;
  std::string device;
  Health health = Health::kUnknown;
  std::string message;  // at most 1024 bytes
};

struct ServerOptions {
  std::filesystem::path kubelet_root_dir = "/var/lib/kubelet";
  std::string driver_name = "dra.cpu";
  std::chrono::seconds health_resend{10};
  std::chrono::seconds health_lease{20};
  bool health = true;  // false: not advertised, and a watch ends with UNIMPLEMENTED
};

// Checks what can be known before anything is touched: absolute root, driver name, socket paths at most 107
// bytes, a health lease longer than the time between two reports.
Status check_options(const ServerOptions& options);

// Asks at both socket paths whether somebody listens there already: kConflict names the path and, where the
// kernel tells it, the process. Meant for the owner of the lock, to find a driver that takes none (RULINGS
// 4).
Status check_no_other_driver(const ServerOptions& options);

class Server {
 public:
  virtual ~Server() = default;  // stops

  // The DRA socket answers before the registration socket appears. Stale files at both paths are replaced.
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Handler& handler);

  // Registration socket first, then running calls get up to `grace`, then the DRA socket. Removes both files,
  // unless another driver has put its own there. A call that comes meanwhile is refused as UNAVAILABLE. Not
  // from a handler call.
  virtual void stop(std::chrono::milliseconds grace = std::chrono::milliseconds(2000)) = 0;

  // The whole current report; sent at once to every watcher and again every health_resend. Before the first
  // one watchers wait.
  virtual void set_health(std::vector<DeviceHealth> devices) = 0;

  // True if one of the two socket files is no longer the one we made (RULINGS 4: another driver took the
  // path).
  virtual bool sockets_replaced() const = 0;
};

}  // namespace dracpu::kubelet

#endif  // DRACPU_KUBELET_SERVER_H_
