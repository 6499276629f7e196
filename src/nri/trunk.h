// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// The socket below the multiplexer: dialling, sending whole messages, waiting for a socket file to appear.
//
// Errors  kNotFound no such socket file, kUnavailable nobody answers or the peer is gone, kInvalidInput a
// path
//         or descriptor that can never work
// Threads send_message(): one caller at a time per socket. SocketWatch: one thread.

#ifndef DRACPU_NRI_TRUNK_H_
#define DRACPU_NRI_TRUNK_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace dracpu::nri {

// A connected stream socket, close-on-exec, blocking. Does not wait: a full backlog is kUnavailable.
Result<UniqueFd> dial(const std::filesystem::path& path);

// The descriptor named by NRI_PLUGIN_SOCKET (spec 1.3), set close-on-exec.
Result<UniqueFd> adopt_inherited(std::string_view number);

// Sends all frames of one ttrpc message, in one sendmsg() per frame where the kernel allows. After an error
// the stream is no longer in step: close it. Respects the socket's SO_SNDTIMEO.
Status send_message(int socket, std::uint32_t connection, std::string_view message);

// A write that does not advance for this long is an error: the peer has stopped reading.
Status set_send_timeout(int socket, std::chrono::milliseconds timeout);

// Notices a socket file that appears, also when its directory does not exist yet: watches the nearest
// directory that does. Without inotify (no watches left) only the time limit of wait() remains.
class SocketWatch {
 public:
  enum class Woke { kChange, kTime, kStop };

  // `stop_fd` becomes readable when the owner stops.
  SocketWatch(std::filesystem::path path, int stop_fd) : path_(std::move(path)), stop_fd_(stop_fd) {}

  // Call before looking at the path, so that a change between the look and wait() is seen.
  void arm();
  Woke wait(std::chrono::milliseconds limit);

 private:
  bool read_events();

  std::filesystem::path path_;
  int stop_fd_;
  UniqueFd inotify_;
  std::string awaited_;  // name in the watched directory
};

}  // namespace dracpu::nri

#endif  // DRACPU_NRI_TRUNK_H_
