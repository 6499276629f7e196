// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "nri/plugin.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "nri/service.h"
#include "nri/session.h"
#include "nri/trunk.h"
#include "observe/log.h"

namespace dracpu::nri {
namespace {

using std::chrono::milliseconds;

// After the socket file appeared: between bind() and listen() of the runtime it still refuses.
constexpr milliseconds kRetryAfterChange{10};

class PluginImpl final : public Plugin {
 public:
  PluginImpl(PluginOptions options, Handler& handler)
      : options_(std::move(options)), service_(handler), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (const char* number = std::getenv("NRI_PLUGIN_SOCKET"); number != nullptr && *number != '\0') {
      inherited_ = number;
    }
    worker_ = std::thread([this] { work(); });
    connector_ = std::thread([this] { stay_connected(); });
  }
  ~PluginImpl() override { stop_now(milliseconds(1500)); }

  void stop(milliseconds grace) override { stop_now(grace); }
  Status update_containers(const std::vector<ContainerUpdate>& updates, milliseconds timeout) override;
  unsigned long connections() const override { return service_.synchronized(); }

 private:
  // A call, or without one the end of the connection.
  struct Item {
    std::shared_ptr<Session> session;
    std::optional<Call> call;
    Error reason;
  };

  void stop_now(milliseconds grace);
  void finish_open_hooks(Session& session, Deadline deadline);

  void stay_connected();
  Result<UniqueFd> connect();
  // True if the connection got as far as hooks.
  bool serve(UniqueFd socket);
  void work();
  void do_item(const Item& item);

  const PluginOptions options_;
  Service service_;
  UniqueFd wake_;
  std::string inherited_;  // NRI_PLUGIN_SOCKET, until it is used

  Mutex mutex_;
  Condition changed_;
  std::shared_ptr<Session> session_ DRACPU_GUARDED_BY(mutex_);
  std::deque<Item> queue_ DRACPU_GUARDED_BY(mutex_);
  bool busy_ DRACPU_GUARDED_BY(mutex_) = false;
  bool stopping_ DRACPU_GUARDED_BY(mutex_) = false;
  bool connector_done_ DRACPU_GUARDED_BY(mutex_) = false;

  std::atomic<std::thread::id> worker_id_{};
  std::thread worker_;
  std::thread connector_;
};

void PluginImpl::stay_connected() {
  SocketWatch watch(options_.socket, wake_.get());
  milliseconds delay = options_.first_retry;
  std::string last_failure;
  for (;;) {
    watch.arm();
    Result<UniqueFd> socket = connect();
    if (socket) {
      last_failure.clear();
      if (serve(std::move(socket).value())) delay = options_.first_retry;
    } else if (socket.error().text != last_failure) {
      last_failure = socket.error().text;
      observe::log_warning("NRI socket not available, waiting", {{"reason", last_failure}});
      if (options_.unreachable) options_.unreachable(socket.error());
    }
    const SocketWatch::Woke woke = watch.wait(delay);
    if (woke == SocketWatch::Woke::kStop) break;
    delay = woke == SocketWatch::Woke::kChange ? std::min(kRetryAfterChange, options_.first_retry)
                                               : std::min(delay * 2, options_.max_retry);
  }
  const Locked lock(mutex_);
  connector_done_ = true;
  changed_.notify_all();
}

Result<UniqueFd> PluginImpl::connect() {
  if (inherited_.empty()) return dial(options_.socket);
  Result<UniqueFd> fd = adopt_inherited(std::exchange(inherited_, {}));
  if (fd) return fd;
  observe::log_error("Inherited NRI socket not usable, dialling instead", fd.error());
  return dial(options_.socket);
}

bool PluginImpl::serve(UniqueFd socket) {
  // The callback runs inside run(), so the session is alive and its weak pointer never empty.
  auto self = std::make_shared<std::weak_ptr<Session>>();
  auto session = std::make_shared<Session>(std::move(socket), options_, [this, self](Call call) {
    const Locked lock(mutex_);
    queue_.push_back(Item{self->lock(), std::move(call), Error()});
    changed_.notify_all();
  });
  *self = session;
  {
    const Locked lock(mutex_);
    if (stopping_) return false;
    session_ = session;
  }
  observe::log_info(0, "NRI connected", {{"socket", options_.socket.native()}});
  const Error reason = session->run();
  const bool synchronized = session->is_synchronized();
  {
    const Locked lock(mutex_);
    session_.reset();
    // Calls of a dead connection no longer count (spec 4.9).
    std::erase_if(queue_, [](const Item& item) { return item.call.has_value(); });
    queue_.push_back(Item{session, std::nullopt, reason});
    changed_.notify_all();
  }
  observe::log_warning("NRI connection ended", {{"reason", reason.text}, {"synchronized", synchronized}});
  return synchronized;
}

void PluginImpl::work() {
  worker_id_ = std::this_thread::get_id();
  for (;;) {
    Item item;
    {
      const Locked lock(mutex_);
      busy_ = false;
      changed_.notify_all();
      while (queue_.empty() && !connector_done_) changed_.wait(mutex_);
      if (queue_.empty()) return;
      item = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
    }
    do_item(item);
  }
}

void PluginImpl::do_item(const Item& item) {
  if (!item.call) {
    service_.end(item.reason);
  } else if (!item.session->closed()) {
    service_.handle(*item.session, *item.call);
  }
}

Status PluginImpl::update_containers(const std::vector<ContainerUpdate>& updates, milliseconds timeout) {
  if (std::this_thread::get_id() == worker_id_.load()) {
    return Error{Errc::kInternal, "updating containers from inside a handler call"};
  }
  const Deadline deadline = Deadline::after(timeout);
  std::shared_ptr<Session> session;
  {
    const Locked lock(mutex_);
    session = session_;
  }
  if (!session || !session->is_synchronized()) {
    return Error{Errc::kUnavailable, "updating containers: not connected to the runtime"};
  }
  for (std::size_t next = 0; next < updates.size();) {
    Result<EncodedUpdates> batch = encode_updates(updates, next, kMaxSendData);
    if (!batch) return std::move(batch).error();
    if (batch->sent == next) {
      return make_error(Errc::kInvalidInput, "update of container \"{}\" is over 4 MiB",
                        updates[next].id.get());
    }
    const Result<Response> response = session->call("UpdateContainers", std::move(batch->payload), deadline);
    if (!response) return response.error();
    if (response->code != 0) {
      return make_error(Errc::kConflict, "the runtime answered code {}: {}", response->code, response->text);
    }
    next = batch->sent;
  }
  return ok_status();
}

void PluginImpl::finish_open_hooks(Session& session, Deadline deadline) {
  session.wait_idle(deadline);
  {
    const Locked lock(mutex_);
    while ((busy_ || !queue_.empty()) && !deadline.passed()) changed_.wait_until(mutex_, deadline.at());
  }
  session.linger();
  session.close(Error{Errc::kUnavailable, "stopping"});
}

void PluginImpl::stop_now(milliseconds grace) {
  std::shared_ptr<Session> session;
  {
    const Locked lock(mutex_);
    if (std::exchange(stopping_, true)) return;
    session = session_;
  }
  const std::uint64_t one = 1;
  // Cannot fail: the counter of an eventfd does not overflow from one write.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
  if (session) finish_open_hooks(*session, Deadline::after(grace));
  connector_.join();
  worker_.join();
}

}  // namespace

std::unique_ptr<Plugin> Plugin::start(PluginOptions options, Handler& handler) {
  return std::make_unique<PluginImpl>(std::move(options), handler);
}

}  // namespace dracpu::nri
