// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// One NRI connection as the runtime holds it: calls the plugin's service, serves its own.
//
// Framing and message rules are the driver's own (src/nri/mux.h, ttrpc.h); they are proven against the real
// runtime's library elsewhere. What is played here is the other side's behaviour.
// Errors  call(): kUnavailable when the trunk is closed or the answer did not come in time. A late answer
// closes
//         the trunk, as runtimes do (spec nri-wire 4.9). A plugin's refusal is a Response with a code.
// Threads Any. A reader thread drains the socket; calls of the plugin are served on a second thread, so that
// one
//         may wait while a hook is answered.

#ifndef DRACPU_SANDBOX_TRUNK_H_
#define DRACPU_SANDBOX_TRUNK_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/unique_fd.h"
#include "nri/ttrpc.h"

namespace dracpu::sandbox {

class Trunk {
 public:
  // Serves the runtime service: RegisterPlugin, UpdateContainers.
  using Serve = std::function<nri::Response(const nri::Request&)>;

  Trunk(UniqueFd socket, Serve serve);
  ~Trunk();
  Trunk(const Trunk&) = delete;
  Trunk& operator=(const Trunk&) = delete;

  Result<nri::Response> call(const std::string& method, std::string payload,
                             std::chrono::milliseconds timeout);
  void close();
  bool is_open() const { return open_; }

 private:
  void read_all();
  void serve_all();
  void take(std::uint32_t connection, nri::Message message);
  Status send(std::uint32_t connection, const std::string& message);

  UniqueFd socket_;
  Serve serve_;
  std::atomic<bool> open_ = true;
  std::mutex write_mutex_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t next_stream_ = 1;
  std::map<std::uint32_t, std::optional<nri::Response>> waiting_;  // by stream
  std::deque<nri::Message> requests_;
  std::thread reader_;
  std::thread server_;
};

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_TRUNK_H_
