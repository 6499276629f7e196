// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The API server on 127.0.0.1: HTTP/1.1 in front of an ApiStore, with faults on demand.
//
// Down    create() takes a port but answers nobody: connections are refused until start(). stop() goes back
// to
//         that state and cuts what is open; the port stays the same.
// Tokens  kubeconfig() carries the driver's token and a name; nobody else gets in.
// Threads Any. One thread a connection, joined by stop().

#ifndef DRACPU_SANDBOX_API_SERVER_H_
#define DRACPU_SANDBOX_API_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api_store.h"
#include "base/result.h"

namespace dracpu::sandbox {

// What happens to the next `times` requests that match, instead of or before the true answer.
struct Fault {
  std::string method{};  // empty: any
  std::string path{};    // prefix of the target; empty: any
  int times = 1;         // -1: until cleared
  unsigned status = 0;   // answer with this code and do nothing; 0: answer truly
  int retry_after = 0;   // seconds, as a header; 0: none
  std::chrono::milliseconds delay{0};
  bool cut = false;  // close the connection without an answer
};

struct SeenRequest {
  std::string who;  // as in kubeconfig()
  std::string method;
  std::string target;
  unsigned status = 0;  // 0: cut
  std::chrono::steady_clock::time_point at;
};

class ApiServer {
 public:
  virtual ~ApiServer() = default;  // stops

  static Result<std::unique_ptr<ApiServer>> create(ServerProfile profile = {});

  virtual Status start() = 0;
  virtual void stop() = 0;
  virtual std::uint16_t port() const = 0;
  virtual ApiStore& store() = 0;
  // The text of a kubeconfig for the driver; `who` is kept with its requests.
  virtual std::string kubeconfig(const std::string& who = "driver") const = 0;

  virtual void inject(Fault fault) = 0;
  virtual void clear_faults() = 0;
  virtual void cut_connections() = 0;
  virtual std::vector<SeenRequest> requests() const = 0;
  // Called with every request, when its answer is made and not sent yet. Before there is a caller.
  virtual void on_request(std::function<void(const SeenRequest&)> call) = 0;
  // Seconds between bookmarks of a quiet watch.
  virtual void set_bookmark_interval(std::chrono::milliseconds interval) = 0;
};

}  // namespace dracpu::sandbox

#endif  // DRACPU_SANDBOX_API_SERVER_H_
