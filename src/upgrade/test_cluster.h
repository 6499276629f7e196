// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// A cluster of fixed answers, on the API server of the tests.

#ifndef DRACPU_UPGRADE_TEST_CLUSTER_H_
#define DRACPU_UPGRADE_TEST_CLUSTER_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kube/fake_api_server.h"
#include "kube/http_client.h"
#include "upgrade/reader.h"

namespace dracpu::upgrade {

inline constexpr const char* kDraPath = "/apis/resource.k8s.io/v1";

inline std::string list_of(const std::vector<std::string>& items, const std::string& token = "") {
  std::string out = R"({"metadata":{"continue":")" + token + R"("},"items":[)";
  for (std::size_t i = 0; i < items.size(); ++i) out += (i == 0 ? "" : ",") + items[i];
  return out + "]}";
}
inline std::string refusal(int code, const std::string& reason, const std::string& message = "no") {
  return fmt::format(R"({{"kind":"Status","code":{},"reason":"{}","message":"{}"}})", code, reason, message);
}

class TestCluster {
 public:
  TestCluster() {
    set("/version", R"({"gitVersion":"v1.36.1"})");
    set("/apis/resource.k8s.io", R"({"versions":[{"version":"v1"}]})");
    for (const char* kind : {"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"})
      set(std::string(kDraPath) + "/" + kind, list_of({}));
    set("/apis/apps/v1/daemonsets", list_of({}));
    set("/api/v1/nodes", list_of({}));
    server.set_hook([this](const kube::FakeApiServer::Seen& seen) { return answer(seen); });
    client = *kube::HttpClient::create(server.config());
  }
  ~TestCluster() {
    client.reset();
    server.stop();  // its threads use what is destroyed before it
  }
  TestCluster(const TestCluster&) = delete;
  TestCluster& operator=(const TestCluster&) = delete;

  // What a GET of the target (with its query), or else of the path, is answered.
  void set(const std::string& target, const std::string& body, int status = 200) {
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_[target] = {status, body};
  }
  // The next GET of the target alone.
  void set_once(const std::string& target, const std::string& body, int status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    once_[target] = {status, body};
  }
  void on_delete(const std::string& path, int status, const std::string& body = "{}") {
    const std::lock_guard<std::mutex> lock(mutex_);
    deletes_[path] = {status, body};
  }
  std::vector<kube::FakeApiServer::Seen> deleted() const {
    std::vector<kube::FakeApiServer::Seen> out;
    for (kube::FakeApiServer::Seen& seen : server.requests()) {
      if (seen.method == "DELETE") out.push_back(std::move(seen));
    }
    return out;
  }

  kube::FakeApiServer server;
  std::unique_ptr<kube::HttpClient> client;

 private:
  using Answer = std::pair<int, std::string>;

  std::optional<kube::FakeApiServer::Fault> answer(const kube::FakeApiServer::Seen& seen) {
    const std::lock_guard<std::mutex> lock(mutex_);
    kube::FakeApiServer::Fault out;
    out.status = 404;
    out.body = refusal(404, "NotFound");
    const auto take = [&out](const std::map<std::string, Answer>& from, const std::string& key) {
      const auto it = from.find(key);
      if (it == from.end()) return false;
      out.status = it->second.first;
      out.body = it->second.second;
      return true;
    };
    const std::string path = seen.target.substr(0, seen.target.find('?'));
    if (seen.method == "DELETE") {
      take(deletes_, path);
    } else if (take(once_, seen.target)) {
      once_.erase(seen.target);
    } else if (!take(answers_, seen.target)) {
      take(answers_, path);
    }
    return out;
  }

  std::mutex mutex_;
  std::map<std::string, Answer> answers_;
  std::map<std::string, Answer> once_;
  std::map<std::string, Answer> deletes_;
};

// Reads the few flags that the tests' drivers have.
inline Result<config::Flags> read_test_flags(const std::vector<std::string>& words) {
  config::Flags out;
  for (const std::string& word : words) {
    if (word.starts_with("--config=")) {
      out.config = word.substr(9);
    } else if (word.starts_with("--group-by=")) {
      out.group_by = word.substr(11);
    } else if (!word.starts_with("--v=")) {
      return make_error(Errc::kInvalidInput, "flag {} is not known", word);
    }
  }
  return out;
}

inline ReadOptions test_options() {
  ReadOptions out;
  out.read_flags = read_test_flags;
  out.limit = std::chrono::seconds(5);
  out.kubelet_limit = std::chrono::seconds(5);
  return out;
}

}  // namespace dracpu::upgrade

#endif  // DRACPU_UPGRADE_TEST_CLUSTER_H_
