// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/slice_publisher.h"

#include <future>

#include "base/mutex.h"
#include "kube/slice_sync.h"

namespace dracpu::kube {

// The door between the callers' threads and SliceSync, which lives on the client's thread.
class SlicePublisher::Impl {
 public:
  Impl(HttpClient& client, PublisherOptions options, PublisherCallbacks callbacks)
      : client_(client),
        sync_(std::make_shared<SliceSync>(client, std::move(options), std::move(callbacks))) {}

  void start() {
    client_.post([sync = sync_] { sync->start(); });
  }

  void publish(std::vector<device::Slice> slices) {
    client_.post([sync = sync_, slices = std::move(slices)]() mutable { sync->publish(std::move(slices)); });
  }

  void stop() {
    {
      const Locked lock(mutex_);
      if (stopped_) return;
      stopped_ = true;
    }
    if (client_.on_client_thread()) return sync_->stop();
    std::promise<void> done;
    client_.post([&] {
      sync_->stop();
      done.set_value();
    });
    done.get_future().wait();
  }

  PublisherStats stats() const { return sync_->stats(); }

 private:
  HttpClient& client_;
  std::shared_ptr<SliceSync> sync_;
  Mutex mutex_;
  bool stopped_ DRACPU_GUARDED_BY(mutex_) = false;
};

SlicePublisher::SlicePublisher(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::unique_ptr<SlicePublisher> SlicePublisher::start(HttpClient& client, PublisherOptions options,
                                                      PublisherCallbacks callbacks) {
  auto impl = std::make_shared<Impl>(client, std::move(options), std::move(callbacks));
  impl->start();
  return std::unique_ptr<SlicePublisher>(new SlicePublisher(std::move(impl)));
}

SlicePublisher::~SlicePublisher() { stop(); }
void SlicePublisher::publish(std::vector<device::Slice> slices) { impl_->publish(std::move(slices)); }
void SlicePublisher::stop() { impl_->stop(); }
PublisherStats SlicePublisher::stats() const { return impl_->stats(); }

}  // namespace dracpu::kube
