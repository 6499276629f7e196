// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/slice_reflector.h"

#include "kube/api_status.h"

namespace dracpu::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kWatchGrace{30};      // beyond timeoutSeconds
constexpr seconds kQuiet{120};          // a watch that stood so long resets the back-off (spec 7.4)
constexpr milliseconds kHurried{1000};  // a watch that ends sooner than this is a failure, too

}  // namespace

SliceReflector::SliceReflector(HttpClient& client, const PublisherOptions& options,
                               ReflectorCallbacks callbacks)
    : client_(client),
      timing_(options.timing),
      path_(fmt::format(
          "/apis/resource.k8s.io/v1/resourceslices?fieldSelector={}",
          url_escape(fmt::format("spec.driver={},spec.nodeName={}", options.driver, options.node)))),
      calls_(std::move(callbacks)),
      list_backoff_(timing_.retry_first, timing_.retry_max),
      watch_backoff_(timing_.retry_first, timing_.retry_max) {}

void SliceReflector::list() {
  if (stopped_) return;
  if (listing_) {
    list_again_ = true;
    return;
  }
  listing_ = true;
  list_again_ = false;
  pages_ = {};
  request_page("");
}

// An empty resourceVersion asks for a consistent read: an old answer could make us create slices twice.
void SliceReflector::request_page(const std::string& continue_token) {
  ++lists_;
  Request request;
  request.path = path_ + "&limit=500";
  if (!continue_token.empty()) request.path += "&continue=" + url_escape(continue_token);
  client_.send(std::move(request), Deadline::after(timing_.request_limit),
               [weak = weak_from_this()](Result<Response> answer) {
                 if (const auto self = weak.lock()) self->on_page(std::move(answer));
               });
}

void SliceReflector::on_page(Result<Response> answer) {
  if (stopped_) return;
  if (!answer.ok()) return list_failed(answer.error(), std::nullopt, false);
  if (!answer->ok()) {
    // A continue token that is too old: begin again at once.
    const bool expired = answer->status == 410 && !pages_.items.empty();
    return list_failed(status_error(*answer), answer->retry_after, expired);
  }
  Result<SliceList> page = parse_slice_list(answer->body);
  if (!page.ok()) return list_failed(page.error(), std::nullopt, false);
  for (ServerSlice& slice : page->items) pages_.items.push_back(std::move(slice));
  pages_.resource_version = page->resource_version;
  if (!page->continue_token.empty()) return request_page(page->continue_token);

  listing_ = false;
  list_backoff_.reset();
  if (list_again_) return list();
  const SliceList done = std::exchange(pages_, {});
  if (watch_wanted_) {
    version_ = done.resource_version;
    open_watch();
  }
  calls_.on_list(done);
}

void SliceReflector::list_failed(const Error& error, std::optional<seconds> wait, bool at_once) {
  listing_ = false;
  calls_.on_error(Error(error).while_doing("listing slices"));
  milliseconds delay = at_once ? milliseconds(0) : list_backoff_.next();
  if (wait) delay = std::max(delay, milliseconds(*wait));
  after(delay, &SliceReflector::list);
}

void SliceReflector::open_watch() {
  if (stopped_) return;
  watch_wanted_ = false;
  ++watches_;
  std::uniform_int_distribution<std::int64_t> any(timing_.watch_min.count(), timing_.watch_max.count());
  const seconds timeout(any(random_));
  Request request;
  request.path = fmt::format("{}&watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
                             path_, url_escape(version_), timeout.count());
  watch_since_ = Deadline::Clock::now();
  WatchCallbacks calls;
  calls.on_open = [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && !self->stopped_) self->calls_.on_connected(true);
  };
  calls.on_line = [weak = weak_from_this()](std::string_view line) {
    const auto self = weak.lock();
    if (self && !self->stopped_) self->on_line(line);
  };
  calls.on_end = [weak = weak_from_this()](WatchEnd end) {
    const auto self = weak.lock();
    if (self && !self->stopped_) self->on_watch_end(std::move(end));
  };
  watch_ = client_.watch(std::move(request), Deadline::after(timeout + kWatchGrace), std::move(calls));
}

void SliceReflector::on_line(std::string_view line) {
  Result<WatchEvent> event = parse_watch_line(line);
  if (!event.ok()) {
    // What it said is lost: only a new list can tell.
    calls_.on_error(std::move(event).error().while_doing("reading a watch event"));
    return restart_watch(watch_backoff_.next(), true);
  }
  if (event->type == WatchEvent::Type::kError) {
    const bool expired = event->error.code == 410;
    if (!expired) {
      calls_.on_error(make_error(Errc::kUnavailable, "watching slices: {} {}", event->error.reason,
                                 event->error.message));
    }
    milliseconds delay = expired ? milliseconds(0) : watch_backoff_.next();
    if (event->error.retry_after) delay = std::max(delay, milliseconds(*event->error.retry_after));
    return restart_watch(delay, true);
  }
  if (!event->resource_version.empty()) version_ = event->resource_version;
  if (event->slice) calls_.on_event(*event);
}

void SliceReflector::on_watch_end(WatchEnd end) {
  const auto lasted = Deadline::Clock::now() - watch_since_;
  if (lasted >= kQuiet) watch_backoff_.reset();
  if (end.status == 200) {
    return restart_watch(lasted < kHurried ? watch_backoff_.next() : milliseconds(0), false);
  }
  if (end.status == 410) return restart_watch(milliseconds(0), true);
  calls_.on_connected(false);
  const Error error = end.status == 0 ? end.error : status_error(end.response);
  calls_.on_error(Error(error).while_doing("watching slices"));
  milliseconds delay = watch_backoff_.next();
  if (end.response.retry_after) delay = std::max(delay, milliseconds(*end.response.retry_after));
  // A refusal may be about the version (400, 504): do not insist on it.
  restart_watch(delay, end.status != 0);
}

void SliceReflector::restart_watch(milliseconds delay, bool relist) {
  watch_.cancel();
  if (relist) {
    watch_wanted_ = true;
    after(delay, &SliceReflector::list);
  } else {
    after(delay, &SliceReflector::open_watch);
  }
}

void SliceReflector::after(milliseconds delay, void (SliceReflector::*what)()) {
  const auto call = [weak = weak_from_this(), what] {
    if (const auto self = weak.lock()) (self.get()->*what)();
  };
  if (delay.count() <= 0) {
    client_.post(call);
  } else {
    client_.post_after(delay, call);
  }
}

void SliceReflector::stop() {
  stopped_ = true;
  watch_.cancel();
}

}  // namespace dracpu::kube
