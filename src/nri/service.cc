// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "nri/service.h"

#include <malloc.h>

#include <chrono>
#include <utility>

#include "nri/ttrpc.h"
#include "observe/log.h"

namespace dracpu::nri {
namespace {

// 12 would make the runtime fall back to StateChange (spec 4.6), and 8 would make it cut Synchronize into
// smaller pieces (spec 2.5); neither is what an error of the handler means.
Code code_of(Errc code, Method method) {
  switch (code) {
    case Errc::kInvalidInput:
      return Code::kInvalidArgument;
    case Errc::kNotFound:
      return Code::kNotFound;
    case Errc::kNoCapacity:
      return method == Method::kSynchronize ? Code::kFailedPrecondition : Code::kResourceExhausted;
    case Errc::kConflict:
    case Errc::kUnsupported:
      return Code::kFailedPrecondition;
    case Errc::kUnavailable:
      return Code::kUnavailable;
    case Errc::kCorrupt:
      return Code::kDataLoss;
    case Errc::kInternal:
      break;
  }
  return Code::kInternal;
}

void refuse(Session& session, const Call& call, const Error& error) {
  session.answer(call.stream, encode_error(call.stream, code_of(error.code, call.method), error.text));
}

// False when it is too late to begin; then the call is refused, unless the session has done so already.
bool in_time(Session& session, const Call& call) {
  if (session.wanted(call.stream) && !call.deadline.passed()) return true;
  session.answer(call.stream, encode_error(call.stream, Code::kDeadlineExceeded,
                                           "the CPU driver was busy until the deadline"));
  return false;
}

bool answer_empty(Session& session, const Call& call) {
  return session.answer(call.stream, encode_response(call.stream, {}));
}

}  // namespace

void Service::handle(Session& session, const Call& call) {
  switch (call.method) {
    case Method::kConfigure:
      return configure(session, call);
    case Method::kSynchronize:
      return synchronize(session, call);
    case Method::kCreateContainer:
      return create(session, call);
    case Method::kUpdateContainer:
      return update(session, call);
    case Method::kStopContainer:
      return stop(session, call);
    case Method::kRemoveContainer:
      return remove(session, call);
    case Method::kStateChange:
      return state_change(session, call);
    case Method::kEmptyReply:
      answer_empty(session, call);
      return;
  }
}

void Service::end(const Error& reason) {
  sync_.clear();
  if (std::exchange(configured_, false)) handler_.on_disconnect(reason);
}

void Service::configure(Session& session, const Call& call) {
  if (!in_time(session, call)) return;
  const Result<RuntimeInfo> runtime = parse_configure(call.payload);
  if (!runtime) return refuse(session, call, runtime.error());
  session.set_configured(runtime->request_timeout);
  configured_ = true;
  handler_.on_configure(*runtime);
  session.answer(call.stream, encode_response(call.stream, encode_configure_reply(kEventMask)));
}

void Service::synchronize(Session& session, const Call& call) {
  const Result<bool> more =
      in_time(session, call) ? sync_.add(call.payload) : make_error(Errc::kUnavailable, "too late to begin");
  if (!more) {
    sync_.clear();
    return refuse(session, call, more.error());
  }
  if (*more) {
    session.answer(call.stream, encode_response(call.stream, encode_sync_more()));
    return;
  }
  synchronize_all(session, call);
  if (session.is_synchronized()) return;
  // The runtime closes now, except before NRI 0.7, where the connection would stay open and silent
  // (spec 4.4).
  session.close_at(Deadline::after(std::chrono::seconds(2)),
                   Error{Errc::kUnavailable, "synchronization did not succeed"});
}

void Service::synchronize_all(Session& session, const Call& call) {
  const Result<std::vector<ContainerUpdate>> updates = handler_.on_synchronize(sync_.take(), call.deadline);
  if (!updates) {
    observe::log_error("NRI synchronization failed", updates.error());
    return refuse(session, call, updates.error());
  }
  if (!reply_updates(session, call, *updates)) return;
  session.set_synchronized();
  ++synchronized_;
  handler_.on_synchronized();
  // The chunks of a large node are megabytes, freed by now, but glibc would keep the pages for the next time.
  ::malloc_trim(0);
}

void Service::create(Session& session, const Call& call) {
  if (!in_time(session, call)) return;
  const Result<ContainerInfo> container = parse_container(call.payload);
  if (!container) return refuse(session, call, container.error());
  const Result<CreateAnswer> answer = handler_.on_create(*container, call.deadline);
  if (!answer) return refuse(session, call, answer.error());
  const Result<EncodedUpdates> reply = encode_create_reply(container->id, *answer, kMaxSendData);
  if (!reply) {
    observe::log_error("NRI answer cannot be sent", reply.error(), {{"container", container->id.get()}});
    refuse(session, call, reply.error());
    return not_applied(answer->updates, 0, container->id);
  }
  if (session.answer(call.stream, encode_response(call.stream, reply->payload))) {
    return not_applied(answer->updates, reply->sent, std::nullopt);
  }
  not_applied(answer->updates, 0, container->id);
}

void Service::update(Session& session, const Call& call) {
  if (!in_time(session, call)) return;
  const Result<ContainerInfo> container = parse_update(call.payload);
  if (!container) return refuse(session, call, container.error());
  const Result<std::vector<ContainerUpdate>> updates = handler_.on_update(*container, call.deadline);
  if (!updates) return refuse(session, call, updates.error());
  reply_updates(session, call, *updates);
}

// A stop or removal has happened, whether we are late or not: the handler hears of it in any case.
void Service::stop(Session& session, const Call& call) {
  const Result<ContainerInfo> container = parse_container(call.payload);
  if (!container) return refuse(session, call, container.error());
  const Result<std::vector<ContainerUpdate>> updates = handler_.on_stop(*container, call.deadline);
  if (!updates) return refuse(session, call, updates.error());
  reply_updates(session, call, *updates);
}

void Service::remove(Session& session, const Call& call) {
  const Result<ContainerInfo> container = parse_container(call.payload);
  if (!container) return refuse(session, call, container.error());
  handler_.on_remove(*container);
  answer_empty(session, call);
}

void Service::state_change(Session& session, const Call& call) {
  const Result<StateChange> change = parse_state_change(call.payload);
  if (!change) return refuse(session, call, change.error());
  if (change->removed) handler_.on_remove(change->container);
  answer_empty(session, call);
}

bool Service::reply_updates(Session& session, const Call& call, const std::vector<ContainerUpdate>& updates) {
  const Result<EncodedUpdates> reply = encode_updates(updates, 0, kMaxSendData);
  if (!reply) {
    observe::log_error("NRI answer cannot be sent", reply.error());
    refuse(session, call, reply.error());
    not_applied(updates, 0, std::nullopt);
    return false;
  }
  const bool sent = session.answer(call.stream, encode_response(call.stream, reply->payload));
  not_applied(updates, sent ? reply->sent : 0, std::nullopt);
  return sent;
}

void Service::not_applied(const std::vector<ContainerUpdate>& updates, std::size_t first,
                          const std::optional<ContainerId>& created) {
  std::vector<ContainerId> ids;
  for (std::size_t i = first; i < updates.size(); ++i) ids.push_back(updates[i].id);
  if (ids.empty() && !created) return;
  observe::log_warning("NRI answer did not reach the runtime in full",
                       {{"created", created ? created->get() : "-"},
                        {"updatesLost", ids.size()},
                        {"updates", updates.size()}});
  handler_.on_not_applied(created, ids);
}

}  // namespace dracpu::nri
