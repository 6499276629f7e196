// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "kube/slice_sync.h"

#include "observe/log.h"

namespace dracpu::kube {
namespace {

using std::chrono::milliseconds;
using Kind = SliceAction::Kind;

constexpr std::string_view kSlices = "/apis/resource.k8s.io/v1/resourceslices";
constexpr milliseconds kConflictFirst{10};     // as the Go client, spec 7.3
constexpr std::chrono::minutes kNodeFresh{1};  // a Node read longer ago is read again before creating

}  // namespace

struct SliceSync::Run {
  SlicePlan plan;
  std::size_t next = 0;
  Wire wire;
  SliceTarget target;
  std::string sent;  // body of the call under way
};

SliceSync::SliceSync(HttpClient& client, PublisherOptions options, PublisherCallbacks callbacks)
    : client_(client),
      options_(std::move(options)),
      calls_(std::move(callbacks)),
      cache_(options_.driver, options_.node),
      node_backoff_(options_.timing.retry_first, options_.timing.retry_max),
      write_backoff_(options_.timing.retry_first, options_.timing.retry_max),
      refused_backoff_(options_.timing.refused_first, options_.timing.refused_max),
      conflict_backoff_(kConflictFirst, options_.timing.retry_max),
      budget_(options_.timing.burst, options_.timing.refill) {}

void SliceSync::start() {
  if (stopped_) return;
  const std::weak_ptr<SliceSync> weak = weak_from_this();
  ReflectorCallbacks calls;
  calls.on_list = [weak](const SliceList& list) {
    if (const auto self = weak.lock()) self->on_list(list);
  };
  calls.on_event = [weak](const WatchEvent& event) {
    if (const auto self = weak.lock()) self->on_event(event);
  };
  calls.on_connected = [weak](bool connected) {
    const auto self = weak.lock();
    if (!self) return;
    self->state_.connected = connected;
    if (connected) self->watch_error_.clear();
    self->tell();
  };
  calls.on_error = [weak](const Error& error) {
    if (const auto self = weak.lock()) self->count_error(error, self->watch_error_);
  };
  reflector_ = std::make_shared<SliceReflector>(client_, options_, std::move(calls));
  reflector_->list();
  read_node();
  read_version();
}

void SliceSync::stop() {
  stopped_ = true;
  if (reflector_) reflector_->stop();
}

void SliceSync::publish(std::vector<device::Slice> slices) {
  if (stopped_ || (desired_ && *desired_ == slices)) return;
  desired_ = std::move(slices);
  accepted_.clear();
  desired_error_.clear();
  if (const Status status = check_pool(*desired_); !status.ok()) {
    count_error(status.error(), desired_error_);
  } else {
    encode();
  }
  // New content deserves a try of its own.
  budget_.fill();
  refused_backoff_.reset();
  holding_ = false;
  ++hold_number_;
  sync();
}

template <typename F>
void SliceSync::get(std::string path, F&& then) {
  Request request;
  request.path = std::move(path);
  client_.send(std::move(request), Deadline::after(options_.timing.request_limit),
               [weak = weak_from_this(), then = std::forward<F>(then)](Result<Response> answer) {
                 const auto self = weak.lock();
                 if (!self || self->stopped_) return;
                 then(*self, std::move(answer));
               });
}

void SliceSync::read_node() {
  if (node_reading_ || stopped_) return;
  node_reading_ = true;
  get("/api/v1/nodes/" + url_escape(options_.node), [](SliceSync& self, Result<Response> answer) {
    if (answer.ok() && !answer->ok()) answer = status_error(*answer);
    Result<std::string> uid =
        answer.ok() ? parse_node_uid(answer->body) : Result<std::string>(answer.error());
    if (!uid.ok()) {
      self.count_error(
          std::move(uid).error().while_doing(fmt::format("reading node \"{}\"", self.options_.node)),
          self.node_error_);
      return self.client_.post_after(self.node_backoff_.next(), [weak = self.weak_from_this()] {
        const auto again = weak.lock();
        if (!again) return;
        again->node_reading_ = false;
        again->read_node();
      });
    }
    self.node_reading_ = false;
    self.node_backoff_.reset();
    self.node_error_.clear();
    self.node_stale_ = false;
    self.node_read_at_ = Deadline::Clock::now();
    self.node_uid_ = *std::move(uid);
    self.sync();
  });
}

void SliceSync::read_version() {
  if (version_reading_ || version_known_) return;
  version_reading_ = true;
  get("/version", [](SliceSync& self, Result<Response> answer) {
    self.version_reading_ = false;
    if (!answer.ok()) return;  // asked again after the next list
    // An answer that tells nothing is taken for the newest version: fields that the server does not like are
    // noticed later, too.
    self.version_known_ = true;
    const Result<int> minor = parse_server_minor(answer->body);
    if (answer->ok() && minor.ok()) self.features_ = SliceFeatures::of_minor(*minor);
    self.encode();
    self.sync();
  });
}

void SliceSync::on_list(const SliceList& list) {
  if (stopped_) return;
  listed_ = true;
  watch_error_.clear();
  if (!version_known_) read_version();
  on_change(cache_.replace(list));
}

void SliceSync::on_event(const WatchEvent& event) {
  if (!stopped_) on_change(cache_.apply(event));
}

void SliceSync::on_change(SliceCache::Change change) {
  if (change == SliceCache::Change::kNone) return;
  // Perhaps the Node was deleted and garbage collection took them: a new Node has a new uid.
  if (change == SliceCache::Change::kVanished) node_stale_ = true;
  sync();
}

bool SliceSync::owner_is_fresh() const {
  return !node_uid_.empty() && !node_stale_ && Deadline::Clock::now() - node_read_at_ < kNodeFresh;
}

void SliceSync::encode() {
  if (!desired_ || !desired_error_.empty()) return;
  std::vector<WireSlice> wire;
  bool lists = false;
  bool mapping = false;
  for (const device::Slice& slice : *desired_) {
    wire.push_back(encode_slice(slice, features_, options_.mapping));
    lists = lists || wire.back().lists_left_out;
    mapping = mapping || wire.back().mapping_left_out;
  }
  wire_ = std::make_shared<const std::vector<WireSlice>>(std::move(wire));
  if (lists) warn("attributes with several values are left out: this API server does not take them");
  if (mapping) warn("the mapping to node allocatable is left out: this API server does not take it");
}

void SliceSync::sync() {
  if (stopped_ || !listed_ || !desired_ || running_ || holding_) return;
  if (!desired_error_.empty()) return tell();
  const auto uses_features = [](const WireSlice& w) { return w.has_lists || w.has_mapping; };
  if (!version_known_ && std::any_of(wire_->begin(), wire_->end(), uses_features)) return;

  std::vector<DesiredSlice> want;
  for (const WireSlice& wire : *wire_) {
    const auto found = accepted_.find(wire.content);
    want.push_back({wire.content, found == accepted_.end() ? "" : found->second});
  }
  SlicePlan plan = plan_slices(options_.node, node_uid_, want, cache_.all());
  state_.generation = plan.generation;
  state_.synced = plan.actions.empty();
  if (plan.actions.empty()) {
    write_error_.clear();
    write_backoff_.reset();
    refused_backoff_.reset();
    conflict_backoff_.reset();
    return tell();
  }
  tell();
  begin(std::move(plan));
}

void SliceSync::begin(SlicePlan plan) {
  const auto kind_is = [&plan](Kind kind) {
    return std::any_of(plan.actions.begin(), plan.actions.end(),
                       [kind](const auto& a) { return a.kind == kind; });
  };
  const bool needs_owner =
      kind_is(Kind::kCreate) ? !owner_is_fresh() : kind_is(Kind::kUpdate) && node_uid_.empty();
  if (needs_owner) return read_node();
  const auto now = Deadline::Clock::now();
  if (const auto wait = budget_.wait(now); wait > Deadline::Clock::duration::zero()) {
    return hold(std::chrono::ceil<milliseconds>(wait));
  }
  budget_.pay(plan.actions.size(), now);
  running_ = true;
  auto run = std::make_shared<Run>();
  run->target = {options_.driver, options_.node, node_uid_, plan.generation, wire_->size()};
  run->wire = wire_;
  run->plan = std::move(plan);
  step(run);
}

void SliceSync::step(const std::shared_ptr<Run>& run) {
  if (run->next == run->plan.actions.size()) {
    running_ = false;
    return sync();
  }
  const SliceAction& action = run->plan.actions[run->next];
  Request request;
  request.path = kSlices;
  if (action.kind != Kind::kCreate) request.path += "/" + url_escape(action.known.name);
  switch (action.kind) {
    case Kind::kDelete:
      request.method = Method::kDelete;
      request.body = delete_body(action.known.uid, action.known.resource_version);
      break;
    case Kind::kUpdate:
      request.method = Method::kPut;
      request.body = update_body(run->target, action.known, (*run->wire)[action.index]);
      break;
    case Kind::kCreate:
      request.method = Method::kPost;
      request.body = create_body(run->target, action.index, (*run->wire)[action.index]);
      break;
  }
  run->sent = request.body;
  client_.send(std::move(request), Deadline::after(options_.timing.request_limit),
               [weak = weak_from_this(), run](Result<Response> answer) {
                 const auto self = weak.lock();
                 if (self && !self->stopped_) self->answered(run, std::move(answer));
               });
}

void SliceSync::answered(const std::shared_ptr<Run>& run, Result<Response> answer) {
  const SliceAction& action = run->plan.actions[run->next];
  if (!answer.ok()) return failed(run, answer.error(), 0);
  if (action.kind == Kind::kDelete && (answer->ok() || answer->status == 404)) {
    cache_.deleted(action.known);
    const Locked lock(mutex_);
    ++stats_.deletes;
  } else if (answer->ok()) {
    note_written(run, *answer);
  } else {
    return failed(run, status_error(*answer), answer->status);
  }
  ++run->next;
  step(run);
}

void SliceSync::note_written(const std::shared_ptr<Run>& run, const Response& answer) {
  const SliceAction& action = run->plan.actions[run->next];
  {
    const Locked lock(mutex_);
    ++(action.kind == Kind::kCreate ? stats_.creates : stats_.updates);
  }
  Result<ServerSlice> slice = parse_slice(answer.body);
  if (!slice.ok()) {  // written, but in which form? Only a list can tell.
    count_error(std::move(slice).error().while_doing("reading the answer to a slice"), write_error_);
    return relist();
  }
  const std::string& sent = (*run->wire)[action.index].content;
  if (slice->content != sent) {
    accepted_.insert_or_assign(sent, slice->content);
    warn(fmt::format("the API server dropped fields of slice {} of pool \"{}\": {}", action.index,
                     options_.node, describe_dropped(run->sent, answer.body)));
  }
  cache_.written(*std::move(slice));
}

void SliceSync::failed(const std::shared_ptr<Run>& run, const Error& error, int status) {
  const SliceAction& action = run->plan.actions[run->next];
  running_ = false;
  const char* verb = action.kind == Kind::kDelete   ? "deleting"
                     : action.kind == Kind::kUpdate ? "updating"
                                                    : "creating";
  const std::string what = action.kind == Kind::kCreate
                               ? fmt::format("{} slice {}", verb, action.index)
                               : fmt::format("{} slice \"{}\"", verb, action.known.name);
  if (status == 404 && action.kind == Kind::kUpdate) {
    cache_.deleted(action.known);  // somebody deleted it, the watch will say so, too
    node_stale_ = true;
    return sync();
  }
  if ((status == 422 || status == 400) && leave_out(error)) return sync();
  count_error(Error(error).while_doing(what), write_error_);
  if (status == 422 || status == 400) return hold(refused_backoff_.next());
  if (status == 409) {
    hold(conflict_backoff_.next());
    return relist();
  }
  hold(write_backoff_.next());
  // Cut off or answered 5xx: nobody knows whether the write was done.
  if (status == 0 || status >= 500) relist();
}

// After a refusal: true if it may have been about an optional field, which is then left out from now on.
bool SliceSync::leave_out(const Error& error) {
  const auto uses = [this](bool WireSlice::*field) {
    return std::any_of(wire_->begin(), wire_->end(), [field](const WireSlice& w) { return w.*field; });
  };
  const SliceFeatures before = features_;
  if (uses(&WireSlice::has_mapping) && error.text.find("nodeAllocatable") != std::string::npos) {
    features_.mapping = SliceFeatures::Mapping::kNone;
  } else if (uses(&WireSlice::has_lists) && error.text.find("attributes") != std::string::npos) {
    features_.lists = false;
  }
  if (features_ == before) return false;
  encode();
  return true;
}

void SliceSync::hold(milliseconds delay) {
  holding_ = true;
  client_.post_after(delay, [weak = weak_from_this(), number = ++hold_number_] {
    const auto self = weak.lock();
    if (!self || self->stopped_ || number != self->hold_number_) return;
    self->holding_ = false;
    self->sync();
  });
}

void SliceSync::relist() {
  listed_ = false;
  reflector_->list();
}

void SliceSync::warn(const std::string& text) {
  if (!warned_.insert(text).second) return;
  observe::log_warning("Slice fields left out", {{"driver", options_.driver}, {"reason", text}});
  if (calls_.on_warning) calls_.on_warning(text);
}

void SliceSync::count_error(const Error& error, std::string& where) {
  {
    const Locked lock(mutex_);
    ++stats_.api_errors;
  }
  observe::log_error("Publishing slices failed, will retry", error, {{"driver", options_.driver}});
  where = error.text;
  tell();
}

void SliceSync::tell() {
  PublisherState now = state_;
  now.slices = cache_.size();
  now.error.clear();
  for (const std::string* text : {&desired_error_, &write_error_, &node_error_, &watch_error_}) {
    if (now.error.empty()) now.error = *text;
  }
  if (!desired_error_.empty()) now.synced = false;
  state_ = now;
  {
    const Locked lock(mutex_);
    stats_.lists = reflector_ ? reflector_->lists() : 0;
    stats_.watches = reflector_ ? reflector_->watches() : 0;
    if (stats_.state == now) return;
    stats_.state = now;
  }
  if (calls_.on_state && !stopped_) calls_.on_state(now);
}

PublisherStats SliceSync::stats() const {
  const Locked lock(mutex_);
  return stats_;
}

}  // namespace dracpu::kube
