// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// GET requests that wait, and lists page by page.
//
// Errors   kUnavailable: no answer, or none that is JSON. Any HTTP status is an answer.
// Threads  Blocks the caller; one thread at a time, not the client's own.

#ifndef DRACPU_UPGRADE_LISTS_H_
#define DRACPU_UPGRADE_LISTS_H_

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kube/http_client.h"

namespace dracpu::upgrade {

class Lists {
 public:
  Lists(kube::HttpClient& client, std::chrono::milliseconds limit, std::size_t page)
      : client_(client), limit_(limit), page_(page) {}

  Result<kube::Response> get(const std::string& path);
  // The same for several paths at once, answers in their order.
  std::vector<Result<kube::Response>> get_all(const std::vector<std::string>& paths,
                                              std::chrono::milliseconds limit);
  // A JSON object; an HTTP error is an Error with the server's words.
  Result<boost::json::value> object(const std::string& path);

  // Calls `item` for each object of a list. `restart` is called before a list is read from its start again:
  // what came so far is void. `path` may have a query.
  Status each(const std::string& path, const std::function<void(const boost::json::object&)>& item,
              const std::function<void()>& restart);

 private:
  kube::HttpClient& client_;
  std::chrono::milliseconds limit_;
  std::size_t page_;
};

}  // namespace dracpu::upgrade

#endif  // DRACPU_UPGRADE_LISTS_H_
