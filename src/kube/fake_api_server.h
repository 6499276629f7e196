// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A small Kubernetes API server for tests: nodes, claims, slices with watches, and faults on demand.
//
// Transport  Plain HTTP/1.1 on 127.0.0.1, one thread per connection.
// Slices     Stored as sent plus name, uid, resourceVersion; preconditions and versions are checked.
// Threads    Any.

#ifndef DRACPU_KUBE_FAKE_API_SERVER_H_
#define DRACPU_KUBE_FAKE_API_SERVER_H_

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kube/credentials.h"

namespace dracpu::kube {

class FakeApiServer {
 public:
  struct Seen {
    std::string method;
    std::string target;
    std::string body;
    std::string authorization;
    std::string user_agent;
    std::size_t connection = 0;
    std::chrono::steady_clock::time_point at;
  };

  // What to do instead of, or after, the proper answer.
  struct Fault {
    int status = 0;  // answer this; 0: the proper answer
    std::string body{};
    std::string headers{};    // "Retry-After: 3\r\n"
    bool cut_before = false;  // close without an answer
    bool cut_within = false;  // close in the middle of the body
    bool carry_out = false;   // do the work although the answer is a fault
    std::chrono::milliseconds delay{0};
  };
  using Hook = std::function<std::optional<Fault>(const Seen&)>;

  FakeApiServer();
  ~FakeApiServer();

  ClientConfig config() const;
  std::string url() const;
  void stop();   // closes everything
  void start();  // on the same port

  void set_hook(Hook hook);
  // Changes every slice before it is stored, as a server does whose gates are off.
  void set_filter(std::function<void(boost::json::object& slice)> filter);
  void set_node(const std::string& name, const std::string& uid);  // empty uid: not there
  void set_claim(const std::string& ns, const std::string& name, const std::string& json);
  void set_minor(int minor);

  // As if somebody else did it.
  std::string add_slice(boost::json::object slice);  // gives the name
  void edit_slice(const std::string& name, const std::function<void(boost::json::object& slice)>& edit);
  void remove_slice(const std::string& name);
  std::vector<boost::json::object> slices() const;  // by name

  void end_watches();                            // in order
  void cut_watches();                            // without an end
  void send_to_watches(const std::string& raw);  // bytes of the body, in one chunk
  void forget_history();                         // watches from older versions get 410
  std::size_t watches() const;                   // open now

  std::vector<Seen> requests() const;
  std::size_t count(const std::string& method, const std::string& part = "") const;
  std::size_t writes() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Waits until `done` is true; false after `limit`.
bool wait_for(const std::function<bool()>& done, std::chrono::milliseconds limit = std::chrono::seconds(10));

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_FAKE_API_SERVER_H_
