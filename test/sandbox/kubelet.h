// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The kubelet as a DRA driver sees it: finds registration sockets, registers, calls prepare and unprepare.
//
// Follows spec kubelet-dra-wire 1.4 (dial, GetInfo within 1 s, a permanent connection,
// NotifyRegistrationStatus),
//         1.5 (what counts as a socket, re-created sockets register again), 1.3 (the plugin's first known
//         service is used), 2.3 (what answers are refused).
// Errors  The text a pod's event would carry.
// Threads Any.

#ifndef DRACPU_SANDBOX_KUBELET_H_
#define DRACPU_SANDBOX_KUBELET_H_

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace dracpu::sandbox {

struct ClaimName {
  std::string ns;
  std::string name;
  std::string uid;
};

struct PreparedClaim {
  std::vector<std::string> cdi_devices;  // of all devices, duplicates dropped, in order
  std::vector<std::string> device_names;
};

struct KubeletCounts {
  std::size_t registrations = 0;  // successful
  std::size_t refused = 0;
  std::size_t registered_now = 0;
};

struct KubeletOptions {
  std::chrono::milliseconds dial{10'000};  // how long a socket that nobody listens on holds up the others
  std::chrono::milliseconds look{50};      // how often it looks for sockets
};

class Kubelet {
 public:
  virtual ~Kubelet() = default;  // stops

  // `root` is what the driver calls kubeletRootDir.
  static Result<std::unique_ptr<Kubelet>> start(std::filesystem::path root, KubeletOptions options = {});

  virtual Status wait_registered(const std::string& driver, std::chrono::milliseconds limit) = 0;
  // By claim UID; the outer error is one of the whole call.
  virtual Result<std::map<std::string, Result<PreparedClaim>>> prepare(
      const std::string& driver, const std::vector<ClaimName>& claims) = 0;
  virtual Result<std::map<std::string, Status>> unprepare(const std::string& driver,
                                                          const std::vector<ClaimName>& claims) = 0;
  virtual KubeletCounts counts() const = 0;
  // The service of the driver that is used, as "v1.DRAPlugin".
  virtual std::string service_of(const std::string& driver) const = 0;

  // Registers this much later; negative: looks at nothing until it is set again, and keeps what it knows.
  virtual void set_delay(std::chrono::milliseconds delay) = 0;
  // Forgets everything and stops looking, as a kubelet that is stopped; restart() finds the sockets again.
  virtual void stop() = 0;
  virtual void restart() = 0;
};

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_KUBELET_H_
