// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

#include "trunk.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "nri/mux.h"

namespace dracpu::sandbox {

Trunk::Trunk(UniqueFd socket, Serve serve) : socket_(std::move(socket)), serve_(std::move(serve)) {
  reader_ = std::thread([this] { read_all(); });
  server_ = std::thread([this] { serve_all(); });
}

Trunk::~Trunk() {
  close();
  reader_.join();
  server_.join();
}

void Trunk::close() {
  open_ = false;
  ::shutdown(socket_.get(), SHUT_RDWR);
  const std::lock_guard<std::mutex> lock(mutex_);
  changed_.notify_all();
}

Status Trunk::send(std::uint32_t connection, const std::string& message) {
  const std::string bytes = nri::encode_message(connection, message);
  const std::lock_guard<std::mutex> lock(write_mutex_);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::send(socket_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return make_error(Errc::kUnavailable, "ttrpc: closed");
    done += static_cast<std::size_t>(n);
  }
  return ok_status();
}

Result<nri::Response> Trunk::call(const std::string& method, std::string payload,
                                  std::chrono::milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  nri::Request request;
  request.service = "nri.pkg.api.v1alpha1.Plugin";
  request.method = method;
  request.payload = std::move(payload);
  request.timeout_nano = std::chrono::nanoseconds(timeout).count();
  std::unique_lock<std::mutex> lock(mutex_);
  // The id is taken even if the message turns out to be too long, so ids have gaps as the real ones do.
  const std::uint32_t stream = next_stream_;
  next_stream_ += 2;
  Result<std::string> message = nri::encode_request(stream, request);
  if (!message.ok()) return std::move(message).error();
  waiting_[stream];
  if (Status s = send(nri::kPluginConnection, *message); !s.ok()) {
    waiting_.erase(stream);
    return std::move(s).error();
  }
  while (open_ && !waiting_[stream]) {
    if (changed_.wait_until(lock, until) == std::cv_status::timeout) break;
  }
  std::optional<nri::Response> answer = std::move(waiting_[stream]);
  waiting_.erase(stream);
  if (answer) return *std::move(answer);
  lock.unlock();
  const bool late = open_;
  close();
  return make_error(Errc::kUnavailable, "{}: {}", method,
                    late ? "no answer in time, plugin closed" : "ttrpc: closed");
}

void Trunk::take(std::uint32_t connection, nri::Message message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (connection == nri::kRuntimeConnection && message.type == nri::MessageType::kRequest) {
    requests_.push_back(std::move(message));
  } else if (connection == nri::kPluginConnection && message.type == nri::MessageType::kResponse) {
    const auto it = waiting_.find(message.stream);
    if (it == waiting_.end()) return;  // nobody waits any more
    Result<nri::Response> response = nri::parse_response(message.data);
    it->second =
        response.ok()
            ? *std::move(response)
            : nri::Response{static_cast<std::int32_t>(nri::Code::kInternal), response.error().text, {}};
  }
  changed_.notify_all();
}

void Trunk::read_all() {
  nri::FrameParser parser;
  nri::MessageAssembler from_plugin(nri::kMaxSendData);  // what Go accepts
  nri::MessageAssembler from_client(nri::kMaxSendData);
  std::array<char, 65536> buffer{};
  while (open_) {
    const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    const Status fed = parser.feed(
        {buffer.data(), static_cast<std::size_t>(n)}, [&](std::uint32_t connection, std::string_view piece) {
          nri::MessageAssembler& assembler = connection == nri::kPluginConnection ? from_plugin : from_client;
          assembler.feed(piece, [&](nri::Message m) { take(connection, std::move(m)); });
        });
    if (!fed.ok()) break;
  }
  close();
}

void Trunk::serve_all() {
  nri::StreamIdCheck ids;
  for (;;) {
    nri::Message message;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !open_ || !requests_.empty(); });
      if (!open_) return;
      message = std::move(requests_.front());
      requests_.pop_front();
    }
    std::string reply;
    if (const auto refused = ids.refuse(message.stream)) {
      reply = nri::encode_error(message.stream, nri::Code::kInvalidArgument, *refused);
    } else if (Result<nri::Request> request = nri::parse_request(message.data); !request.ok()) {
      reply = nri::encode_error(message.stream, nri::Code::kInvalidArgument, request.error().text);
    } else {
      const nri::Response response = serve_(*request);
      reply = response.code == 0
                  ? nri::encode_response(message.stream, response.payload)
                  : nri::encode_error(message.stream, static_cast<nri::Code>(response.code), response.text);
    }
    (void)send(nri::kRuntimeConnection, reply);  // a closed trunk shows in the reader
  }
}

}  // namespace dracpu::sandbox
