// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The work of a SlicePublisher: compares what is desired with what the server has, and carries out plans.
//
// A plan runs one call after the other and always to its end or first failure; whatever happens meanwhile
// is looked at afterwards, with a new plan. Nothing runs while a list is under way after a failure.
// Threads  The client's, except stats().

#ifndef DRACPU_KUBE_SLICE_SYNC_H_
#define DRACPU_KUBE_SLICE_SYNC_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "kube/backoff.h"
#include "kube/slice_cache.h"
#include "kube/slice_planner.h"
#include "kube/slice_publisher.h"
#include "kube/slice_reflector.h"

namespace dracpu::kube {

class SliceSync : public std::enable_shared_from_this<SliceSync> {
 public:
  SliceSync(HttpClient& client, PublisherOptions options, PublisherCallbacks callbacks);

  void start();
  void publish(std::vector<device::Slice> slices);
  void stop();
  PublisherStats stats() const;

 private:
  using Wire = std::shared_ptr<const std::vector<WireSlice>>;
  struct Run;  // a plan being carried out

  // Inputs.
  void read_node();
  void read_version();
  void on_list(const SliceList& list);
  void on_event(const WatchEvent& event);
  void on_change(SliceCache::Change change);
  bool owner_is_fresh() const;

  // Comparing and writing.
  void encode();
  void sync();
  void begin(SlicePlan plan);
  void step(const std::shared_ptr<Run>& run);
  void answered(const std::shared_ptr<Run>& run, Result<Response> answer);
  void note_written(const std::shared_ptr<Run>& run, const Response& answer);
  void failed(const std::shared_ptr<Run>& run, const Error& error, int status);
  bool leave_out(const Error& error);
  void hold(std::chrono::milliseconds delay);
  void relist();

  // Telling.
  void warn(const std::string& text);
  void count_error(const Error& error, std::string& where);
  void tell();
  template <typename F>
  void get(std::string path, F&& then);

  HttpClient& client_;
  const PublisherOptions options_;
  PublisherCallbacks calls_;
  std::shared_ptr<SliceReflector> reflector_;
  SliceCache cache_;
  bool stopped_ = false;

  std::optional<std::vector<device::Slice>> desired_;
  Wire wire_;
  SliceFeatures features_;
  bool version_known_ = false;
  bool version_reading_ = false;  // one question at a time: a late second answer would undo what we learnt
  std::map<std::string, std::string> accepted_;  // content sent → content that the server made of it
  std::set<std::string> warned_;

  std::string node_uid_;
  Deadline::Clock::time_point node_read_at_;
  bool node_stale_ = true;  // slices vanished: the Node may be another
  bool node_reading_ = false;

  bool listed_ = false;
  bool running_ = false;
  bool holding_ = false;  // a timer will call sync()
  std::uint64_t hold_number_ = 0;
  Backoff node_backoff_;
  Backoff write_backoff_;
  Backoff refused_backoff_;
  Backoff conflict_backoff_;
  WriteBudget budget_;

  // Why not, by source; the first that is not empty is shown.
  std::string desired_error_;
  std::string write_error_;
  std::string node_error_;
  std::string watch_error_;

  mutable Mutex mutex_;
  PublisherStats stats_ DRACPU_GUARDED_BY(mutex_);
  PublisherState state_;  // on the client's thread; copied into stats_
};

}  // namespace dracpu::kube

#endif  // DRACPU_KUBE_SLICE_SYNC_H_
