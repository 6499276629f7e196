// SPDX-License-Identifier: Apache-2.0
// Copyright The dracpu authors

// Frames of the NRI trunk: many byte streams ("connections") in one socket. The same for both ends.
//
// Source  spec nri-wire 1.4 to 1.6. A frame is a connection id and a payload length, both 32-bit big-endian,
//         and the payload. Frame borders mean nothing to a receiver of ours, but the Go receiver loses frames
//         that are not cut as split_message() cuts them.
// Errors  kCorrupt from the parser: close the socket, the stream cannot be trusted any more.
// Cost    The parser keeps at most eight bytes; payload is handed on as it comes.
// Threads A parser belongs to the thread that reads; the functions keep no state.

#ifndef DRACPU_NRI_MUX_H_
#define DRACPU_NRI_MUX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dracpu::nri {

inline constexpr std::uint32_t kPluginConnection = 1;   // served by the plugin, called by the runtime
inline constexpr std::uint32_t kRuntimeConnection = 2;  // served by the runtime, called by the plugin

inline constexpr std::size_t kFrameHeaderSize = 8;
// Spec 1.5: 16 MiB of data and a ttrpc header. A larger announcement is not a peer that we know.
inline constexpr std::size_t kMaxFramePayload = 16'777'226;
// Spec 1.6: the buffer that the Go receiver offers while it looks for a message header.
inline constexpr std::size_t kFirstFrameMax = 4096;

// Cuts frames out of the bytes of the trunk, in pieces of any size.
class FrameParser {
 public:
  // Called with non-empty pieces of the two connections, in order. Pieces need not be whole frames.
  using Sink = std::function<void(std::uint32_t connection, std::string_view piece)>;

  // Payload of other ids than 1 and 2 is dropped, empty frames are ignored. After an error every further call
  // gives the same error.
  Status feed(std::string_view bytes, const Sink& sink);

  std::uint64_t dropped_bytes() const { return dropped_bytes_; }

 private:
  std::array<char, kFrameHeaderSize> header_{};
  std::size_t header_used_ = 0;
  std::uint32_t connection_ = 0;
  std::size_t payload_left_ = 0;
  std::uint64_t dropped_bytes_ = 0;
  bool broken_ = false;
};

struct Frame {
  std::array<char, kFrameHeaderSize> header{};
  std::string_view payload;
};

// One ttrpc message (header included) as one or two frames that refer to it: the whole if it has at most 4096
// bytes, otherwise the first 4096 and all the rest. Frames of one message follow each other on the socket and
// are never shared with another message.
class MessageFrames {
 public:
  MessageFrames(std::uint32_t connection, std::string_view message);
  std::span<const Frame> frames() const { return {frames_.data(), count_}; }

 private:
  std::array<Frame, 2> frames_;
  std::size_t count_ = 1;
};

// The same as bytes, for tests and stand-ins.
std::string encode_message(std::uint32_t connection, std::string_view message);

// 32-bit big-endian, as both headers use it. `at` has four bytes.
void put_u32(char* at, std::uint32_t value);
std::uint32_t get_u32(const char* at);

}  // namespace dracpu::nri

#endif  // DRACPU_NRI_MUX_H_
