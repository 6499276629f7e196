// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Keeps the API server's ResourceSlices of one driver on one node equal to what the driver wants.
//
// Pool      One, named like the node.
// At rest   One filtered watch, no writes, no other requests.
// Repair    A slice that somebody deletes or changes is put back at once. Such repairs are capped at a burst
//           of 5 writes, then one in 5 s. A repair of many slices is done whole and what was too much is
//           waited off before the next. A new desired state is never held back.
// Failures  Nothing is fatal: network and 5xx 0.2 s doubling to 30 s with jitter; refused contents (400,
//           422) slowly; 403 like network; 409 after reading again. Errors come through on_state and stats().
//           A desired state that breaks the rules of one pool (a device name twice) is reported and not sent.
// Server    Fields that it drops or cannot take (list attributes before 1.36, mapping to node allocatable)
//           are left out, with one warning; the rest is published (rulings 18).
// Stop      Slices stay. After stop() returns no callback runs.
// Threads   Any; callbacks run on the client's thread and must not block.

#ifndef DRACPU_KUBE_SLICE_PUBLISHER_H_
#define DRACPU_KUBE_SLICE_PUBLISHER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "kube/http_client.h"

namespace dracpu::kube {

// KEP-5517: how the amounts of a claim count against a node allocatable resource.
struct AllocatableMapping {
  std::string resource;      // "cpu"
  std::string capacity_key;  // "dra.cpu/cpu"; devices without this capacity count 1 each
};

struct PublisherTiming {
  std::chrono::milliseconds retry_first{200};  // network, 403, 5xx
  std::chrono::milliseconds retry_max{30'000};
  std::chrono::milliseconds refused_first{5'000};  // 400, 422
  std::chrono::milliseconds refused_max{300'000};
  std::chrono::milliseconds request_limit{30'000};
  std::size_t burst = 5;
  std::chrono::milliseconds refill{5'000};
  std::chrono::seconds watch_min{300};
  std::chrono::seconds watch_max{600};
};

struct PublisherOptions {
  std::string driver;
  std::string node;
  std::optional<AllocatableMapping> mapping;
  PublisherTiming timing;
};

struct PublisherState {
  bool synced = false;     // the server had exactly the desired state at the last look
  bool connected = false;  // the watch stands
  std::string error;       // why not, empty when all is well
  std::int64_t generation = 0;
  std::size_t slices = 0;  // known on the server

  friend bool operator==(const PublisherState&, const PublisherState&) = default;
};

struct PublisherStats {
  PublisherState state;
  std::uint64_t creates = 0;
  std::uint64_t updates = 0;
  std::uint64_t deletes = 0;
  std::uint64_t api_errors = 0;  // failed or refused requests
  std::uint64_t lists = 0;
  std::uint64_t watches = 0;
};

struct PublisherCallbacks {
  std::function<void(const PublisherState&)> on_state;      // on every change; may be empty
  std::function<void(const std::string& text)> on_warning;  // dropped or left out fields; may be empty
};

class SlicePublisher {
 public:
  // Begins to read node, version and slices; nothing is written before publish(). `client` must outlive it.
  static std::unique_ptr<SlicePublisher> start(HttpClient& client, PublisherOptions options,
                                               PublisherCallbacks callbacks = {});
  ~SlicePublisher();
  SlicePublisher(const SlicePublisher&) = delete;
  SlicePublisher& operator=(const SlicePublisher&) = delete;

  // The new desired state; returns at once. No slices: those on the server are deleted.
  void publish(std::vector<device::Slice> slices);
  void stop();
  PublisherStats stats() const;

 private:
  class Impl;
  explicit SlicePublisher(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_SLICE_PUBLISHER_H_
