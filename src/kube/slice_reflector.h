// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Follows the slices of one driver on one node: list, then watch from there, for good (spec
// kubelet-dra-wire 7.4).
//
// Ends     A watch that ends in order is opened again from the last version; 410 leads to a new list; other
//          failures wait 0.2 s doubling to 30 s, or as long as the server says. A watch that outlives its
//          timeoutSeconds by half a minute is cut.
// Threads  The client's thread, callbacks too. stop() there as well; after it no callback runs.

#ifndef DRACPU_KUBE_SLICE_REFLECTOR_H_
#define DRACPU_KUBE_SLICE_REFLECTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>

#include "kube/backoff.h"
#include "kube/http_client.h"
#include "kube/slice_codec.h"
#include "kube/slice_publisher.h"

namespace dracpu::kube {

struct ReflectorCallbacks {
  std::function<void(const SliceList&)> on_list;
  std::function<void(const WatchEvent&)> on_event;   // slices only, no bookmarks
  std::function<void(bool connected)> on_connected;  // the watch stands, or does not
  std::function<void(const Error&)> on_error;        // will be tried again
};

class SliceReflector : public std::enable_shared_from_this<SliceReflector> {
 public:
  SliceReflector(HttpClient& client, const PublisherOptions& options, ReflectorCallbacks callbacks);

  // Lists, and begins the watch if there is none. Calls while a list is under way are answered by it if it
  // has not been sent, or else by a second one.
  void list();
  void stop();

  std::uint64_t lists() const { return lists_; }
  std::uint64_t watches() const { return watches_; }

 private:
  void request_page(const std::string& continue_token);
  void on_page(Result<Response> answer);
  void list_failed(const Error& error, std::optional<std::chrono::seconds> wait, bool at_once);
  void open_watch();
  void on_line(std::string_view line);
  void on_watch_end(WatchEnd end);
  void restart_watch(std::chrono::milliseconds delay, bool relist);
  void after(std::chrono::milliseconds delay, void (SliceReflector::*what)());

  HttpClient& client_;
  PublisherTiming timing_;
  std::string path_;  // with the selector
  ReflectorCallbacks calls_;
  Backoff list_backoff_;
  Backoff watch_backoff_;
  std::minstd_rand random_{std::random_device{}()};

  SliceList pages_;      // of the list under way
  std::string version_;  // where the watch goes on; empty: list first
  Watch watch_;
  Deadline::Clock::time_point watch_since_;
  bool listing_ = false;
  bool list_again_ = false;
  bool watch_wanted_ = true;  // none runs and none is scheduled
  bool stopped_ = false;
  std::uint64_t lists_ = 0;
  std::uint64_t watches_ = 0;
};

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_SLICE_REFLECTOR_H_
