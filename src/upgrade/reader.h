// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Reads from the cluster what the rules need. GET requests only.
//
// Lists    come in pages; one whose continue token has expired is read again from the start, once. A list or
//          an object that cannot be read (403, 404, an odd field) goes to Facts::not_checked, and reading
//          goes on.
// Repeats  are the client's: 429 and Retry-After are obeyed within the time limit of a request.
// Errors   kUnavailable   the API server does not answer, or does not answer as one
//          kInvalidInput  it refuses the credentials; or `node` is not in the cluster
// Threads  Blocks the caller; not on the client's own thread.

#ifndef DRACPU_UPGRADE_READER_H_
#define DRACPU_UPGRADE_READER_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/load.h"
#include "kube/http_client.h"
#include "upgrade/facts.h"

namespace dracpu::upgrade {

struct ReadOptions {
  std::string node;                // look at this node's kubelet and slices alone; empty: at all
  std::vector<std::string> names;  // driver names whose slices matter, beside those that are found
  bool kubelets = true;            // ask nodes and kubelets, too
  // A driver's command line without the program's name, as the driver would take it.
  std::function<Result<config::Flags>(const std::vector<std::string>& words)> read_flags;
  std::chrono::milliseconds limit{60'000};          // of one request
  std::chrono::milliseconds kubelet_limit{10'000};  // of one question to a kubelet
  std::size_t page = 250;                           // objects; slices are large, they come in tens
};

Result<Facts> read_cluster(kube::HttpClient& client, const Given& given, const ReadOptions& options);

}  // namespace dracpu::upgrade

#endif  // DRACPU_UPGRADE_READER_H_
